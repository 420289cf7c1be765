//! One run of a suite, divided over the hosts. The files by which the parts agree on the start are passed on from each host
//! to the others, and all are in the folder of the run here in the end, as if it had been common to all.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use harness::command_line::command_line;
use harness::divided::shard_folder;
use harness::drivers::entries;
use harness::live::{LIVE, LiveSecond};
use harness::output;
use harness::signals::Signals;
use harness::store::RESULT;
use tokio::process::Command;

use super::hosts::Hosts;
use super::message::{FileKind, FromHost, ToHost};
use super::session::{Event, Session};
use super::{PlacedHost, RUN};
use crate::child;
use crate::driver_run::{self, Outcome};
use crate::folder::Folder;
use crate::matrix::PlannedRun;
use crate::record::FailureKind;
use crate::watch::add;

/// The folder of the daemon's part.
const DAEMON: &str = "daemon";
/// Prefixes of the folders of shards, and of the files in which parts say that they failed.
const SHARD: &str = "shard-";
const FAILED: &str = "failed-";
const PLAN: &str = "plan.toml";
/// Time between two updates of the progress.
const TICK: Duration = Duration::from_millis(250);
/// Time that the hosts have after two requests to end; then the connections are closed.
const LAST_GRACE: Duration = Duration::from_secs(10);

impl PlacedHost {
    /// Describes its parts.
    pub(super) fn parts(&self) -> String {
        let daemon = self.has_daemon.then(|| DAEMON.to_owned());
        let shards = match self.shards.end - self.shards.start {
            0 => None,
            1 => Some("1 shard".to_owned()),
            shards => Some(format!("{shards} shards")),
        };
        let parts: Vec<String> = daemon.into_iter().chain(shards).collect();
        parts.join(" + ")
    }

    /// Returns the folders of its parts.
    fn folders(&self) -> impl Iterator<Item = String> {
        let daemon = self.has_daemon.then(|| DAEMON.to_owned());
        daemon
            .into_iter()
            .chain(self.shards.clone().map(shard_folder))
    }
}

/// A part that has ended without a result.
#[derive(Debug)]
struct Problem {
    part: String,
    /// The host and the error.
    text: String,
    code: Option<i32>,
}

/// The state of a run.
#[derive(Debug)]
struct RunState<'a> {
    folder: &'a Path,
    /// The parts that have not ended, with their hosts.
    open: BTreeMap<String, usize>,
    /// The parts that have no result, in order.
    problems: Vec<Problem>,
    /// The first part that failed: the others may end because of it.
    cause: Option<String>,
    seconds: SecondSum,
    interrupts: u32,
}

impl Hosts {
    /// Runs all parts of a run, and merges their results with the driver. The second value is true if this program was
    /// asked to end meanwhile.
    ///
    /// # Errors
    /// A host was lost in an earlier run, or the folder cannot be written.
    pub(crate) async fn run(
        &mut self,
        program: &Path,
        folder: &Folder,
        run: &PlannedRun,
        signals: &mut Signals,
        mut tick: impl FnMut(),
    ) -> anyhow::Result<(Outcome, bool)> {
        if let Some(lost) = self.lost() {
            anyhow::bail!(
                "{lost}\nthe host was lost: repeat the command to connect again and continue"
            );
        }
        let into = run.id.folder(folder.path());
        self.start(program, folder, run)?;
        let hosts = self.placed.iter().enumerate();
        let parts = hosts.flat_map(|(index, host)| host.folders().map(move |part| (part, index)));
        let mut running = RunState {
            folder: &into,
            open: parts.collect(),
            problems: Vec::new(),
            cause: None,
            seconds: SecondSum::default(),
            interrupts: 0,
        };
        let mut ticks = tokio::time::interval(TICK);
        let deadline = tokio::time::sleep(Duration::MAX);
        tokio::pin!(deadline);
        while !running.open.is_empty() {
            tokio::select! {
                Some((host, event)) = self.next() => self.receive(host, event, &mut running)?,
                () = signals.next() => {
                    running.interrupts += 1;
                    let interrupt = |session: &Session| session.send(ToHost::Interrupt, &Arc::default());
                    self.sessions.iter().for_each(interrupt);
                    if running.interrupts == 2 {
                        deadline.as_mut().reset(tokio::time::Instant::now() + LAST_GRACE);
                    }
                }
                () = &mut deadline, if running.interrupts > 1 => break,
                _ = ticks.tick() => tick(),
            }
        }
        // It is for programs that watch the run.
        let _ = fs::remove_file(into.join(LIVE));
        let asked_to_end = running.interrupts > 0;
        Ok((merge(program, folder, run, running).await?, asked_to_end))
    }

