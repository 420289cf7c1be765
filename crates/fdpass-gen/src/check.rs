//! `fdpass-gen check`: compares the answers of daemons with the shared transcript.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use harness::failure::Failure;
use harness::launcher::Launcher;
use harness::verify::check::{self, Finding};
use load::clock;
use load::plan::Invalid;
use nix::errno::Errno;
use subject::daemon::{Daemon, Prepared};

use crate::cli::CheckArgs;
use crate::client::{after, read_to_end};
use crate::counters::Page;
use crate::driver::explain;
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
        let problem = match came {
            Ok(came) => Difference::between(case.whole_answer().as_bytes(), &came)
                .map(|difference| difference.to_string()),
            Err(error) => Some(format!("{error:#}")),
        };
        match problem {
            None => self.equal += 1,
            Some(ref problem) => self.add(kind, &case.name, problem),
        }
        problem.is_none()
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
    let kind = socket_type(socket)?;
    let endpoint = endpoint(socket, kind).map_err(Failure::Call)?;
    let (asked, passed_over): (Vec<&Case>, Vec<&Case>) = transcript
        .cases
        .iter()
        .partition(|case| case.messages == messages);
    if asked.is_empty() {
        let known: Vec<String> = transcript.messages().iter().map(u32::to_string).collect();
        return Err(Invalid::new(
            format!("--messages {messages}"),
            format!(
                "no case has this number of events: let the daemon send one of {}",
                known.join(", ")
            ),
        )
        .into());
    }
    let mut answers = Answers::default();
    for (case, came) in asked.iter().zip(ask(&endpoint, &asked)) {
        answers.take(kind, case, came);
    }
    let passed_over: Vec<&str> = passed_over.iter().map(|case| case.name.as_str()).collect();
    let remark = match passed_over.as_slice() {
        [] => String::new(),
        names => format!(
            "; skipped, for other numbers of events: {}",
            names.join(", ")
        ),
    };
    check::print(&[answers.finding(&socket.display().to_string(), &remark)])
}

/// Connects to find out if a daemon listens, and on which type of socket.
pub(crate) fn socket_type(socket: &Path) -> Result<SocketType, Failure> {
    for kind in SocketType::BOTH {
        match endpoint(socket, kind).map_err(Failure::Call)?.connect() {
            Ok(_) => return Ok(kind),
            Err(Errno::EPROTOTYPE) => {}
            Err(errno) => return Err(explain(socket, errno).into()),
        }
    }
    Err(explain(socket, Errno::EPROTOTYPE).into())
}

/// Returns the endpoint of a daemon.
pub(crate) fn endpoint(socket: &Path, kind: SocketType) -> anyhow::Result<HandoffEndpoint> {
    HandoffEndpoint::new(socket, kind).map_err(|_| {
        let field = format!("--socket {}", socket.display());
        let problem = "is longer than a socket address can be (107 bytes): use a shorter path";
        Invalid::new(field, problem).into()
    })
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
                compare_with(launcher, daemon, kind, &cases, &mut answers);
            });
            if let Err(error) = compared {
                let what = format!("{messages} events");
                answers.add(kind, &what, &error.to_string());
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
) {
    let Some(socket) = &daemon.endpoint().socket else {
        answers.add(kind, "start", "its manifest does not use {socket}");
        return;
    };
    let metrics = daemon.endpoint().metrics.as_deref();
    let mut counted = Counted::default();
    let endpoint = match endpoint(socket, kind) {
        Ok(endpoint) => endpoint,
        Err(error) => return answers.add(kind, "start", &format!("{error:#}")),
    };
    for case in cases {
        let came = ask(&endpoint, &[*case]).remove(0);
        let is_silent = came.is_err();
        let is_equal = answers.take(kind, case, came);
        if let Some(death) = launcher.death(daemon, !is_equal) {
            return answers.add(kind, &case.name, &death);
        }
        if is_silent {
            let rest = format!(
                "the cases after it with {} events are skipped",
                case.messages
            );
            return answers.add(kind, &case.name, &rest);
        }
        let Some(url) = metrics else { continue };
        answers.counts += 2;
        let page = Page::fetch(launcher, url);
        match page.and_then(|page| counted.compare(&page, case.invalid)) {
            Ok(()) => {}
            Err(error) => answers.add(kind, &case.name, &format!("{error:#}")),
        }
    }
}

/// The daemon's counters so far, so that a wrong count is reported once.
#[derive(Debug, Default)]
struct Counted {
    invalid: f64,
    handoffs: f64,
}

impl Counted {
    /// Compares the counters after a client has read its whole stream: one more handoff, and one more invalid payload
    /// if `invalid`.
    fn compare(&mut self, page: &Page, invalid: bool) -> anyhow::Result<()> {
        let (before_invalid, before_handoffs) = (self.invalid, self.handoffs);
        self.invalid = page
            .value("daemon_handoff_errors_total", Some("invalid_json"))
            .unwrap_or(0.0);
        self.handoffs = page.value("daemon_handoffs_total", None).unwrap_or(0.0);
        let rose = self.handoffs - before_handoffs;
        if rose != 1.0 {
            bail!("daemon_handoffs_total rose by {rose} after one handoff");
        }
        let (rose, wanted) = (self.invalid - before_invalid, f64::from(u8::from(invalid)));
        if rose != wanted {
            bail!("invalid_json rose by {rose}, expected {wanted}");
        }
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
    read_to_end(client, until).map_err(|(came, unread)| {
        anyhow::anyhow!(
            "{unread}, after {} bytes: \"{}\"",
            came.len(),
            came[came.len().saturating_sub(80)..].escape_ascii()
        )
    })
}

fn hand_over(endpoint: &HandoffEndpoint, payload: &[u8]) -> anyhow::Result<OwnedFd> {
    let handoff = connect(endpoint, after(QUEUE)).context("connecting")?;
    let (ours, theirs) = Clients::new(ClientKind::Unix)?.open()?;
    pass(&handoff, payload, theirs.as_raw_fd()).context("handing over")?;
    Ok(ours)
}

/// Connects. Waits until `until` while the accept queue is full.
pub(crate) fn connect(endpoint: &HandoffEndpoint, until: u64) -> nix::Result<OwnedFd> {
    loop {
        match endpoint.connect() {
            Err(Errno::EAGAIN) if clock::now() < until => {
                std::thread::sleep(Duration::from_millis(1));
            }
            other => return other,
        }
    }
}
