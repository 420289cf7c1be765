//! A consumer: writes the frames of its actions.

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, basic, queue};
use load::clock;
use load::slots::Id;

use super::{Cx, WireWorker};
use crate::roles::consumer::{Action, Consumer, Perform};
use crate::roles::worker::WorkerState;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::topology;
use amqp_client::frame::encode;

#[derive(Debug)]
pub(super) struct WireConsumer {
    pub(super) role: Consumer,
    pub(super) channel: Channel,
}

/// A consumer's channel.
#[derive(Debug, Default)]
pub(super) struct Channel {
    connection: Option<Id>,
    number: u16,
    /// With polling: the frame of its `basic.get`.
    get: Vec<u8>,
}

/// Appends the frames of a consumer's actions to the output of its connection.
pub(super) struct Frames<'a> {
    pub(super) run: &'a Shared,
    pub(super) consumer: u64,
    pub(super) channel: &'a Channel,
    pub(super) output: &'a mut Vec<u8>,
}

impl Perform for Frames<'_> {
    #[inline]
    fn perform(&mut self, action: Action) {
        let channel = self.channel.number;
        match action {
            Action::Ack { tag, multiple } => {
                self.output.extend_from_slice(&ack(channel, tag, multiple));
            }
            Action::Nack { tag, requeue } => {
                self.output.extend_from_slice(&nack(channel, tag, requeue));
            }
            Action::Get => self.output.extend_from_slice(&self.channel.get),
            Action::Consume | Action::Cancel | Action::QueryDepth => self.perform_rare(action),
        }
    }
}

impl Frames<'_> {
    fn perform_rare(&mut self, action: Action) {
        let settings = &self.run.plan.driver;
        let class = match action {
            Action::Consume => AMQPClass::Basic(basic::AMQPMethod::Consume(topology::consume(
                settings,
                self.consumer,
            ))),
            Action::Cancel => AMQPClass::Basic(basic::AMQPMethod::Cancel(basic::Cancel {
                consumer_tag: topology::tag(self.consumer),
                nowait: false,
            })),
            _ => AMQPClass::Queue(queue::AMQPMethod::Declare(topology::passive(
                settings,
                &settings.queue_of(self.consumer),
            ))),
        };
        let frame = AMQPFrame::Method(self.channel.number, class);
        self.output.extend(encode(&frame));
    }
}

impl WireConsumer {
    pub(super) fn new(number: u32, settings: &Settings) -> Self {
        Self {
            role: Consumer::new(number, settings),
            channel: Channel::default(),
        }
    }

    /// Splits it into its role and what performs the actions of this role.
    pub(super) fn split<'b>(
        &'b mut self,
        run: &'b Shared,
        output: &'b mut Vec<u8>,
    ) -> (&'b mut Consumer, Frames<'b>) {
        let consumer = self.role.number();
        let channel = &self.channel;
        let frames = Frames {
            run,
            consumer,
            channel,
            output,
        };
        (&mut self.role, frames)
    }

    /// Handles the loss of the connection.
    pub(super) fn leave(&mut self, state: &WorkerState<'_>) {
        self.channel.connection = None;
        self.role.leave(state);
    }
}

impl<'a> WireWorker<'a> {
    /// Attaches a consumer to a channel of a connection.
    pub(super) fn attach_consumer(&mut self, index: usize, id: Id, channel: u16, cx: &mut Cx<'a>) {
        let consumer = &mut self.consumers[index];
        let settings = &self.state.run.plan.driver;
        let get = topology::get(settings, consumer.role.number());
        let get = AMQPClass::Basic(basic::AMQPMethod::Get(get));
        consumer.channel = Channel {
            connection: Some(id),
            number: channel,
            get: encode(&AMQPFrame::Method(channel, get)),
        };
        self.act(index, cx, |role, state, frames| {
            if let Some(action) = role.attach(state, clock::now()) {
                frames.perform(action);
            }
        });
    }

