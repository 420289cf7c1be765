//! Takes CPU samples of daemon and driver during a run, with `perf`, and draws them as flame graphs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek as _};
use std::ops::Range;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use clap::ValueEnum;
use inferno::collapse::Collapse as _;
use inferno::collapse::perf::Folder as Stacks;
use inferno::flamegraph::{self, Options};
use load::plan::Invalid;
use measure::warning::Warning;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use subject::daemon::set_pdeathsig;
use subject::usage;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, Command};

use super::Settings;
use crate::signals::Signals;
use crate::store::Folder;

/// Takes 99 samples a second of each thread that runs, so that they do not keep step with timers. The clock of the CPU is
/// there on virtual machines too, and CLOCK_MONOTONIC is the clock of the run. Stacks are copied and unwound later,
/// because neither Rust nor libc has frame pointers. The data has no file of its own name, and `perf` keeps no copy of the
/// programs.
const RECORD: &str = "record --event cpu-clock --freq 99 --call-graph dwarf --clockid CLOCK_MONOTONIC --no-buildid --no-buildid-cache --control fd:0,2 --output -";
/// Prints the samples. Inlined functions would need a call of `addr2line` for each address.
const SCRIPT: &str = "script --input - --no-inline --fields comm,pid,tid,time,event,ip,sym,dso";
/// Time that `perf` has to end.
const GRACE: Duration = Duration::from_secs(5);
const INTERRUPTED: &str = "the drawing was interrupted";

/// The sides of a run whose CPU samples are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Sampled {
    /// The daemon.
    Daemon,
    /// The driver.
    Driver,
    /// Daemon and driver.
    Both,
}

impl Sampled {
    /// Returns the option of a command line that asks for it.
    #[must_use]
    pub fn option(self) -> [String; 2] {
        let value = self.to_possible_value().expect("no value is skipped");
        ["--flamegraph".to_owned(), value.get_name().to_owned()]
    }
}

/// The CPU samples of a run while they are taken.
#[derive(Debug, Default)]
pub(super) struct FlameGraphs(Vec<Recording>);

/// A `perf` that takes the samples of one side.
#[derive(Debug)]
struct Recording {
    side: &'static str,
    perf: Child,
    data: File,
    /// Stdin and stderr. `perf` would be killed by the signal of a closed pipe.
    _pipes: (ChildStdin, BufReader<ChildStderr>),
}

/// The CPU samples of a run that has ended.
#[derive(Debug, Default)]
pub(super) struct CpuSamples {
    /// Number of samples in the flame graph of each side.
    pub(super) counts: BTreeMap<String, u64>,
    pub(super) warnings: Vec<Warning>,
}

impl FlameGraphs {
    /// Begins to take samples, also of threads and processes that the processes of a side start later. `driver` are the
    /// driver's own processes: `perf` (6.1) cannot unwind the stacks of most that start later, because it looks for their
    /// program at their parent's address too.
    ///
    /// # Errors
    /// A side has no process here, or `perf` is missing or may not sample it.
    pub(super) async fn start(
        settings: &Settings,
        daemon: &[u32],
        driver: &[u32],
        folder: &Folder,
    ) -> anyhow::Result<Self> {
        // A daemon that ran already may have started this program.
        let daemon = || ("daemon", usage::tree(daemon, &[std::process::id()]));
        let drives = settings.workers() > 0;
        let driver = || ("driver", Vec::from(if drives { driver } else { &[] }));
        let sides = match settings.flamegraph {
            None => Vec::new(),
            Some(Sampled::Daemon) => vec![daemon()],
            Some(Sampled::Driver) => vec![driver()],
            Some(Sampled::Both) => vec![daemon(), driver()],
        };
        let mut recordings = Vec::new();
        for (side, pids) in sides {
            recordings.push(Recording::start(side, &pids, folder).await?);
        }
        Ok(Self(recordings))
    }

    /// Returns the processes that take the samples.
    pub(super) fn pids(&self) -> Vec<u32> {
        let pids = self.0.iter().filter_map(|recording| recording.perf.id());
        pids.collect()
    }

    /// Ends the sampling, and draws the samples of the `measured` time, nanoseconds of CLOCK_MONOTONIC. `driver` are the
    /// driver's own processes. A signal ends the drawing, and a user who is in a hurry gets none.
    pub(super) async fn finish(
        mut self,
        measured: Range<u64>,
        driver: &[u32],
        folder: &Folder,
        hurried: bool,
        signals: &mut Signals,
    ) -> CpuSamples {
        let mut samples = CpuSamples::default();
        for recording in &mut self.0 {
            let ended = recording.stop().await;
            samples.missing(recording.side, ended.err());
        }
        for mut recording in self.0 {
            let drawn = tokio::select! {
                biased;
                () = signals.next(), if !hurried => Err(anyhow!(INTERRUPTED)),
                drawn = recording.draw(&measured, driver, folder), if !hurried => drawn,
                else => Err(anyhow!(INTERRUPTED)),
            };
            let side = recording.side;
            let count = drawn.as_ref().map_or(0, |count| *count);
            samples.counts.insert(side.to_owned(), count);
            samples.missing(side, drawn.err());
        }
        let note = Warning::samples_taken(&samples.counts);
        samples.warnings.extend(note);
        samples
    }
}

impl CpuSamples {
    fn missing(&mut self, side: &str, why: Option<anyhow::Error>) {
        let warning = why.map(|why| Warning::samples_missing(side, &format!("{why:#}")));
        self.warnings.extend(warning);
    }
}

