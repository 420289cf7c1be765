//! This program on a host: it runs parts of a run in its folder, passes their files on, and ends with the connection.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufReader, StdoutLock, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use harness::command_line::SUITE_COMMAND;
use harness::drivers::entries;
use harness::launcher;
use harness::live::{LIVE, Tail};
use harness::signals::Signals;
use harness::store::RESULT;
use load::clock;
use nix::sys::signal::{Signal, raise};
use nix::sys::statvfs::statvfs;
use subject::host;
use subject::manifest::Roots;
use tokio::process::Command;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinSet;

use super::message::{self, FileKind, FromHost, HostState, READY, ToHost};
use super::{PROJECT, RUN, files_below};
use crate::child::{self, Ending};
use crate::doctor;

/// Time without a message after which the connection is lost, if parts run. Before that a message may be a large file.
const SILENCE: Duration = Duration::from_secs(30);
/// Time between two readings of the folder until the start, and after it: a reading uses the processor of the load.
const POLL: Duration = Duration::from_millis(20);
const POLL_DURING_LOAD: Duration = Duration::from_millis(200);
/// Time between two requests to end. Two signals at once are one.
const BETWEEN_SIGNALS: Duration = Duration::from_millis(200);
/// The variable in which sshd names the two addresses of a connection.
const CONNECTION: &str = "SSH_CONNECTION";

/// Identifies a version of a file.
type Stamp = (u64, i64, i64, u64);

#[derive(Debug)]
struct Agent {
    out: StdoutLock<'static>,
    parts: JoinSet<(String, io::Result<Ending>)>,
    /// The seconds of the parts that run, by the folders of the parts.
    seconds: BTreeMap<String, Tail>,
    /// The files of the run that both sides have.
    known: BTreeMap<String, Stamp>,
}

/// Serves the program that has started this one, until the connection ends.
///
/// # Errors
/// The folder cannot be read or written, or the connection is lost.
pub(super) fn serve() -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{READY}")?;
    out.flush()?;
    let agent = Agent {
        out,
        parts: JoinSet::new(),
        seconds: BTreeMap::new(),
        known: BTreeMap::new(),
    };
    let (sender, messages) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut from = BufReader::new(io::stdin());
        while let Ok(Some(message)) = message::receive(&mut from) {
            if sender.send(message).is_err() {
                return;
            }
        }
    });
    let runtime = launcher::runtime()?;
    let served = runtime.block_on(agent.serve(messages));
    // A thread that reads would keep it from ending.
    runtime.shutdown_background();
    served
}

impl Agent {
    async fn serve(
        mut self,
        mut messages: UnboundedReceiver<(ToHost, Vec<u8>)>,
    ) -> anyhow::Result<()> {
        // From now on a request to end is for the parts.
        let _signals = Signals::listen().context("listening for signals")?;
        let mut heard = tokio::time::Instant::now();
        let served = loop {
            let poll = self.poll();
            tokio::select! {
                message = messages.recv() => match message {
                    Some((message, content)) => {
                        heard = tokio::time::Instant::now();
                        if let Err(error) = self.receive(message, &content) {
                            break Err(error);
                        }
                    }
                    None => break Ok(()),
                },
                Some(ended) = self.parts.join_next() => {
                    if let Err(error) = ended.context("a part").and_then(|ended| self.end(ended)) {
                        break Err(error);
                    }
                }
                () = tokio::time::sleep(poll) => {
                    if let Err(error) = self.pass_on() {
                        break Err(error);
                    }
                }
                () = tokio::time::sleep_until(heard + SILENCE), if !self.parts.is_empty() => {
                    break Ok(());
                }
            }
        };
        // The first request asks for the rest of the load, the second for the end.
        while !self.parts.is_empty() {
            raise(Signal::SIGINT)?;
            let _ = tokio::time::timeout(BETWEEN_SIGNALS, self.parts.join_next()).await;
        }
        served
    }

    fn poll(&self) -> Duration {
        if self.known.contains_key("go") || self.parts.is_empty() {
            POLL_DURING_LOAD
        } else {
            POLL
        }
    }

    fn send(&mut self, message: &FromHost, content: &[u8]) -> anyhow::Result<()> {
        message::send(&mut self.out, message, content).context("sending")
    }

