//! A producer: hands over what its publisher publishes, and takes confirms.

use std::collections::VecDeque;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use ::lapin::options::BasicPublishOptions;
use ::lapin::{BasicProperties, Channel, PublisherConfirm};
use amq_protocol::protocol::basic;
use load::clock;
use load::pacer::Pacer;

use crate::roles::connection::Lost;
use crate::roles::publisher::{Confirm, Publisher};
use crate::roles::worker::WorkerState;
use crate::settings::Settings;
use crate::topology;
use amqp_client::stamp::Stamp;

/// Maximum messages of a batch; only the last is awaited.
const MOST: usize = 512;
/// Maximum octets of a batch, at least one message: lapin keeps them until they are written.
const BATCH: usize = 1 << 20;

/// A pending publish. Yields the confirm and the body to reuse.
type Publishing = Pin<Box<dyn Future<Output = ::lapin::Result<(PublisherConfirm, Vec<u8>)>>>>;

pub(super) struct LapinProducer {
    pub(super) role: Publisher,
    outgoing: Option<Rc<Outgoing>>,
    /// Pending publishes of the current batch: all with confirms, otherwise the last.
    batch: Vec<Publishing>,
    /// Confirms of written messages, in order.
    confirms: VecDeque<PublisherConfirm>,
    bodies: Vec<Vec<u8>>,
    /// Wakes its connection.
    pub(super) waker: Waker,
}

impl AsMut<Publisher> for LapinProducer {
    fn as_mut(&mut self) -> &mut Publisher {
        &mut self.role
    }
}

/// Properties shared by all messages of a producer.
struct Outgoing {
    channel: Rc<Channel>,
    publish: basic::Publish,
    properties: BasicProperties,
}

impl Outgoing {
    fn publish(self: Rc<Self>, body: Vec<u8>) -> Publishing {
        Box::pin(async move {
            let publish = &self.publish;
            let published = self.channel.basic_publish(
                publish.exchange.clone(),
                publish.routing_key.clone(),
                BasicPublishOptions {
                    mandatory: publish.mandatory,
                    immediate: publish.immediate,
                },
                &body,
                self.properties.clone(),
            );
            Ok((published.await?, body))
        })
    }
}

impl LapinProducer {
    pub(super) fn new(number: u32, settings: &Settings) -> Self {
        Self {
            role: Publisher::new(number, settings),
            outgoing: None,
            batch: Vec::new(),
            confirms: VecDeque::new(),
            bodies: Vec::new(),
            waker: Waker::noop().clone(),
        }
    }

    /// Returns true if no more events are expected.
    pub(super) fn is_settled(&self) -> bool {
        self.role.is_settled() && self.batch.is_empty()
    }

    pub(super) fn attach(&mut self, settings: &Settings, channel: Rc<Channel>) {
        self.outgoing = Some(Rc::new(Outgoing {
            channel,
            publish: topology::publish(settings, self.role.number()),
            properties: topology::properties(settings),
        }));
        self.role.attach();
    }

    /// Makes all possible progress.
    pub(super) fn poll(
        &mut self,
        state: &mut WorkerState<'_>,
        pacer: &mut Pacer,
        is_blocked: bool,
        context: &mut Context<'_>,
    ) -> Result<(), Lost> {
        let is_written = self.poll_batch(state, context)?;
        self.poll_confirms(state, context)?;
        if !is_written || is_blocked || !self.may_publish() {
            return Ok(());
        }
        self.fill(state, pacer);
        // Polling registers the waker. If the result is already there, the next iteration follows at once.
        if self.poll_batch(state, context)? {
            context.waker().wake_by_ref();
        }
        Ok(())
    }

    /// Returns true if there are messages to publish, and room for all of them or for half of the window. A batch per
    /// confirmed message would cost as much as waiting for each.
    fn may_publish(&self) -> bool {
        let half = (self.role.window() / 2).max(1);
        let wanted = self.role.waiting().min(MOST).min(half);
        wanted > 0 && self.role.room() >= wanted
    }

