//! Runs a driver as a child process that ends before this program does, however that ends.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use harness::signals::Signals;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use subject::daemon::set_pdeathsig;
use tokio::process::Command;

/// Time that a driver has to end after two requests; then it is killed.
const LAST_GRACE: Duration = Duration::from_secs(3);
/// Bytes of a driver's standard error that are read.
const MAX_STDERR: u64 = 64 << 10;

/// The end of a driver.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) status: ExitStatus,
    /// Its output to standard error.
    pub(crate) stderr: String,
    /// Number of requests to end early.
    pub(crate) interrupts: u32,
}

/// Runs a command to its end. Signals to this program are passed on: the driver drains at the first and stops at the
/// second. Calls `tick` a few times a second.
///
/// # Errors
/// The program can't be started.
pub(crate) async fn run(
    mut command: Command,
    signals: &mut Signals,
    mut tick: impl FnMut(),
) -> io::Result<Ending> {
    // A file, because a pipe that a forgotten grandchild keeps open would never end.
    let mut stderr = tempfile::tempfile()?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(stderr.try_clone()?)
        // A group of its own: otherwise Ctrl-C would reach it both from the terminal and from here.
        .process_group(0);
    // The driver drains and stops its daemon when this program ends.
    set_pdeathsig(command.as_std_mut(), Signal::SIGTERM);
    let mut child = command.spawn()?;
    let pid = Pid::from_raw(child.id().unwrap_or_default().cast_signed());
    let mut interrupts = 0;
    let mut ticks = tokio::time::interval(Duration::from_millis(250));
    let deadline = tokio::time::sleep(Duration::MAX);
    tokio::pin!(deadline);
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            () = signals.next() => {
                interrupts += 1;
                // It may have ended already.
                let _ = kill(pid, Signal::SIGINT);
                if interrupts == 2 {
                    deadline.as_mut().reset(tokio::time::Instant::now() + LAST_GRACE);
                }
            }
            () = &mut deadline, if interrupts > 1 => {
                let _ = killpg(pid, Signal::SIGKILL);
                break child.wait().await?;
            }
            _ = ticks.tick() => tick(),
        }
    };
    Ok(Ending {
        status,
        stderr: read(&mut stderr)?,
        interrupts,
    })
}

fn read(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(MAX_STDERR).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}