    /// Starts all parts.
    fn start(&self, program: &Path, folder: &Folder, run: &PlannedRun) -> anyhow::Result<()> {
        let plan = fs::read(folder.plan()).context("reading the plan of the suite")?;
        let plan: Arc<[u8]> = plan.into();
        let program = program.file_name().unwrap_or_default().to_string_lossy();
        let files = ["--plan", PLAN, "--result-dir", RUN].map(str::to_owned);
        let common: Vec<String> = driver_run::arguments(run, None)
            .into_iter()
            .chain(files)
            .collect();
        let shards = self.placed.iter().map(|host| host.shards.end).max();
        let of = shards.unwrap_or_default();
        for (host, session) in self.placed.iter().zip(&self.sessions) {
            let start = |part: String, own: Vec<String>| {
                let start = ToHost::Start {
                    part,
                    suite: command_line("drover"),
                    program: program.clone().into_owned(),
                    arguments: common.iter().cloned().chain(own).collect(),
                };
                session.send(start, &Arc::default());
            };
            session.send(ToHost::Clear, &Arc::default());
            let file = ToHost::File {
                path: PLAN.to_owned(),
                kind: FileKind::Whole,
            };
            session.send(file, &plan);
            if host.has_daemon {
                let listen = self.listen.map(|address| format!("--listen={address}"));
                let role = ["--role=daemon".to_owned()].into_iter().chain(listen);
                start(DAEMON.to_owned(), role.collect());
            }
            for index in host.shards.clone() {
                let role = if self.own_daemons { "both" } else { "load" };
                let own = vec![format!("--shard={index}/{of}"), format!("--role={role}")];
                start(shard_folder(index), own);
            }
        }
        Ok(())
    }

    fn receive(&self, from: usize, event: Event, running: &mut RunState<'_>) -> anyhow::Result<()> {
        match event {
            Event::Message(FromHost::File { path, kind }, content) => {
                let failed = path.strip_prefix(FAILED).map(part_of);
                running.cause = running.cause.take().or(failed);
                self.pass_on(from, &path, kind, &content, running)
            }
            Event::Message(
                FromHost::Ended {
                    part,
                    code,
                    problem,
                },
                _,
            ) => {
                if running.open.remove(&part).is_some() {
                    self.end(from, &part, code, &problem, running);
                }
                Ok(())
            }
            Event::Lost(reason) => {
                let parts: Vec<String> = self.placed[from].folders().collect();
                for part in parts {
                    if running.open.remove(&part).is_some() {
                        let problem = format!("the host was lost: {reason}");
                        self.end(from, &part, None, &problem, running);
                    }
                }
                Ok(())
            }
            Event::Ready | Event::Message(FromHost::Pong { .. } | FromHost::Checked(_), _) => {
                Ok(())
            }
        }
    }

    /// Keeps a file, and gives the other hosts those that parts wait for: all hosts the files of the run, and the host of
    /// the daemon the seconds and results of the shards.
    fn pass_on(
        &self,
        from: usize,
        path: &str,
        kind: FileKind,
        content: &[u8],
        running: &mut RunState<'_>,
    ) -> anyhow::Result<()> {
        let stored = kind.store(running.folder, path, content);
        let file = stored.with_context(|| format!("from {}", self.placed[from].name))?;
        let is_other = |index: usize, _: &PlacedHost| index != from;
        if !path.contains('/') {
            self.give(path, kind, content, is_other);
        } else if file.ends_with(RESULT) || kind == FileKind::Piece {
            let waits = |index, host: &PlacedHost| is_other(index, host) && host.has_daemon;
            self.give(path, kind, content, waits);
        }
        if kind == FileKind::Piece {
            running.seconds.add(running.folder, path, content);
        }
        Ok(())
    }

    /// Sends a file of the run to some hosts.
    fn give(
        &self,
        path: &str,
        kind: FileKind,
        content: &[u8],
        to: impl Fn(usize, &PlacedHost) -> bool,
    ) {
        let content: Arc<[u8]> = content.into();
        for (index, (host, session)) in self.placed.iter().zip(&self.sessions).enumerate() {
            let path = format!("{RUN}/{path}");
            if to(index, host) {
                session.send(ToHost::File { path, kind }, &content);
            }
        }
    }

    /// Notes the end of a part. The others wait no longer for one that has no result.
    fn end(
        &self,
        host: usize,
        part: &str,
        code: Option<i32>,
        problem: &str,
        running: &mut RunState<'_>,
    ) {
        let live = format!("{part}/{LIVE}");
        running.seconds.latest.remove(&live);
        // It is for programs that watch the run.
        let _ = fs::remove_file(running.folder.join(live));
        if running.folder.join(part).join(RESULT).exists() {
            return;
        }
        let name = &self.placed[host].name;
        // Notes may precede the error.
        let error = problem.split_once("error: ");
        let problem = match error.map_or(problem, |(_, error)| error) {
            "" => "ended without a result or an error message",
            problem => problem,
        };
        // A part that has told the others is known already.
        running.cause.get_or_insert_with(|| part.to_owned());
        running.problems.push(Problem {
            part: part.to_owned(),
            text: format!("{name} ({part}): {problem}"),
            code,
        });
        let index = part.strip_prefix(SHARD).unwrap_or(part);
        let (failed, reason) = (format!("{FAILED}{index}"), format!("{name}: {problem}"));
        // The result says it too.
        let _ = FileKind::Whole.store(running.folder, &failed, reason.as_bytes());
        self.give(&failed, FileKind::Whole, reason.as_bytes(), |_, _| true);
    }
}

