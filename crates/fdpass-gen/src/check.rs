//! `fdpass-gen check`: compares the answers of daemons with the shared transcript.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};
use harness::cli::{Failure, of_the_daemon};
use harness::launcher::{self, Launcher, remark};
use harness::output;
use load::clock;
use load::plan::Invalid;
use nix::errno::Errno;
use subject::daemon::{Daemon, DaemonError, Prepared};

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
    let launcher = Launcher::new().map_err(Failure::Run)?;
    match &typed.socket {
        Some(socket) => check_running(socket, typed.messages, &transcript),
        None => check_launched(typed, &launcher, &transcript),
    }
}

/// The findings about one daemon.
#[derive(Debug, Default)]
struct Findings {
    answers: usize,
    equal: usize,
    counts: usize,
    problems: Vec<String>,
}

impl Findings {
    /// Returns findings of a daemon that could not be checked. A wrong name or manifest is an error of the call.
    fn none(error: DaemonError) -> Result<Self, Failure> {
        let problem = format!("  {error}");
        let is_tool = matches!(error, DaemonError::ToolMissing { .. });
        match of_the_daemon(error) {
            failure @ Failure::Call(_) if !is_tool => Err(failure),
            _ => Ok(Self {
                problems: vec![problem],
                ..Self::default()
            }),
        }
    }

    /// Compares one answer. Returns true if it is equal.
    fn take(&mut self, kind: SocketType, case: &Case, came: anyhow::Result<Vec<u8>>) -> bool {
        self.answers += 1;
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

    /// Prints one line, and one more for each problem.
    fn say(&self, daemon: &str, remark: &str) -> bool {
        let Self { answers, equal, .. } = self;
        let counts = match self.counts {
            0 => String::new(),
            counts => format!(", {counts} counts compared"),
        };
        let verdict = if self.problems.is_empty() {
            "equal"
        } else {
            "DIFFERENT"
        };
        output::tell(&format!(
            "{daemon}: {verdict}, {equal} of {answers} answers match the transcript{counts}{remark}"
        ));
        self.problems
            .iter()
            .for_each(|problem| output::tell(problem));
        self.problems.is_empty()
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
    let mut findings = Findings::default();
    for (case, came) in asked.iter().zip(ask(&endpoint, &asked)) {
        findings.take(kind, case, came);
    }
    let passed_over: Vec<&str> = passed_over.iter().map(|case| case.name.as_str()).collect();
    let remark = match passed_over.as_slice() {
        [] => String::new(),
        names => format!(
            "; skipped, for other numbers of events: {}",
            names.join(", ")
        ),
    };
    Ok(findings.say(&socket.display().to_string(), &remark))
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

/// Checks launched daemons, one after the other.
fn check_launched(
    typed: &CheckArgs,
    launcher: &Launcher,
    transcript: &Transcript,
) -> Result<bool, Failure> {
    let root = launcher::root()?;
    let mut all_right = true;
    for name in launcher::named_or_all(&root, &typed.daemon, &SPEC.protocol)? {
        let findings = match launcher::prepare(&root, &name, &SPEC.protocol, typed.quiet) {
            Ok(prepared) => {
                remark(typed.quiet, &format!("checking {name}"));
                compare(launcher, &prepared, transcript)
            }
            Err(DaemonError::ToolMissing { tool, .. }) if !launcher::everything_is_required() => {
                output::tell(&format!("{name}: skipped: it needs `{tool}`"));
                continue;
            }
            Err(error) => Findings::none(error)?,
        };
        all_right &= findings.say(&name, "");
    }
    Ok(all_right)
}

/// Runs all cases on both types of socket, with one launch for each number of events.
fn compare(launcher: &Launcher, prepared: &Prepared, transcript: &Transcript) -> Findings {
    let mut findings = Findings::default();
    for kind in SocketType::BOTH {
        for messages in transcript.messages() {
            let cases = transcript.cases.iter();
            let cases: Vec<&Case> = cases.filter(|case| case.messages == messages).collect();
            let variables = [
                ("DAEMON_SOCKET_TYPE", kind.name()),
                ("DAEMON_MESSAGE_COUNT", &messages.to_string()),
                ("DAEMON_MESSAGE_DELAY", "0"),
            ];
            match launcher.start(prepared, &variables) {
                Ok(daemon) => {
                    compare_with(launcher, &daemon, kind, &cases, &mut findings);
                    launcher.stop(daemon);
                }
                Err(error) => {
                    let what = format!("{messages} events");
                    findings.add(kind, &what, &error.to_string());
                }
            }
        }
    }
    findings
}

/// Runs the cases of one launch in turn, so that a wrong count belongs to one of them.
fn compare_with(
    launcher: &Launcher,
    daemon: &Daemon,
    kind: SocketType,
    cases: &[&Case],
    findings: &mut Findings,
) {
    let Some(socket) = &daemon.endpoint().socket else {
        findings.add(kind, "start", "its manifest does not use {socket}");
        return;
    };
    let metrics = daemon.endpoint().metrics.as_deref();
    let mut counted = Counted::default();
    let endpoint = match endpoint(socket, kind) {
        Ok(endpoint) => endpoint,
        Err(error) => return findings.add(kind, "start", &format!("{error:#}")),
    };
    for case in cases {
        let came = ask(&endpoint, &[*case]).remove(0);
        let is_silent = came.is_err();
        let is_equal = findings.take(kind, case, came);
        if let Some(death) = launcher.death(daemon, !is_equal) {
            return findings.add(kind, &case.name, &death);
        }
        if is_silent {
            let rest = format!(
                "the cases after it with {} events are skipped",
                case.messages
            );
            return findings.add(kind, &case.name, &rest);
        }
        let Some(url) = metrics else { continue };
        findings.counts += 2;
        let page = Page::fetch(launcher, url);
        match page.and_then(|page| counted.compare(&page, case.invalid)) {
            Ok(()) => {}
            Err(error) => findings.add(kind, &case.name, &format!("{error:#}")),
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
