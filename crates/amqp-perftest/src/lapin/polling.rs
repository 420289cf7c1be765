//! Consumers that poll with `basic.get`, one request at a time.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use ::lapin::Channel;
use ::lapin::message::BasicGetMessage;
use ::lapin::options::BasicGetOptions;
use amq_protocol::protocol::basic;
use load::clock;

use super::WorkerState;
use super::consumer::Consumer;
use super::link::End;
use crate::topology;

/// Answers taken before other clients are served.
const AT_ONCE: usize = 256;

/// A pending `basic.get`.
pub(super) type PendingGet =
    Pin<Box<dyn Future<Output = ::lapin::Result<Option<BasicGetMessage>>>>>;

/// The schedule of a polling consumer, and its pending request.
#[derive(Default)]
pub(super) struct Polling {
    due: u64,
    pending_get: Option<PendingGet>,
}

impl std::fmt::Debug for Polling {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Polling")
            .field("due", &self.due)
            .finish_non_exhaustive()
    }
}

impl Polling {
    /// Returns when the next request is due: never while one is pending.
    pub(super) fn due(&self) -> u64 {
        match self.pending_get {
            Some(_) => u64::MAX,
            None => self.due,
        }
    }

    /// Takes the pending request. It must be awaited at the end, because its message has left the queue.
    pub(super) fn take(&mut self) -> Option<PendingGet> {
        self.pending_get.take()
    }
}

async fn get(channel: Rc<Channel>, asked: basic::Get) -> ::lapin::Result<Option<BasicGetMessage>> {
    let options = BasicGetOptions {
        no_ack: asked.no_ack,
    };
    channel.basic_get(asked.queue, options).await
}

impl Consumer {
    /// Sends requests and takes answers.
    pub(super) fn poll_get(
        &mut self,
        state: &WorkerState<'_>,
        channel: &Rc<Channel>,
        context: &mut Context<'_>,
    ) -> Result<(), End> {
        for _ in 0..AT_ONCE {
            if self.quota.is_full() {
                return Ok(());
            }
            let now = clock::now();
            if self.polling.pending_get.is_none() {
                if now < self.polling.due {
                    // The worker's loop must wake for it.
                    state.sooner.set(true);
                    return Ok(());
                }
                let asked = topology::get(&state.driver.plan.driver, u64::from(self.number));
                self.polling.pending_get = Some(Box::pin(get(Rc::clone(channel), asked)));
                self.pace.asks(now);
            }
            let Some(pending_get) = &mut self.polling.pending_get else {
                return Ok(());
            };
            let Poll::Ready(answer) = pending_get.as_mut().poll(context) else {
                return Ok(());
            };
            self.polling.pending_get = None;
            match answer? {
                Some(message) => self.delivered(state, &message.delivery),
                None => {
                    if state.driver.ending.asks() && self.busy.is_empty() {
                        self.finish(state);
                    }
                    let counts = state.phases.get().is_measuring(clock::now());
                    state.counts.borrow_mut().empty += u64::from(counts);
                }
            }
            self.polling.due = self.pace.asks_again();
        }
        context.waker().wake_by_ref();
        Ok(())
    }
}
