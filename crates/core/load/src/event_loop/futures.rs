//! The loop of a worker whose connections are futures.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use super::state::LoopState;
use crate::clock::{self, Timer};
use crate::pacer::Start;

/// The protocol of a driver whose connections are futures.
///
/// The loop and the futures share the handler. They also share the [`LoopState`]: the loop borrows it while it calls the
/// handler and passes it on; it is free while futures are polled. A future that borrows it must not keep the borrow
/// across an `await`.
pub trait AsyncHandler {
    /// The content of a timer: a retry, a backoff, a heartbeat.
    type Timer;

    /// Starts an operation that is due now.
    fn start(&self, start: Start, state: &mut LoopState<Self::Timer>);

    /// Returns false if due operations must wait until the loop is [woken](LoopState::wake), or a timer fires.
    fn can_start(&self, _state: &LoopState<Self::Timer>) -> bool {
        true
    }

    /// Handles a timer that is due.
    fn timer(&self, _timer: Self::Timer, _state: &mut LoopState<Self::Timer>) {}

    /// Does what is to be done once per turn, after all starts. Returns when it must be called again, or `u64::MAX`.
    ///
    /// # Errors
    /// A failure that ends the worker.
    fn turn(&self, _state: &mut LoopState<Self::Timer>) -> anyhow::Result<u64> {
        Ok(u64::MAX)
    }

    /// Returns true if no operation is open, waiting or about to be retried.
    fn is_idle(&self, state: &LoopState<Self::Timer>) -> bool;

    /// Returns when open operations are given up. A cancellation may come earlier.
    fn drained(&self, state: &LoopState<Self::Timer>) -> u64 {
        state.drained()
    }

    /// Counts what is open at the end of the loop as unfinished. It is called once, even if nothing is open.
    ///
    /// # Errors
    /// A failure of the worker.
    fn give_up(&self, state: &mut LoopState<Self::Timer>) -> anyhow::Result<()>;
}

/// Runs a worker's share of the load as [`run`](super::run) does. `connect` returns the future of the next connection to
/// open, if there is one; it is asked in every turn, so a future that wants another connection
/// [wakes](LoopState::wake) the loop. No future has its own timer: the handler checks deadlines in its turn.
///
/// Returns the futures that have not ended, for a driver that closes its connections in order.
///
/// # Errors
/// A failure of the handler, or the kernel's error.
pub async fn run_async<H: AsyncHandler, F: Future<Output = ()>>(
    handler: &H,
    shared: &RefCell<LoopState<H::Timer>>,
    mut connect: impl FnMut() -> Option<F>,
) -> anyhow::Result<FuturesUnordered<F>> {
    let timer = Timer::new()?;
    let mut connections = FuturesUnordered::new();
    loop {
        let until = turn(handler, &mut shared.borrow_mut())?;
        let Some(until) = until else { break };
        connections.extend(std::iter::from_fn(&mut connect));
        let mut wait = pin!(timer.sleep_until(until));
        poll_fn(|context| {
            while let Poll::Ready(Some(())) = connections.poll_next_unpin(context) {}
            if shared.borrow().is_woken() {
                Poll::Ready(())
            } else {
                wait.as_mut().poll(context)
            }
        })
        .await;
    }
    let state = &mut *shared.borrow_mut();
    handler.give_up(state)?;
    state.count_missed(0);
    Ok(connections)
}

/// Runs one turn. Returns until when to wait, or `None` at the end.
fn turn<H: AsyncHandler>(
    handler: &H,
    state: &mut LoopState<H::Timer>,
) -> anyhow::Result<Option<u64>> {
    state.begin_turn(clock::now());
    let next_start = start_due(handler, state);
    let next_timer = loop {
        match state.timers.take_due(state.now) {
            Ok(timer) => handler.timer(timer, state),
            Err(next) => break next,
        }
    };
    let next_turn = handler.turn(state)?;
    state.end_turn();
    let deadline = state.deadline(handler.drained(state));
    let is_idle = handler.is_idle(state);
    if state.has_ended(is_idle, deadline) {
        return Ok(None);
    }
    let next = next_start.min(next_timer).min(next_turn);
    Ok(Some(state.wait_until(next, deadline, is_idle)))
}

/// Starts what is due. Returns when the next operation is due.
fn start_due<H: AsyncHandler>(handler: &H, state: &mut LoopState<H::Timer>) -> u64 {
    for _ in 0..state.options.starts_per_turn {
        if !handler.can_start(state) {
            state.hold();
            return u64::MAX;
        }
        match state.next_start() {
            Ok(start) => handler.start(start, state),
            Err(next) => return next,
        }
    }
    state.now
}