    /// Checks if the batch was written. Returns true if no batch is pending.
    fn poll_batch(
        &mut self,
        state: &mut WorkerState<'_>,
        context: &mut Context<'_>,
    ) -> Result<bool, Lost> {
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
        self.role.on_written(state, clock::now);
        if state.run.plan.driver.confirms.is_none() {
            return Ok(true);
        }
        // Frames are written in order: those before the last one are written too.
        for mut publishing in self.batch.drain(..) {
            let Poll::Ready(written) = publishing.as_mut().poll(context) else {
                return Err("a message was written before an earlier one".into());
            };
            let (confirm, body) = written?;
            self.bodies.push(body);
            self.confirms.push_back(confirm);
        }
        self.confirms.push_back(confirm);
        Ok(true)
    }

    fn poll_confirms(
        &mut self,
        state: &mut WorkerState<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Lost> {
        while let Some(confirm) = self.confirms.front_mut() {
            let Poll::Ready(answer) = Pin::new(confirm).poll(context) else {
                break;
            };
            let answer = answer?;
            self.confirms.pop_front();
            let accepted = !answer.is_nack();
            if let Some(returned) = answer.take_message()
                && let Some(stamp) = Stamp::read(&returned.delivery.data)
            {
                // With several confirms at once, lapin attaches it to one of them, not always to its own.
                self.role.on_returned_with_oldest(state, &stamp);
            }
            let confirm = Confirm {
                tag: self.role.oldest_tag(),
                multiple: false,
                accepted,
            };
            self.role.on_confirm(state, confirm, clock::now())?;
        }
        let settings = &state.run.plan.driver;
        self.role.check_confirms(settings, clock::now())
    }

    /// Publishes one batch: hands over each message and waits for the last.
    fn fill(&mut self, state: &mut WorkerState<'_>, pacer: &mut Pacer) {
        let Some(outgoing) = self.outgoing.clone() else {
            return;
        };
        let run = state.run;
        let confirms = run.plan.driver.confirms.is_some();
        let (mut messages, mut octets) = (0, 0);
        let nobody = &mut Context::from_waker(Waker::noop());
        let batch = self.role.begin_batch(state, pacer, clock::now());
        // Each message is stamped right before it is handed over.
        while messages < MOST
            && octets < BATCH
            && let Some(message) = self.role.next(state, pacer, &batch, clock::now())
        {
            let mut body = self.bodies.pop().unwrap_or_default();
            body.clear();
            body.extend_from_slice(&run.bodies[message.body]);
            message.stamp.write(&mut body);
            octets += body.len();
            messages += 1;
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
        }
        self.role.end_batch(state, &batch);
    }

    /// Takes returned messages without confirms: lapin keeps them until asked.
    pub(super) fn take_returned(&mut self, state: &mut WorkerState<'_>) {
        let settings = &state.run.plan.driver;
        let Some(outgoing) = self
            .outgoing
            .as_ref()
            .filter(|_| settings.mandatory && settings.confirms.is_none())
        else {
            return;
        };
        // No confirm is pending, so that it answers at once.
        let pending = pin!(outgoing.channel.wait_for_confirms());
        if let Poll::Ready(Ok(returned)) = pending.poll(&mut Context::from_waker(Waker::noop())) {
            for message in &returned {
                if let Some(stamp) = Stamp::read(&message.delivery.data) {
                    self.role.on_returned(state, &stamp);
                }
            }
        }
    }

    /// Ends the open messages after the connection is lost, or the run is over.
    pub(super) fn give_up(&mut self, state: &mut WorkerState<'_>, lost: Option<&Lost>) {
        self.take_returned(state);
        self.outgoing = None;
        self.batch.clear();
        self.confirms.clear();
        self.role.give_up(state, lost);
    }
}
