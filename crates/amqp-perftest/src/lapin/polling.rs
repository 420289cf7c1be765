//! Consumers that ask for each message: `basic.get`, one question at a time.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use ::lapin::Channel;
use ::lapin::message::BasicGetMessage;
use ::lapin::options::BasicGetOptions;
use amq_protocol::protocol::basic;
use harness::clock;

use super::Desk;
use super::consumer::Consumer;
use super::link::End;
use crate::topology;

/// Answers that are taken before others have their turn.
const AT_ONCE: usize = 256;

/// A question under way.
pub(super) type Question = Pin<Box<dyn Future<Output = ::lapin::Result<Option<BasicGetMessage>>>>>;

/// When a consumer asks next, and what it waits for.
#[derive(Default)]
pub(super) struct Polling {
    due: u64,
    question: Option<Question>,
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
    /// When it asks next: never while it waits for an answer.
    pub(super) fn due(&self) -> u64 {
        match self.question {
            Some(_) => u64::MAX,
            None => self.due,
        }
    }

    /// The question under way, to be waited for at the end: what it brings has left its queue.
    pub(super) fn take(&mut self) -> Option<Question> {
        self.question.take()
    }
}

async fn get(channel: Rc<Channel>, asked: basic::Get) -> ::lapin::Result<Option<BasicGetMessage>> {
    let options = BasicGetOptions {
        no_ack: asked.no_ack,
    };
    channel.basic_get(asked.queue, options).await
}

impl Consumer {
    /// Asks, and takes what has come.
    pub(super) fn poll_question(
        &mut self,
        desk: &Desk<'_>,
        channel: &Rc<Channel>,
        context: &mut Context<'_>,
    ) -> Result<(), End> {
        for _ in 0..AT_ONCE {
            if self.quota.is_full() {
                return Ok(());
            }
            let now = clock::now();
            if self.polling.question.is_none() {
                if now < self.polling.due {
                    // The worker's loop waits for it.
                    desk.sooner.set(true);
                    return Ok(());
                }
                let asked = topology::get(&desk.driver.plan.driver, u64::from(self.number));
                self.polling.question = Some(Box::pin(get(Rc::clone(channel), asked)));
                self.pace.asks(now);
            }
            let Some(question) = &mut self.polling.question else {
                return Ok(());
            };
            let Poll::Ready(answer) = question.as_mut().poll(context) else {
                return Ok(());
            };
            self.polling.question = None;
            match answer? {
                Some(message) => self.delivered(desk, &message.delivery),
                None => {
                    if desk.driver.ending.asks() && self.busy.is_empty() {
                        self.finish(desk);
                    }
                    let counts = desk.phases.get().is_measuring(clock::now());
                    desk.counts.borrow_mut().empty += u64::from(counts);
                }
            }
            self.polling.due = self.pace.asks_again();
        }
        context.waker().wake_by_ref();
        Ok(())
    }
}
