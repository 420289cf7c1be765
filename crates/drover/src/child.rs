//! A driver as a process of its own: it ends before this program does, whatever ends that.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use harness::signals::Signals;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getppid};
use tokio::process::Command;

/// A driver that was told twice to end has this long; then it is killed.
const LAST_GRACE: Duration = Duration::from_secs(3);
/// Nobody reads more of what a driver says.
const MOST_SAID: u64 = 64 << 10;

/// How a driver ended.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) status: ExitStatus,
    /// What it wrote to standard error.
    pub(crate) said: String,
    /// How often it was asked to end early.
    pub(crate) interrupts: u32,
}

/// Runs a command to its end. A signal to this program is passed on: the driver drains at the first and stops at the second.
/// `tick` is called a few times a second.
///
/// # Errors
/// A program that can't be started.
pub(crate) async fn run(
    mut command: Command,
    signals: &mut Signals,
    mut tick: impl FnMut(),
) -> io::Result<Ending> {
    // Into a file: a pipe that a forgotten grandchild keeps open would never end.
    let mut said = tempfile::tempfile()?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said.try_clone()?)
        // Not in the terminal's group: Ctrl-C would reach it from the terminal and from here.
        .process_group(0);
    end_with_parent(&mut command);
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
        said: read(&mut said)?,
        interrupts,
    })
}

fn read(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(MOST_SAID).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// SIGTERM, as from a person: the driver drains and stops its daemon.
#[expect(unsafe_code, reason = "the wish must be made between fork and exec")]
fn end_with_parent(command: &mut Command) {
    let parent = Pid::this();
    let make_wish = move || {
        prctl::set_pdeathsig(Signal::SIGTERM)?;
        if getppid() == parent {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(nix::libc::ESRCH))
        }
    };
    // SAFETY: between fork and exec only prctl and getppid are called, which are async-signal-safe; nothing is allocated.
    unsafe {
        command.pre_exec(make_wish);
    }
}
