//! `fdpass-gen check`: compares the answers of daemons with the shared transcript.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, ensure};
use harness::failure::Failure;
use harness::launcher::Launcher;
use harness::verify::check::{self, Finding};
use load::clock;
use load::plan::Invalid;
use subject::daemon::{Daemon, Prepared};

use crate::cli::CheckArgs;
use crate::client::{after, read_to_end};
use crate::counters::Page;
use crate::handoff::{ClientKind, Clients, HandoffEndpoint, SocketType, pass};
use crate::spec::SPEC;
use crate::transcript::{Case, Difference, Transcript};

/// Time without data after which a daemon has stopped.
const IDLE_NS: u64 = 10_000_000_000;
/// Time that a full accept queue may stay full.
const QUEUE: Duration = Duration::from_secs(5);

/// Checks the daemons given on the command line. Returns true if all answers and counts are correct.
///
/// # Errors
/// A wrong call, or a failure that has nothing to do with a daemon.
pub(crate) fn run(typed: &CheckArgs) -> Result<bool, Failure> {
    let transcript = Transcript::golden();
    match &typed.socket {
        Some(socket) => check_running(socket, typed.messages, &transcript),
        None => check::check_prepared(&SPEC.protocol, &typed.options, |launcher, prepared| {
            let answers = compare(launcher, prepared, &transcript);
            vec![answers.finding(prepared.name(), "")]
        }),
    }
}

/// The answers of one daemon.
#[derive(Debug, Default)]
struct Answers {
    count: usize,
    equal: usize,
    counts: usize,
    problems: Vec<String>,
}

impl Answers {
    /// Compares one answer. Returns true if it is equal.
    fn take(&mut self, kind: SocketType, case: &Case, came: anyhow::Result<Vec<u8>>) -> bool {
        self.count += 1;
        let difference =
            came.map(|came| Difference::between(case.whole_answer().as_bytes(), &came));
        match difference {
            Ok(None) => self.equal += 1,
            Ok(Some(ref difference)) => self.add(kind, &case.name, &difference.to_string()),
            Err(ref error) => self.add(kind, &case.name, &format!("{error:#}")),
        }
        matches!(difference, Ok(None))
    }

    fn add(&mut self, kind: SocketType, what: &str, problem: &str) {
        let kind = kind.name();
        self.problems.push(format!("  {kind}, {what}: {problem}"));
    }

    /// Returns the finding about the daemon, with one more line for each problem.
    fn finding(self, daemon: &str, remark: &str) -> Finding {
        let Self { count, equal, .. } = self;
        let counts = match self.counts {
            0 => String::new(),
            counts => format!(", {counts} counts compared"),
        };
        let compared = format!("{equal} of {count} answers match the transcript{counts}{remark}");
        let found = match self.problems.as_slice() {
            [] => Ok(compared),
            problems => Err(anyhow!("{compared}\n{}", problems.join("\n"))),
        };
        Finding {
            name: daemon.to_owned(),
            found,
        }
    }
}

/// Checks a running daemon with the cases that match its number of events.
fn check_running(socket: &Path, messages: u32, transcript: &Transcript) -> Result<bool, Failure> {
    let (kind, endpoint) = HandoffEndpoint::find(socket)?;
    let (asked, skipped): (Vec<&Case>, Vec<&Case>) = transcript
        .cases
        .iter()
        .partition(|case| case.messages == messages);
    if asked.is_empty() {
        let known: Vec<String> = transcript.messages().iter().map(u32::to_string).collect();
        let problem = format!(
            "no case has this number of events: let the daemon send one of {}",
            known.join(", ")
        );
        return Err(Invalid::new(format!("--messages {messages}"), problem).into());
    }
    let mut answers = Answers::default();
    for (case, came) in asked.iter().zip(ask(&endpoint, &asked)) {
        answers.take(kind, case, came);
    }
    let skipped: Vec<&str> = skipped.iter().map(|case| case.name.as_str()).collect();
    let remark = match skipped.as_slice() {
        [] => String::new(),
        names => format!(
            "; skipped, for other numbers of events: {}",
            names.join(", ")
        ),
    };
    check::print(&[answers.finding(&socket.display().to_string(), &remark)])
}

