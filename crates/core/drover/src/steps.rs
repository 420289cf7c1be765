//! Performs steps before a run that block and take a while, such as builds, so that a signal can end them.

use std::time::Duration;

use anyhow::Context as _;
use harness::progress::StepLine;
use harness::signals::Signals;
use subject::daemon::Step;
use tokio::sync::mpsc;

/// A report of the thread that performs a step.
#[derive(Debug)]
enum Report<T> {
    Step {
        what: String,
        command: Option<String>,
        elapsed: Duration,
        detail: String,
    },
    Done(T),
}

/// Performs `work` on a thread of its own, and shows its steps. Returns `None` after a signal; what `work` has started
/// then ends with this program.
///
/// # Errors
/// The thread can't be started, or has panicked.
pub(crate) async fn perform<T: Send + 'static>(
    signals: &mut Signals,
    work: impl FnOnce(&mut dyn FnMut(&Step<'_>)) -> T + Send + 'static,
) -> anyhow::Result<Option<T>> {
    let (sender, mut reports) = mpsc::unbounded_channel();
    // A task of the runtime would keep it from ending.
    let thread = std::thread::Builder::new().name("steps".to_owned());
    let spawned = thread.spawn(move || {
        // Nobody receives any more after a signal.
        let done = work(&mut |step| {
            let _ = sender.send(Report::Step {
                what: step.what.to_owned(),
                command: step.command.map(str::to_owned),
                elapsed: step.elapsed,
                detail: step.detail.to_owned(),
            });
        });
        let _ = sender.send(Report::Done(done));
    });
    spawned.context("starting a thread")?;
    let mut line = StepLine::new(false);
    loop {
        tokio::select! {
            report = reports.recv() => match report.context("the thread of a step has ended early")? {
                Report::Step { what, command, elapsed, detail } => line.show(&Step {
                    what: &what,
                    command: command.as_deref(),
                    elapsed,
                    detail: &detail,
                }),
                Report::Done(done) => return Ok(Some(done)),
            },
            () = signals.next() => return Ok(None),
        }
    }
}