    fn receive(&mut self, message: ToHost, content: &[u8]) -> anyhow::Result<()> {
        match message {
            ToHost::Ping => self.send(
                &FromHost::Pong {
                    unix_ns: clock::unix_ns(),
                },
                &[],
            ),
            ToHost::File { path, kind } => self.store(&path, kind, content),
            ToHost::Check { daemons, shards } => {
                let state = FromHost::Checked(Box::new(state(&daemons, &shards)?));
                self.send(&state, &[])
            }
            ToHost::Start {
                part,
                suite,
                program,
                arguments,
            } => {
                let mut command = Command::new(Path::new(".").join(program));
                command.args(arguments).env(SUITE_COMMAND, suite);
                self.start(part, command)
            }
            ToHost::Interrupt => raise(Signal::SIGINT).context("interrupting the parts"),
            ToHost::Clear => {
                self.known.clear();
                if Path::new(RUN).exists() {
                    fs::remove_dir_all(RUN).context("removing the last run")?;
                }
                fs::create_dir(RUN).context("creating the folder of the run")
            }
        }
    }

    fn store(&mut self, path: &str, kind: FileKind, content: &[u8]) -> anyhow::Result<()> {
        let file = kind.store(Path::new("."), path, content)?;
        if let Some(name) = path.strip_prefix("run/") {
            self.known
                .extend(stamp(&file).map(|stamp| (name.to_owned(), stamp)));
        }
        Ok(())
    }

    fn start(&mut self, part: String, mut command: Command) -> anyhow::Result<()> {
        command
            .env("DROVER_ROOT", std::path::absolute(PROJECT)?)
            .env_remove("DROVER_PROGRAMS");
        let mut signals = Signals::listen().context("listening for signals")?;
        let seconds = Path::new(RUN).join(&part).join(LIVE);
        self.seconds.insert(part.clone(), Tail::new(seconds));
        self.parts.spawn(async move {
            let ended = child::run(command, &mut signals, || ()).await;
            (part, ended)
        });
        Ok(())
    }

    /// Sends the files of the run that are new or have changed, and the seconds of its parts.
    fn pass_on(&mut self) -> anyhow::Result<()> {
        for path in entries(Path::new(RUN)) {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let Some(stamp) = stamp(&path).filter(|_| !name.starts_with('.')) else {
                continue;
            };
            if self.known.get(&name) == Some(&stamp) {
                continue;
            }
            // Files are replaced as a whole: one that has just been replaced is sent again.
            if let Ok(content) = fs::read(&path) {
                let path = name.clone();
                let kind = FileKind::Whole;
                self.send(&FromHost::File { path, kind }, &content)?;
                self.known.insert(name, stamp);
            }
        }
        let tails = self.seconds.iter_mut();
        let new: Vec<_> = tails
            .map(|(part, tail)| (part.clone(), tail.lines()))
            .collect();
        for (part, lines) in new.into_iter().filter(|(_, lines)| !lines.is_empty()) {
            let path = format!("{part}/{LIVE}");
            let kind = FileKind::Piece;
            let piece = lines.join("\n") + "\n";
            self.send(&FromHost::File { path, kind }, piece.as_bytes())?;
        }
        Ok(())
    }

    /// Sends the result of a part that has ended.
    fn end(&mut self, (part, ended): (String, io::Result<Ending>)) -> anyhow::Result<()> {
        self.pass_on()?;
        self.seconds.remove(&part);
        let mut files = files_below(&Path::new(RUN).join(&part));
        // The result is the last: it is complete if it is there.
        files.sort_by_key(|file| file.ends_with(RESULT));
        for file in files {
            let content = fs::read(&file).with_context(|| format!("reading {}", file.display()))?;
            let path = file.strip_prefix(RUN).unwrap_or(&file);
            let path = path.to_string_lossy().into_owned();
            let kind = FileKind::Whole;
            self.send(&FromHost::File { path, kind }, &content)?;
        }
        let (code, problem) = match ended {
            Ok(ending) => (ending.status.code(), ending.stderr),
            Err(error) => (None, error.to_string()),
        };
        self.send(
            &FromHost::Ended {
                part,
                code,
                problem,
            },
            &[],
        )
    }
}

/// Returns the state of this host for what it will launch.
fn state(daemons: &[doctor::Needs], shards: &[doctor::Needs]) -> anyhow::Result<HostState> {
    let machine = host::machine();
    let folder = std::env::current_dir()?;
    let system = statvfs(&folder).context("reading the free space")?;
    let project = Roots::from(Path::new(PROJECT));
    let findings = doctor::check_host(&project, daemons, shards, &machine);
    let connection = std::env::var(CONNECTION).unwrap_or_default();
    Ok(HostState {
        free_bytes: system.blocks_available() * system.fragment_size(),
        address: connection.split(' ').nth(2).and_then(|it| it.parse().ok()),
        findings,
        machine,
    })
}

fn stamp(path: &Path) -> Option<Stamp> {
    let file = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some((file.ino(), file.mtime(), file.mtime_nsec(), file.len()))
}