/// Runs all cases on both types of socket, with one launch for each number of events.
fn compare(launcher: &Launcher, prepared: &Prepared, transcript: &Transcript) -> Answers {
    let mut answers = Answers::default();
    for kind in SocketType::BOTH {
        for messages in transcript.messages() {
            let cases = transcript.cases.iter();
            let cases: Vec<&Case> = cases.filter(|case| case.messages == messages).collect();
            let variables = [
                ("DAEMON_SOCKET_TYPE", kind.name()),
                ("DAEMON_MESSAGE_COUNT", &messages.to_string()),
                ("DAEMON_MESSAGE_DELAY", "0"),
            ];
            let compared = launcher.with(prepared, &variables, |daemon| {
                compare_with(launcher, daemon, kind, &cases, &mut answers)
            });
            if let Err(error) = compared.map_err(anyhow::Error::from).flatten() {
                answers.add(kind, &format!("{messages} events"), &format!("{error:#}"));
            }
        }
    }
    answers
}

/// Runs the cases of one launch in turn, so that a wrong count belongs to one of them.
fn compare_with(
    launcher: &Launcher,
    daemon: &Daemon,
    kind: SocketType,
    cases: &[&Case],
    answers: &mut Answers,
) -> anyhow::Result<()> {
    let daemon_endpoint = daemon.endpoint();
    let socket = daemon_endpoint.socket.as_deref();
    let socket = socket.context("its manifest does not use {socket}")?;
    let endpoint = HandoffEndpoint::new(socket, kind)?;
    let mut counts = Counts::default();
    for case in cases {
        let came = ask(&endpoint, &[*case]).remove(0);
        let is_silent = came.is_err();
        let is_equal = answers.take(kind, case, came);
        if let Some(death) = launcher.death(daemon, !is_equal) {
            answers.add(kind, &case.name, &death);
            break;
        }
        if is_silent {
            let skipped = format!(
                "the cases after it with {} events are skipped",
                case.messages
            );
            answers.add(kind, &case.name, &skipped);
            break;
        }
        let Some(url) = &daemon_endpoint.metrics else {
            continue;
        };
        answers.counts += 2;
        if let Err(error) = counts.check(launcher, url, case.invalid) {
            answers.add(kind, &case.name, &format!("{error:#}"));
        }
    }
    Ok(())
}

/// The daemon's counters so far, so that a wrong count is reported once.
#[derive(Debug, Default)]
struct Counts {
    handoffs: f64,
    invalid: f64,
}

impl Counts {
    /// Checks the counters after a client has read its whole stream: one more handoff, and one more invalid payload if
    /// `is_invalid`.
    fn check(&mut self, launcher: &Launcher, url: &str, is_invalid: bool) -> anyhow::Result<()> {
        let page = Page::fetch(launcher, url)?;
        let value = |name, reason| page.value(name, reason).unwrap_or(0.0);
        let now = Self {
            handoffs: value("daemon_handoffs_total", None),
            invalid: value("daemon_handoff_errors_total", Some("invalid_json")),
        };
        let before = std::mem::replace(self, now);
        let rose = self.handoffs - before.handoffs;
        ensure!(
            rose == 1.0,
            "daemon_handoffs_total rose by {rose} after one handoff"
        );
        let (rose, expected) = (
            self.invalid - before.invalid,
            f64::from(u8::from(is_invalid)),
        );
        ensure!(
            rose == expected,
            "invalid_json rose by {rose}, expected {expected}"
        );
        Ok(())
    }
}

/// Hands over one client for each case, then reads all answers.
fn ask(endpoint: &HandoffEndpoint, cases: &[&Case]) -> Vec<anyhow::Result<Vec<u8>>> {
    let clients: Vec<anyhow::Result<OwnedFd>> = cases
        .iter()
        .map(|case| hand_over(endpoint, &case.payload))
        .collect();
    // Shared by all clients: waiting for the tenth answer includes waiting for the first.
    let mut heard = clock::now();
    clients
        .into_iter()
        .map(|client| read_answer(&client?, &mut heard))
        .collect()
}

/// Reads a whole answer. Gives up if the daemon has sent nothing to any client since `heard` for too long.
fn read_answer(client: &OwnedFd, heard: &mut u64) -> anyhow::Result<Vec<u8>> {
    let mut is_first = true;
    let until = || {
        // Updated after each piece.
        if !std::mem::take(&mut is_first) {
            *heard = clock::now();
        }
        heard.saturating_add(IDLE_NS)
    };
    read_to_end(client, until)
}

fn hand_over(endpoint: &HandoffEndpoint, payload: &[u8]) -> anyhow::Result<OwnedFd> {
    let handoff = endpoint.connect_until(after(QUEUE)).context("connecting")?;
    let (ours, theirs) = Clients::new(ClientKind::Unix)?.open()?;
    pass(&handoff, payload, theirs.as_raw_fd()).context("handing over")?;
    Ok(ours)
}
