//! `fdpass-gen check`: compares the answers of daemons with the shared transcript.

use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{anyhow, ensure};
use clap::Args;
use harness::failure::Failure;
use harness::launcher::Launcher;
use harness::verify::check::{self, Finding};
use load::plan::Invalid;
use subject::daemon::{Daemon, Endpoint, Prepared};

use crate::PROTOCOL;
use crate::subject::{Subject, Watched};
use fdpass_client::client::{after, read_to_end};
use fdpass_client::handoff::{DEFAULT_MESSAGES, HandoffEndpoint, REFERENCE_SOCKET, SocketType};
use fdpass_client::transcript::{Case, Difference, Transcript};

/// Time without data to any client after which a daemon has stopped.
const IDLE: Duration = Duration::from_secs(10);
/// Time in which the daemon must accept all connections.
const QUEUE: Duration = Duration::from_secs(5);

/// Options of `check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    #[command(flatten)]
    options: check::DaemonsToCheck,
    /// Check a running daemon at this socket
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = REFERENCE_SOCKET, conflicts_with = "daemon")]
    socket: Option<PathBuf>,
    /// Set the number of events per stream of the daemon behind --socket; cases with other numbers are skipped
    #[arg(
        long,
        value_name = "N",
        default_value_t = DEFAULT_MESSAGES,
        requires = "socket",
        conflicts_with = "daemon"
    )]
    messages: u32,
}

/// Checks the daemons given on the command line. Returns true if all answers and counts are correct.
///
/// # Errors
/// A wrong call, or a failure that has nothing to do with a daemon.
pub fn run(typed: &CheckArgs) -> Result<bool, Failure> {
    let transcript = Transcript::golden();
    match &typed.socket {
        Some(socket) => check_running(socket, typed.messages, &transcript),
        None => check::check_prepared(PROTOCOL, &typed.options, |launcher, prepared| {
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
    fn take(&mut self, kind: SocketType, case: &Case, received: anyhow::Result<Vec<u8>>) -> bool {
        self.count += 1;
        let found = received.and_then(|received| {
            let difference = Difference::between(case.whole_answer().as_bytes(), &received);
            difference.map_or(Ok(()), |difference| Err(anyhow!("{difference}")))
        });
        match &found {
            Ok(()) => self.equal += 1,
            Err(problem) => self.add(kind, &case.name, problem),
        }
        found.is_ok()
    }

    fn add(&mut self, kind: SocketType, what: &str, problem: impl Display) {
        let kind = kind.name();
        self.problems.push(format!("  {kind}, {what}: {problem:#}"));
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
    let kind = HandoffEndpoint::find(socket)?;
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
    let endpoint = Endpoint {
        socket: Some(socket.to_owned()),
        ..Endpoint::default()
    };
    let launcher = Launcher::new().map_err(Failure::Run)?;
    let subject = Subject::new(&launcher, kind, &endpoint, None, QUEUE).map_err(Failure::Run)?;
    let mut answers = Answers::default();
    for (case, received) in asked.iter().zip(ask(&subject, &asked)) {
        answers.take(kind, case, received);
    }
    let skipped: Vec<&str> = skipped.iter().map(|case| case.name.as_str()).collect();
    let remark = match skipped.join(", ").as_str() {
        "" => String::new(),
        names => format!("; skipped, for other numbers of events: {names}"),
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
                answers.add(kind, &format!("{messages} events"), error);
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
    for case in cases {
        let subject = Subject::new(launcher, kind, daemon.endpoint(), Some(daemon), QUEUE)?;
        let counters = [
            subject.watch("daemon_handoffs_total"),
            subject.watch_handoffs("invalid_json"),
        ];
        let received = ask(&subject, &[*case]).remove(0);
        let is_silent = received.is_err();
        let is_equal = answers.take(kind, case, received);
        if let Some(death) = launcher.death(daemon, !is_equal) {
            answers.add(kind, &case.name, death);
            break;
        }
        if is_silent {
            let events = case.messages;
            let skipped = format!("the cases after it with {events} events are skipped");
            answers.add(kind, &case.name, skipped);
            break;
        }
        if subject.metrics.is_none() {
            continue;
        }
        answers.counts += counters.len();
        if let Err(error) = compare_counts(counters, case.invalid) {
            answers.add(kind, &case.name, error);
        }
    }
    Ok(())
}

/// Compares the counters after a client has read its whole stream: one more handoff, and one more invalid payload if
/// `is_invalid`.
fn compare_counts(
    counters: [anyhow::Result<Watched<'_>>; 2],
    is_invalid: bool,
) -> anyhow::Result<()> {
    let expected = [1.0, f64::from(u8::from(is_invalid))];
    for (counter, expected) in counters.into_iter().zip(expected) {
        let counter = counter?;
        let rise = counter.rise()?;
        ensure!(
            rise == expected,
            "{} rose by {rise} after one handoff, expected {expected}",
            counter.series
        );
    }
    Ok(())
}

/// Hands over one client for each case, then reads all answers.
fn ask(subject: &Subject<'_>, cases: &[&Case]) -> Vec<anyhow::Result<Vec<u8>>> {
    let clients: Vec<anyhow::Result<OwnedFd>> = cases
        .iter()
        .map(|case| subject.hand_over(&case.payload))
        .collect();
    // Shared by all clients: waiting for the tenth answer includes waiting for the first.
    let mut until = after(IDLE);
    clients
        .into_iter()
        .map(|client| read_to_end(&client?, &mut until, |until| *until = after(IDLE)))
        .collect()
}