impl Recording {
    async fn start(side: &'static str, pids: &[u32], folder: &Folder) -> anyhow::Result<Self> {
        let refused = |problem: String| Invalid::new(format!("--flamegraph {side}"), problem);
        if pids.is_empty() {
            let problem = "has no process here that is known: run it where that side runs, or name the processes of a running daemon with --pid";
            return Err(refused(problem.to_owned()).into());
        }
        // Without a name, so that nothing is left of it however this program ends.
        let data =
            tempfile::tempfile_in(folder.path()).context("creating a file for CPU samples")?;
        let mut command = perf(RECORD);
        command
            .arg("--pid")
            .arg(list(pids))
            .stdin(Stdio::piped())
            .stdout(data.try_clone()?)
            .stderr(Stdio::piped());
        let mut perf = command.spawn().map_err(|error| {
            refused(format!(
                "perf cannot be started ({error}): install it (Debian: linux-perf, Ubuntu: linux-tools-generic, Fedora: perf)"
            ))
        })?;
        // It answers once it takes samples, or ends. What a side starts earlier would have no name.
        let mut control = perf.stdin.take().context("stdin is piped")?;
        let mut messages = BufReader::new(perf.stderr.take().context("stderr is piped")?);
        let _ = control.write_all(b"enable\n").await;
        let mut text = String::new();
        while !text.ends_with("ack\n") {
            if messages.read_line(&mut text).await? == 0 {
                return Err(refused(not_allowed(&text)).into());
            }
        }
        Ok(Self {
            side,
            perf,
            data,
            _pipes: (control, messages),
        })
    }

    /// Ends the sampling. It ends by itself with the last process that it samples.
    ///
    /// # Errors
    /// It had failed before.
    async fn stop(&mut self) -> anyhow::Result<()> {
        if let Some(status) = self.perf.try_wait()? {
            ensure!(status.success(), "perf ended ({status})");
        } else if let Some(pid) = self.perf.id() {
            // It may have ended meanwhile.
            let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGINT);
            let ended = tokio::time::timeout(GRACE, self.perf.wait()).await;
            ended.context("perf does not end")??;
        }
        Ok(())
    }

    /// Draws the samples of the measured time. Returns their number; without any there is no file.
    async fn draw(
        &mut self,
        measured: &Range<u64>,
        driver: &[u32],
        folder: &Folder,
    ) -> anyhow::Result<u64> {
        self.data.rewind()?;
        let mut command = perf(SCRIPT);
        command.args([
            "--time",
            &format!("{},{}", seconds(measured.start), seconds(measured.end)),
        ]);
        if self.side == "driver" {
            // It also starts what is not the driver, such as a daemon after a fault.
            command.arg("--pid").arg(list(driver));
        }
        let mut script = command
            .stdin(self.data.try_clone()?)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let stacks = script
            .stdout
            .take()
            .context("stdout is piped")?
            .into_owned_fd()?;
        let name = format!("flamegraph-{}.svg", self.side);
        let title = format!("CPU samples of the {} in the measured time", self.side);
        let folded = tokio::task::spawn_blocking(move || fold(File::from(stacks))).await??;
        let status = script.wait().await?;
        let number = folded.lines().filter_map(count).sum();
        ensure!(
            number > 0 || status.success(),
            "perf script ended ({status})"
        );
        if number > 0 {
            draw(&folded, title, folder.create(&name)?)?;
        }
        Ok(number)
    }
}

/// Returns a call of `perf` that ends with this program. Ctrl-C does not reach it.
fn perf(arguments: &str) -> Command {
    let mut command = Command::new("perf");
    command
        .args(arguments.split(' '))
        .env("PERF_CONFIG", "/dev/null")
        .process_group(0)
        .kill_on_drop(true);
    set_pdeathsig(command.as_std_mut(), Signal::SIGKILL);
    command
}

/// Returns the problem of a `perf` that could not begin.
fn not_allowed(stderr: &str) -> String {
    let setting = "/proc/sys/kernel/perf_event_paranoid";
    let value = std::fs::read_to_string(setting).unwrap_or_default();
    let first = stderr
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let first: Vec<&str> = first.take(2).collect();
    format!(
        "perf cannot take samples here ({}): kernel.perf_event_paranoid is {}; run as root, or allow it (sysctl kernel.perf_event_paranoid=1; in a container also the capability PERFMON)",
        first.join(" "),
        value.trim()
    )
}

/// Returns processes as options of `perf` list them.
fn list(pids: &[u32]) -> String {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    pids.join(",")
}

/// Returns an instant as options of `perf` take it.
fn seconds(ns: u64) -> String {
    format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000)
}

/// Adds up equal stacks: one in each line, with its count.
fn fold(stacks: impl Read) -> anyhow::Result<String> {
    let mut folded = Vec::new();
    Stacks::default().collapse(io::BufReader::new(stacks), &mut folded)?;
    Ok(String::from_utf8(folded)?)
}

fn count(line: &str) -> Option<u64> {
    line.rsplit_once(' ')?.1.parse().ok()
}

fn draw(folded: &str, title: String, to: File) -> anyhow::Result<()> {
    let mut options = Options::default();
    options.title = title;
    options.deterministic = true;
    Ok(flamegraph::from_lines(
        &mut options,
        folded.lines(),
        BufWriter::new(to),
    )?)
}
