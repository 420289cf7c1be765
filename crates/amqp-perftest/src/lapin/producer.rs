//! A producer: publishes messages and tracks their outcomes.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ::lapin::message::BasicReturnMessage;
use ::lapin::options::BasicPublishOptions;
use ::lapin::types::ShortString;
use ::lapin::{BasicProperties, Channel, Confirmation, PublisherConfirm};
use load::clock;

use super::WorkerState;
use super::link::End;
use crate::outcome::{self, count};
use crate::series::{CONFIRM, PUBLISH};
use crate::starts::{Starts, size_at};
use crate::topology;
use amqp_client::stamp::{self, Stamp};

/// Maximum messages of a batch; only the last is awaited.
const MOST: usize = 512;
/// Maximum octets of a batch, at least one message: lapin keeps them until they are written.
const BATCH: usize = 1 << 20;

/// A pending publish. Yields the confirm and the body to reuse.
type Publishing = Pin<Box<dyn Future<Output = ::lapin::Result<(PublisherConfirm, Vec<u8>)>>>>;

/// A producer of this worker.
#[derive(Default)]
pub(super) struct Producer {
    pub(super) number: u32,
    /// Starts to publish.
    pub(super) starts: Starts,
    /// Messages published in the warm-up, and in the measured time.
    pub(super) written: [u64; 2],
    outgoing: Option<Rc<Outgoing>>,
    /// Pending publishes of the current batch: all with confirms, otherwise the last.
    batch: Vec<Publishing>,
    /// Unconfirmed messages in order; the last ones belong to the batch.
    unconfirmed: VecDeque<Unconfirmed>,
    /// Starts of the batch's messages, if an operation ends with the write.
    unsent: Vec<u64>,
    /// Bodies to reuse.
    bodies: Vec<Vec<u8>>,
    waker: Option<Waker>,
}

/// Properties shared by all messages of a producer.
struct Outgoing {
    channel: Rc<Channel>,
    exchange: ShortString,
    routing_key: ShortString,
    options: BasicPublishOptions,
    properties: BasicProperties,
}

struct Unconfirmed {
    start: u64,
    sequence: u64,
    counts: bool,
    /// Set once it is written.
    confirm: Option<PublisherConfirm>,
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Producer")
            .field("number", &self.number)
            .field("starts", &self.starts)
            .field("written", &self.written)
            .finish_non_exhaustive()
    }
}

impl Outgoing {
    fn publish(self: Rc<Self>, body: Vec<u8>) -> Publishing {
        Box::pin(async move {
            let published = self.channel.basic_publish(
                self.exchange.clone(),
                self.routing_key.clone(),
                self.options,
                &body,
                self.properties.clone(),
            );
            Ok((published.await?, body))
        })
    }
}

impl Producer {
    pub(super) fn new(number: u32) -> Self {
        Self {
            number,
            ..Self::default()
        }
    }

    /// Returns true if no more events are expected.
    pub(super) fn is_settled(&self) -> bool {
        self.unconfirmed.is_empty() && self.batch.is_empty() && self.unsent.is_empty()
    }