/// Returns the folder of the part whose failure a file tells: `failed-0`, or `failed-daemon`.
fn part_of(failed: &str) -> String {
    match failed.parse() {
        Ok(index) => shard_folder(index),
        Err(_) => failed.to_owned(),
    }
}

/// Merges the results of the parts.
async fn merge(
    program: &Path,
    folder: &Folder,
    run: &PlannedRun,
    running: RunState<'_>,
) -> anyhow::Result<Outcome> {
    let into = running.folder;
    let has_result = |path: &Path| path.join(RESULT).exists();
    let parts = entries(into);
    let mut shards = parts.iter().filter(|part| !part.ends_with(DAEMON));
    if !shards.any(|part| has_result(part)) {
        if running.interrupts > 0 {
            return Ok(Outcome::Interrupted);
        }
        let is_cause = |problem: &&Problem| running.cause.as_ref() == Some(&problem.part);
        let cause = running.problems.iter().find(is_cause);
        let cause = cause.or(running.problems.first());
        let limit = i32::from(harness::failure::LIMIT);
        let is_limit = cause.is_some_and(|problem| problem.code == Some(limit));
        return Ok(Outcome::Unreached {
            why: if is_limit {
                FailureKind::Limit
            } else {
                FailureKind::Failed
            },
            reason: cause.map_or_else(String::new, |problem| problem.text.clone()),
        });
    }
    for problem in &running.problems {
        output::note(&problem.text);
    }
    let mut command = Command::new(program);
    command.arg("merge").arg(into).arg("--quiet");
    let mut signals = Signals::listen().context("listening for signals")?;
    let mut ending = child::run(command, &mut signals, || ())
        .await
        .with_context(|| format!("starting {}", program.display()))?;
    ending.interrupts += running.interrupts;
    Ok(driver_run::outcome(folder, &run.id, &ending))
}

/// The sum of the seconds of all shards, for programs that watch the run.
#[derive(Debug, Default)]
struct SecondSum {
    /// The latest second of each shard that runs, by the path of its file.
    latest: BTreeMap<String, LiveSecond>,
    /// The latest second that was written.
    written: Option<u64>,
}

impl SecondSum {
    /// Adds the seconds of a shard, and appends the sum to the file of the run once all shards have reached it.
    fn add(&mut self, folder: &Path, shard: &str, lines: &[u8]) {
        let mut lines = lines.rsplit(|byte| *byte == b'\n');
        let Some(last) = lines.find_map(|line| serde_json::from_slice(line).ok()) else {
            return;
        };
        self.latest.insert(shard.to_owned(), last);
        let Some(sum) = self.sum().filter(|sum| self.written < Some(sum.second)) else {
            return;
        };
        self.written = Some(sum.second);
        let line = serde_json::to_string(&sum).unwrap_or_default();
        // It is informative: a full disk ends the file, not the run.
        let _ = FileKind::Piece.store(folder, LIVE, format!("{line}\n").as_bytes());
    }

    fn sum(&self) -> Option<LiveSecond> {
        let mut shards = self.latest.values();
        let mut sum = shards.next()?.clone();
        for shard in shards {
            sum.second = sum.second.min(shard.second);
            add(&mut sum, shard);
        }
        // The line does not say whose they are.
        (sum.p50_ns, sum.p99_ns) = (None, None);
        Some(sum)
    }
}

#[cfg(test)]
mod tests {
    use harness::live::{End, Phase, Tail};

    use super::*;

    #[test]
    fn a_second_is_the_sum_of_all_shards_once_each_has_reached_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut written = Tail::new(folder.path().join(LIVE));
        let mut sum = SecondSum::default();
        let mut rates = |shard: &str, second, rate| {
            let second = LiveSecond {
                second,
                phase: Phase::Measure,
                end: End::AtMost(9),
                latest: 9,
                started: 10 * rate,
                ok: 0,
                failed: 1,
                open: 2,
                rate,
                p50_ns: Some(1),
                p99_ns: Some(2),
                connections: None,
            };
            let line = serde_json::to_string(&second).unwrap();
            sum.add(folder.path(), shard, line.as_bytes());
            let lines = written.lines();
            let read = lines.iter().map(|line| serde_json::from_str(line).unwrap());
            let read = read.map(|it: LiveSecond| (it.second, it.rate, it.started, it.p99_ns));
            read.collect::<Vec<_>>()
        };
        assert_eq!(rates("a", 1, 100), [(1, 100, 1_000, None)]);
        assert_eq!(rates("a", 2, 100), [(2, 100, 1_000, None)]);
        assert_eq!(rates("b", 2, 50), []);
        assert_eq!(rates("a", 3, 100), []);
        assert_eq!(rates("b", 3, 50), [(3, 150, 1_500, None)]);
    }
}
