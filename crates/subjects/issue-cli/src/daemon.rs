//! Starts the daemon of a database.

use std::fs::OpenOptions;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use issue_rpc::{Client, socket_path};

use crate::failure::Failure;

const PROGRAM: &str = "issue-daemon";
/// The time that a daemon has to accept connections.
const TIMEOUT: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(5);

/// Returns true if a daemon accepts connections.
pub(crate) fn runs(database: &Path) -> bool {
    Client::connect(&socket_path(database), "").is_ok()
}

/// Starts a daemon that outlives this process, and waits until it accepts connections. Its messages go to a file beside
/// the database. If another process starts one at the same time, one of them serves.
pub(crate) fn start(database: &Path, prefix: Option<&str>) -> Result<(), Failure> {
    let log_path = PathBuf::from(format!("{}.log", database.display()));
    let failed =
        |problem: String| Failure::Unanswered(format!("no daemon could be started: {problem}"));
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&log_path)
        .map_err(|error| failed(format!("cannot write {}: {error}", log_path.display())))?;
    let program = program();
    let mut child = Command::new(&program)
        .arg("--db")
        .arg(database)
        .args(prefix.map(|prefix| format!("--prefix={prefix}")))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        // A signal of the terminal to this process must not stop it.
        .process_group(0)
        .spawn()
        .map_err(|error| {
            let program = program.display();
            failed(format!(
                "{program}: {error}: install it beside `issue` or in a folder of PATH"
            ))
        })?;
    for _ in 0..TIMEOUT.as_millis() / INTERVAL.as_millis() {
        if runs(database) {
            return Ok(());
        }
        // Its exit says that it failed, unless another daemon was faster.
        if let Ok(Some(status)) = child.try_wait() {
            return if runs(database) {
                Ok(())
            } else {
                Err(failed(format!(
                    "it ended with {status}: see {}",
                    log_path.display()
                )))
            };
        }
        thread::sleep(INTERVAL);
    }
    Err(failed(format!(
        "it did not accept connections within {TIMEOUT:?}: see {}",
        log_path.display()
    )))
}

/// Returns the daemon that was installed beside this program, or else the one that the system finds.
fn program() -> PathBuf {
    let beside = std::env::current_exe()
        .ok()
        .map(|program| program.with_file_name(PROGRAM));
    beside
        .filter(|path| path.exists())
        .unwrap_or_else(|| PathBuf::from(PROGRAM))
}