    /// Lets a consumer act, and writes the frames of its actions.
    pub(super) fn act<R>(
        &mut self,
        index: usize,
        cx: &mut Cx<'a>,
        act: impl FnOnce(&mut Consumer, &mut WorkerState<'_>, &mut Frames<'_>) -> R,
    ) -> R {
        let mut output = std::mem::take(&mut self.output);
        output.clear();
        let consumer = &mut self.consumers[index];
        let (role, mut frames) = consumer.split(self.state.run, &mut output);
        let result = act(role, &mut self.state, &mut frames);
        let connection = consumer.channel.connection;
        if let Some(id) = connection.filter(|_| !output.is_empty())
            && let Err(error) = self.write(id, &output, cx)
        {
            self.lose(id, &error.into(), cx);
        }
        self.output = output;
        result
    }

    /// Acknowledges processed deliveries and lets due consumers poll. Returns when the next is due.
    pub(super) fn run_timers(&mut self, cx: &mut Cx<'a>) -> u64 {
        if !self.state.run.plan.driver.times_consumers() {
            return u64::MAX;
        }
        let now = cx.state.now;
        let mut next = u64::MAX;
        for index in 0..self.consumers.len() {
            let mut due = self.consumers[index].role.due();
            if due <= now {
                due = self.act(index, cx, |role, state, frames| {
                    role.on_timer(state, now, frames)
                });
            }
            next = next.min(due);
        }
        next
    }

    /// Checks for an early end (--cmessages, --exit-when).
    pub(super) fn check_for_end(&mut self, cx: &mut Cx<'a>) {
        let now = cx.state.now;
        if !self.state.begin_end_check(now) {
            return;
        }
        for index in 0..self.consumers.len() {
            self.act(index, cx, |role, state, frames| {
                role.check_for_end(state, now, frames);
            });
        }
        if self.state.ends_now(&mut cx.state) {
            self.acknowledge_all(cx);
        }
    }

    pub(super) fn acknowledge_all(&mut self, cx: &mut Cx<'a>) {
        for index in 0..self.consumers.len() {
            self.act(index, cx, |role, state, frames| {
                role.acknowledge_all(state, frames);
            });
        }
    }
}

/// Encodes `basic.ack` (60, 80).
fn ack(channel: u16, tag: u64, multiple: bool) -> [u8; 21] {
    acknowledgement(80, channel, tag, u8::from(multiple))
}

/// Encodes `basic.nack` (60, 120) of one delivery.
fn nack(channel: u16, tag: u64, requeue: bool) -> [u8; 21] {
    acknowledgement(120, channel, tag, u8::from(requeue) << 1)
}

fn acknowledgement(method: u8, channel: u16, tag: u64, bits: u8) -> [u8; 21] {
    let mut frame = [0; 21];
    frame[0] = 1;
    frame[1..3].copy_from_slice(&channel.to_be_bytes());
    frame[6] = 13;
    frame[8] = 60;
    frame[10] = method;
    frame[11..19].copy_from_slice(&tag.to_be_bytes());
    frame[19] = bits;
    frame[20] = 0xCE;
    frame
}

#[cfg(test)]
mod tests {
    use amq_protocol::protocol::basic::{AMQPMethod, Ack, Nack};

    use super::*;

    fn frame(method: AMQPMethod) -> Vec<u8> {
        encode(&AMQPFrame::Method(7, AMQPClass::Basic(method)))
    }

    #[test]
    fn acknowledgements_are_the_octets_of_the_specification() {
        let tag = 1 << 40 | 5;
        for multiple in [false, true] {
            let whole = frame(AMQPMethod::Ack(Ack {
                delivery_tag: tag,
                multiple,
            }));
            assert_eq!(ack(7, tag, multiple).as_slice(), whole);
        }
        for requeue in [false, true] {
            let whole = frame(AMQPMethod::Nack(Nack {
                delivery_tag: tag,
                multiple: false,
                requeue,
            }));
            assert_eq!(nack(7, tag, requeue).as_slice(), whole);
        }
    }
}
