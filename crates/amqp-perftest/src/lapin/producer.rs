//! A producer: what it publishes, and what becomes of it.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ::lapin::message::BasicReturnMessage;
use ::lapin::options::BasicPublishOptions;
use ::lapin::types::ShortString;
use ::lapin::{BasicProperties, Channel, Confirmation, PublisherConfirm};
use harness::clock;

use super::Desk;
use super::link::End;
use crate::outcome::{self, count};
use crate::series::{CONFIRM, PUBLISH};
use crate::stamp::{self, Stamp};
use crate::starts::{Starts, size_at};
use crate::topology;

/// Most messages of a batch, of which the last is waited for.
const MOST: usize = 512;
/// Octets of a batch, at least one message: what lapin keeps of it until it is written.
const BATCH: usize = 1 << 20;

/// A publish under way: whether it was written, and the body to use again.
type Publishing = Pin<Box<dyn Future<Output = ::lapin::Result<(PublisherConfirm, Vec<u8>)>>>>;

/// A producer of this worker.
#[derive(Default)]
pub(super) struct Producer {
    pub(super) number: u32,
    /// What is to be published.
    pub(super) starts: Starts,
    /// Messages published in the warm-up, and of those that count.
    pub(super) written: [u64; 2],
    outgoing: Option<Rc<Outgoing>>,
    /// The batch that is being written, as far as its messages are asked after: with confirms all, else the last.
    batch: Vec<Publishing>,
    /// Messages that are not confirmed, in order; the last are those of the batch.
    unconfirmed: VecDeque<Unconfirmed>,
    /// Starts of the messages of the batch, where a message ends when it is written.
    unsent: Vec<u64>,
    /// Bodies to use again.
    bodies: Vec<Vec<u8>>,
    waker: Option<Waker>,
}

