//! Performs steps before a run that block and take a while, such as builds, so that a signal can end them.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use harness::progress::StepLine;
use harness::signals::Signals;
use subject::daemon::Step;
use tokio::sync::oneshot;

/// Performs `work` on a thread of its own, and shows its steps. Returns `None` after a signal; what `work` has started
/// then ends with this program.
///
/// # Errors
/// The thread can't be started, or has panicked.
pub(crate) async fn perform<T: Send + 'static>(
    signals: &mut Signals,
    work: impl FnOnce(&mut dyn FnMut(&Step<'_>)) -> T + Send + 'static,
) -> anyhow::Result<Option<T>> {
    let line = Arc::new(Mutex::new(Some(StepLine::new(false))));
    let line_of_thread = Arc::clone(&line);
    let (sender, done) = oneshot::channel();
    // A task of the runtime would keep it from ending.
    let thread = std::thread::Builder::new().name("steps".to_owned());
    let spawned = thread.spawn(move || {
        let done = work(&mut |step| {
            let mut line = line_of_thread
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if let Some(line) = &mut *line {
                line.show(step);
            }
        });
        // Nobody receives it after a signal.
        let _ = sender.send(done);
    });
    spawned.context("starting a thread")?;
    let done = tokio::select! {
        done = done => Some(done.context("the thread of a step has ended early")?),
        () = signals.next() => None,
    };
    // Removes the line, and shows no step that follows a signal.
    line.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(done)
}
