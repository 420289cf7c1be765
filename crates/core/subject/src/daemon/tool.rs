//! Runs commands other than the daemon itself: checks of its tools, its build, its version.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// Time limit of a command: a tool that does not report its version by then is stuck.
const LIMIT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Bytes of output that are read: no version is longer.
const MOST_OUTPUT: u64 = 64 << 10;

/// Builds a command of a manifest from its expanded words, with only the given environment.
pub(super) fn command(
    words: &[String],
    directory: &Path,
    environment: &BTreeMap<OsString, OsString>,
) -> Command {
    let (program, arguments) = words
        .split_first()
        .expect("a manifest is refused when a command is empty");
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(environment)
        .current_dir(directory)
        .stdin(Stdio::null());
    command
}

/// Runs a short command. Returns its exit status, and its standard output followed by its standard error.
pub(super) fn output(
    words: &[String],
    directory: &Path,
    environment: &BTreeMap<OsString, OsString>,
) -> io::Result<(ExitStatus, String)> {
    // Files, because a command that prints a lot would block on a pipe that is not read.
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut child = command(words, directory, environment)
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        .spawn()?;
    let mut waited = Duration::ZERO;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if waited >= LIMIT {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("did not end within {} s", LIMIT.as_secs()),
            ));
        }
        std::thread::sleep(POLL_INTERVAL);
        waited += POLL_INTERVAL;
    };
    Ok((status, read(&mut stdout)? + &read(&mut stderr)?))
}

fn read(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(MOST_OUTPUT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Describes how a command ended, as half a sentence.
pub(super) fn ending(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => exited(code),
        (None, Some(signal)) => killed(signal),
        (None, None) => format!("ended as {status}"),
    }
}

pub(super) fn exited(code: i32) -> String {
    format!("exited with status {code}")
}

pub(super) fn killed(signal: i32) -> String {
    match nix::sys::signal::Signal::try_from(signal) {
        Ok(signal) => format!("was killed by {signal}"),
        Err(_) => format!("was killed by signal {signal}"),
    }
}

/// Formats a command as a person would type it.
pub(super) fn shown(words: &[String]) -> String {
    let quoter = shlex::Quoter::new().allow_nul(true);
    let words = words.iter().map(String::as_str);
    quoter.join(words).expect("NUL is allowed")
}