    /// Remembers the waker for the next activity.
    pub(super) fn waits(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(known) => known.clone_from(waker),
            None => self.waker = Some(waker.clone()),
        }
    }

    /// Wakes the connection so that it is polled.
    pub(super) fn wake(&mut self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    /// Attaches a channel.
    pub(super) fn attach(&mut self, state: &WorkerState<'_>, channel: Rc<Channel>) {
        let settings = &state.driver.plan.driver;
        let queue = settings.queue_of(u64::from(self.number));
        let key = settings.routing_key.as_ref().unwrap_or(&queue);
        self.outgoing = Some(Rc::new(Outgoing {
            channel,
            exchange: settings.exchange.as_str().into(),
            routing_key: key.as_str().into(),
            options: BasicPublishOptions {
                mandatory: settings.mandatory,
                immediate: false,
            },
            properties: topology::properties(settings),
        }));
    }

    /// Makes all possible progress.
    pub(super) fn poll(
        &mut self,
        state: &WorkerState<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), End> {
        let idle = self.poll_batch(state, context)?;
        self.poll_confirms(state, context)?;
        if !idle || !self.may_publish(state) {
            return Ok(());
        }
        self.fill(state);
        // Polling registers the waker. If the result is already there, the next iteration follows at once.
        if self.poll_batch(state, context)? {
            context.waker().wake_by_ref();
        }
        Ok(())
    }

    /// Returns true if there are messages to publish, and room for all of them or for half of the window. A batch per
    /// confirmed message would cost as much as waiting for each.
    fn may_publish(&self, state: &WorkerState<'_>) -> bool {
        let window = window(state);
        let wanted = self.starts.waiting().min(MOST).min((window / 2).max(1));
        wanted > 0 && window.saturating_sub(self.unconfirmed.len()) >= wanted
    }

    /// Checks if the batch was written. Returns true if no batch is pending.
    fn poll_batch(
        &mut self,
        state: &WorkerState<'_>,
        context: &mut Context<'_>,
    ) -> Result<bool, End> {
        let Some(mut last) = self.batch.pop() else {
            return Ok(true);
        };
        let (confirm, body) = match last.as_mut().poll(context) {
            Poll::Ready(written) => written?,
            Poll::Pending => {
                self.batch.push(last);
                return Ok(false);
            }
        };
        self.bodies.push(body);
        let now = clock::now();
        if !self.unsent.is_empty() {
            state.counts.borrow_mut().ok += self.unsent.len() as u64;
            for start in self.unsent.drain(..) {
                state.record.value(PUBLISH, now.saturating_sub(start));
            }
        }
        if state.driver.plan.driver.confirms.is_none() {
            return Ok(true);
        }
        // Frames are written in order: those before the last one are written too.
        let mut confirms = vec![confirm];
        for mut publishing in self.batch.drain(..).rev() {
            let Poll::Ready(written) = publishing.as_mut().poll(context) else {
                let why = "a message was written before an earlier one".to_owned();
                return Err(End::Lost(outcome::CONNECTION_LOST, why));
            };
            let (confirm, body) = written?;
            self.bodies.push(body);
            confirms.push(confirm);
        }
        for (message, confirm) in self.unconfirmed.iter_mut().rev().zip(confirms) {
            message.confirm = Some(confirm);
        }
        Ok(true)
    }

    /// Takes confirms from the front.
    fn poll_confirms(
        &mut self,
        state: &WorkerState<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), End> {
        while let Some(front) = self.unconfirmed.front_mut() {
            let Some(confirm) = &mut front.confirm else {
                break;
            };
            let Poll::Ready(answer) = Pin::new(confirm).poll(context) else {
                break;
            };
            let answer = answer?;
            let Some(message) = self.unconfirmed.pop_front() else {
                break;
            };
            self.confirmed(state, &message, answer);
        }
        let patience = state.driver.plan.driver.confirm_timeout.as_nanos() as u64;
        let oldest = self.unconfirmed.front().map(|oldest| oldest.start);
        match oldest {
            Some(start) if clock::now().saturating_sub(start) > patience => Err(End::Lost(
                outcome::CONFIRM_TIMEOUT,
                "messages were not confirmed in time".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    /// Publishes one batch: hands over each message and waits for the last.
    fn fill(&mut self, state: &WorkerState<'_>) {
        let Some(outgoing) = self.outgoing.clone() else {
            return;
        };
        let driver = state.driver;
        let settings = &driver.plan.driver;
        let confirms = settings.confirms.is_some();
        let ends_when_written = !confirms && !driver.ends_at_arrival();
        let window = window(state);
        let (mut messages, mut octets) = ([0; 2], 0);
        let nobody = &mut Context::from_waker(Waker::noop());
        while messages[0] + messages[1] < MOST as u64
            && octets < BATCH
            && self.unconfirmed.len() < window
        {
            // Each message is stamped right before it is handed over.
            let now = clock::now();
            let Some(start) = self.starts.next(&mut state.pacer.borrow_mut(), now) else {
                break;
            };
            let counts = state.phases.get().counts(start);
            let sequence = self.written[usize::from(counts)];
            let since = now.saturating_sub(state.worker.phases.origin);
            let in_turn = (self.written[0] + self.written[1]) as usize % driver.bodies.len();
            let content = &driver.bodies[size_at(settings, since).unwrap_or(in_turn)];
            let mut body = self.bodies.pop().unwrap_or_default();
            body.clear();
            body.extend_from_slice(content);
            let stamp = Stamp {
                run: driver.run,
                stream: stamp::stream(self.number, counts),
                sequence,
                start: driver.stamped(start),
            };
            stamp.write(&mut body);
            octets += body.len();
            self.written[usize::from(counts)] += 1;
            messages[usize::from(counts)] += 1;
            let mut publishing = Rc::clone(&outgoing).publish(body);
            // The first poll hands the frames over; lapin keeps them in the order of the calls.
            let handed_over = publishing.as_mut().poll(nobody);
            if !confirms {
                self.batch.clear();
            }
            self.batch.push(match handed_over {
                Poll::Ready(ended) => Box::pin(std::future::ready(ended)),
                Poll::Pending => publishing,
            });
            if confirms {
                self.unconfirmed.push_back(Unconfirmed {
                    start,
                    sequence,
                    counts,
                    confirm: None,
                });
            } else if ends_when_written && counts {
                self.unsent.push(start);
            }
        }
        let [warmup, counted] = messages;
        let mut counted_all = state.counts.borrow_mut();
        counted_all.begun += counted;
        counted_all.published += counted;
        counted_all.warmup += warmup;
        counted_all.published_of_warmup += warmup;
        if ends_when_written {
            counted_all.ok_of_warmup += warmup;
        }
        counted_all.written += warmup + counted;
        driver.ledger.published(warmup + counted);
    }

    /// Handles a confirm: the broker has accepted the message, refused it, or returned it before.
    fn confirmed(&self, state: &WorkerState<'_>, message: &Unconfirmed, answer: Confirmation) {
        let now = clock::now();
        let stream = stamp::stream(self.number, message.counts);
        let taken = !answer.is_nack();
        let returned = answer.take_message();
        let ended = returned.is_some();
        if let Some(returned) = returned {
            self.returned(state, &returned, Some((stream, message.sequence)));
        }
        if !taken {
            if message.counts {
                state.record.count(count::NACKED, 1);
            }
            if !ended {
                let (driver, record) = (state.driver, &state.record);
                driver.fail(stream, message.sequence, outcome::NACKED, record);
            }
        } else if message.counts {
            let mut counts = state.counts.borrow_mut();
            counts.confirmed += 1;
            state
                .record
                .value(CONFIRM, now.saturating_sub(message.start));
            counts.ok += u64::from(!state.driver.ends_at_arrival() && !ended);
        } else {
            let mut counts = state.counts.borrow_mut();
            counts.confirmed_of_warmup += 1;
            counts.ok_of_warmup += u64::from(!state.driver.ends_at_arrival() && !ended);
        }
    }

    /// Handles a returned message. With several confirms at once, lapin attaches it to one of them, not always to its
    /// own. The ledger therefore goes by its stamp; without consumers, one operation ends for each returned message.
    fn returned(
        &self,
        state: &WorkerState<'_>,
        returned: &BasicReturnMessage,
        confirmed: Option<(u32, u64)>,
    ) {
        let Some(stamp) = Stamp::read(&returned.delivery.data) else {
            return;
        };
        if stamp::counts(stamp.stream) {
            state.record.count(count::RETURNED, 1);
        }
        let (stream, sequence) = match confirmed {
            Some(confirmed) if !state.driver.ends_at_arrival() => confirmed,
            _ => (stamp.stream, stamp.sequence),
        };
        // Without confirms and consumers, it ended when it was written.
        if confirmed.is_some() || state.driver.ends_at_arrival() {
            let (driver, record) = (state.driver, &state.record);
            driver.fail(stream, sequence, outcome::RETURNED, record);
        }
    }

    /// Takes returned messages without confirms: lapin keeps them until asked.
    pub(super) fn take_returned(&self, state: &WorkerState<'_>) {
        let settings = &state.driver.plan.driver;
        let Some(outgoing) = self
            .outgoing
            .as_ref()
            .filter(|_| settings.mandatory && settings.confirms.is_none())
        else {
            return;
        };
        // No confirm is pending, so that it answers at once.
        let asked = pin!(outgoing.channel.wait_for_confirms());
        if let Poll::Ready(Ok(returned)) = asked.poll(&mut Context::from_waker(Waker::noop())) {
            for message in &returned {
                self.returned(state, message, None);
            }
        }
    }

    /// Fails the unconfirmed messages after the connection is lost or the run is over.
    pub(super) fn fail_unconfirmed(&mut self, state: &WorkerState<'_>, kind: Option<&'static str>) {
        self.take_returned(state);
        self.outgoing = None;
        self.batch.clear();
        let unsent = std::mem::take(&mut self.unsent).len() as u64;
        let open = std::mem::take(&mut self.unconfirmed);
        let counted = open.iter().filter(|message| message.counts).count() as u64;
        if counted > 0 {
            state.record.count(count::UNCONFIRMED, counted);
        }
        let Some(kind) = kind else {
            // At the end of the run, the ledger settles messages that are to arrive.
            let here = match state.driver.ends_at_arrival() {
                true => 0,
                false => counted,
            };
            return state.record.unfinished_many(here + unsent);
        };
        for message in open {
            let stream = stamp::stream(self.number, message.counts);
            let (driver, record) = (state.driver, &state.record);
            driver.fail(stream, message.sequence, kind, record);
        }
        state.record.error_many(kind, unsent);
    }
}

/// Returns the maximum number of unconfirmed messages.
fn window(state: &WorkerState<'_>) -> usize {
    let window = state.driver.plan.driver.confirms;
    window.map_or(usize::MAX, |window| window as usize)
}