/// What all messages of a producer have in common.
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
    /// Once it is written.
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

    /// Whether nothing is expected for it any more.
    pub(super) fn is_settled(&self) -> bool {
        self.unconfirmed.is_empty() && self.batch.is_empty() && self.unsent.is_empty()
    }

    /// Remembers what to wake when there is something to do.
    pub(super) fn waits(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(known) => known.clone_from(waker),
            None => self.waker = Some(waker.clone()),
        }
    }

    /// Has its connection polled.
    pub(super) fn wake(&mut self) {
        if let Some(waker) = &self.waker {
            waker.wake_by_ref();
        }
    }

    /// Takes a channel.
    pub(super) fn join(&mut self, desk: &Desk<'_>, channel: Rc<Channel>) {
        let settings = &desk.driver.plan.driver;
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

    /// Goes on as far as it can now.
    pub(super) fn poll(&mut self, desk: &Desk<'_>, context: &mut Context<'_>) -> Result<(), End> {
        let idle = self.poll_batch(desk, context)?;
        self.poll_confirms(desk, context)?;
        if !idle || !self.may_publish(desk) {
            return Ok(());
        }
        self.fill(desk);
        // What is waited for is asked after, so that it wakes; were it there already, the next turn follows at once.
        if self.poll_batch(desk, context)? {
            context.waker().wake_by_ref();
        }
        Ok(())
    }

    /// Whether there is something to publish, and room for all of it or for half of the window: a batch for each
    /// message that is confirmed would cost as much as waiting for each.
    fn may_publish(&self, desk: &Desk<'_>) -> bool {
        let window = window(desk);
        let wanted = self.starts.waiting().min(MOST).min((window / 2).max(1));
        wanted > 0 && window.saturating_sub(self.unconfirmed.len()) >= wanted
    }

    /// Asks whether the batch was written; whether there is none any more.
    fn poll_batch(&mut self, desk: &Desk<'_>, context: &mut Context<'_>) -> Result<bool, End> {
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
            desk.counts.borrow_mut().ok += self.unsent.len() as u64;
            for start in self.unsent.drain(..) {
                desk.record.value(PUBLISH, now.saturating_sub(start));
            }
        }
        if desk.driver.plan.driver.confirms.is_none() {
            return Ok(true);
        }
        // Frames are written in order: those before the last one are written too.
        let mut confirms = vec![confirm];
        for mut publishing in self.batch.drain(..).rev() {
            let Poll::Ready(written) = publishing.as_mut().poll(context) else {
                let why = "a message was written before the one before it".to_owned();
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
    fn poll_confirms(&mut self, desk: &Desk<'_>, context: &mut Context<'_>) -> Result<(), End> {
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
            self.confirmed(desk, &message, answer);
        }
        let patience = desk.driver.plan.driver.confirm_timeout.as_nanos() as u64;
        let oldest = self.unconfirmed.front().map(|oldest| oldest.start);
        match oldest {
            Some(start) if clock::now().saturating_sub(start) > patience => Err(End::Lost(
                outcome::CONFIRM_TIMEOUT,
                "messages were not confirmed in time".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    /// Publishes one batch: each message is handed over, and the last one is waited for.
    fn fill(&mut self, desk: &Desk<'_>) {
        let Some(outgoing) = self.outgoing.clone() else {
            return;
        };
        let driver = desk.driver;
        let settings = &driver.plan.driver;
        let confirms = settings.confirms.is_some();
        let ends_when_written = !confirms && !driver.ends_at_arrival();
        let window = window(desk);
        let (mut messages, mut octets) = ([0; 2], 0);
        let nobody = &mut Context::from_waker(Waker::noop());
        while messages[0] + messages[1] < MOST as u64
            && octets < BATCH
            && self.unconfirmed.len() < window
        {
            // Each is stamped right before it is handed over.
            let now = clock::now();
            let Some(start) = self.starts.next(&mut desk.pacer.borrow_mut(), now) else {
                break;
            };
            let counts = desk.phases.get().counts(start);
            let sequence = self.written[usize::from(counts)];
            let since = now.saturating_sub(desk.worker.phases.origin);
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
        let mut counted_all = desk.counts.borrow_mut();
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

    /// The broker has taken a message, or refused it, or returned it before.
    fn confirmed(&self, desk: &Desk<'_>, message: &Unconfirmed, answer: Confirmation) {
        let now = clock::now();
        let stream = stamp::stream(self.number, message.counts);
        let taken = !answer.is_nack();
        let returned = answer.take_message();
        let ended = returned.is_some();
        if let Some(returned) = returned {
            self.returned(desk, &returned, Some((stream, message.sequence)));
        }
        if !taken {
            if message.counts {
                desk.record.count(count::NACKED, 1);
            }
            if !ended {
                let (driver, record) = (desk.driver, &desk.record);
                driver.fail(stream, message.sequence, outcome::NACKED, record);
            }
        } else if message.counts {
            let mut counts = desk.counts.borrow_mut();
            counts.confirmed += 1;
            desk.record
                .value(CONFIRM, now.saturating_sub(message.start));
            counts.ok += u64::from(!desk.driver.ends_at_arrival() && !ended);
        } else {
            let mut counts = desk.counts.borrow_mut();
            counts.confirmed_of_warmup += 1;
            counts.ok_of_warmup += u64::from(!desk.driver.ends_at_arrival() && !ended);
        }
    }

    /// No queue took a message. With several confirms at once lapin gives the returned message to one of them, not
    /// always to its own: the account of arrivals goes by its stamp, and where nothing arrives one message ends for each.
    fn returned(
        &self,
        desk: &Desk<'_>,
        returned: &BasicReturnMessage,
        confirmed: Option<(u32, u64)>,
    ) {
        let Some(stamp) = Stamp::read(&returned.delivery.data) else {
            return;
        };
        if stamp::counts(stamp.stream) {
            desk.record.count(count::RETURNED, 1);
        }
        let (stream, sequence) = match confirmed {
            Some(confirmed) if !desk.driver.ends_at_arrival() => confirmed,
            _ => (stamp.stream, stamp.sequence),
        };
        // Without confirms and consumers it ended when it was written.
        if confirmed.is_some() || desk.driver.ends_at_arrival() {
            let (driver, record) = (desk.driver, &desk.record);
            driver.fail(stream, sequence, outcome::RETURNED, record);
        }
    }

    /// Takes what was returned without confirms: lapin keeps it until it is asked.
    pub(super) fn take_returned(&self, desk: &Desk<'_>) {
        let settings = &desk.driver.plan.driver;
        let Some(outgoing) = self
            .outgoing
            .as_ref()
            .filter(|_| settings.mandatory && settings.confirms.is_none())
        else {
            return;
        };
        // There is no confirm to wait for, so that it answers at once.
        let asked = pin!(outgoing.channel.wait_for_confirms());
        if let Poll::Ready(Ok(returned)) = asked.poll(&mut Context::from_waker(Waker::noop())) {
            for message in &returned {
                self.returned(desk, message, None);
            }
        }
    }

    /// Its connection is gone, or the run over: what is not confirmed will not be any more.
    pub(super) fn forsake(&mut self, desk: &Desk<'_>, kind: Option<&'static str>) {
        self.take_returned(desk);
        self.outgoing = None;
        self.batch.clear();
        let unsent = std::mem::take(&mut self.unsent).len() as u64;
        let open = std::mem::take(&mut self.unconfirmed);
        let counted = open.iter().filter(|message| message.counts).count() as u64;
        if counted > 0 {
            desk.record.count(count::UNCONFIRMED, counted);
        }
        let Some(kind) = kind else {
            // At the end of the run, what is to arrive is the account's.
            let here = match desk.driver.ends_at_arrival() {
                true => 0,
                false => counted,
            };
            return desk.record.unfinished_many(here + unsent);
        };
        for message in open {
            let stream = stamp::stream(self.number, message.counts);
            let (driver, record) = (desk.driver, &desk.record);
            driver.fail(stream, message.sequence, kind, record);
        }
        desk.record.error_many(kind, unsent);
    }
}

/// Messages that may be unconfirmed at once.
fn window(desk: &Desk<'_>) -> usize {
    let window = desk.driver.plan.driver.confirms;
    window.map_or(usize::MAX, |window| window as usize)
}
