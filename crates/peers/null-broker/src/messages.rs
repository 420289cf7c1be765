//! The flow of messages: publish, confirm, deliver, acknowledge.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, basic, channel};
use load::clock;
use load::slots::Id;

use super::queues::{Message, Queue, Queues};
use super::{Broker, Channel, Fault, Mode, Peer, Script, frames};
use amqp_client::frame::encode;
use amqp_client::stamp;

/// Time that publishers are told to wait.
const BLOCKED: Duration = Duration::from_millis(100);
/// Octets delivered to a consumer of a queue before other consumers are served.
const SOME: usize = 8 << 10;

impl Broker {
    pub(super) fn begin_publish(&mut self, id: Id, number: u16, payload: &[u8]) {
        let discards = self.script.mode == Mode::Discard;
        let peer = self.peers.get_mut(id);
        let Some(channel) = peer.and_then(|peer| peer.channels.get_mut(&number)) else {
            return self.disconnect(id);
        };
        if channel.closed {
            return;
        }
        channel.published += 1;
        if discards {
            self.taken.fetch_add(1, Ordering::Relaxed);
            let (due, _) = self.plan(0);
            self.confirm_from(id, number, due);
        } else {
            channel.publish = frames::publish(payload);
        }
    }

    pub(super) fn header(&mut self, id: Id, number: u16, payload: &[u8], answer: &mut Vec<u8>) {
        let Some(publish) = self
            .channel(id, number)
            .and_then(|channel| channel.publish.as_mut())
        else {
            return;
        };
        let Some(size) = payload.get(4..).and_then(<[u8]>::first_chunk) else {
            return self.disconnect(id);
        };
        publish.remaining = u64::from_be_bytes(*size);
        publish.header = payload.to_vec();
        if publish.remaining == 0 {
            self.published(id, number, answer);
        }
    }

    pub(super) fn body(&mut self, id: Id, number: u16, payload: &[u8], answer: &mut Vec<u8>) {
        let Some(publish) = self
            .channel(id, number)
            .and_then(|channel| channel.publish.as_mut())
        else {
            return;
        };
        publish.body.extend_from_slice(payload);
        let Some(remaining) = publish.remaining.checked_sub(payload.len() as u64) else {
            return self.disconnect(id);
        };
        publish.remaining = remaining;
        if publish.remaining == 0 {
            self.published(id, number, answer);
        }
    }

    /// Handles a complete message: it is routed, unless the script says otherwise.
    fn published(&mut self, id: Id, number: u16, answer: &mut Vec<u8>) {
        let index = self.taken.fetch_add(1, Ordering::Relaxed);
        let Some(publish) = self
            .channel(id, number)
            .and_then(|channel| channel.publish.take())
        else {
            return;
        };
        self.stall(index, &publish.body);
        let (confirm_due, due) = self.plan(index);
        let confirms = self.confirm_from(id, number, confirm_due);
        let script = Arc::clone(&self.script);
        let has = |fault| script.has(index, fault);
        if has(Fault::Forget) {
            self.queues = Queues::default();
            return self.disconnect(id);
        }
        if has(Fault::Cut) {
            return self.disconnect(id);
        }
        self.halted |= has(Fault::Halt);
        self.withholds |= has(Fault::Withhold);
        let (again, beyond) = (has(Fault::ConfirmTwice), has(Fault::ConfirmBeyond));
        if let Some(channel) = self.channel(id, number).filter(|_| again || beyond) {
            let tag = channel.published + 5 * u64::from(beyond);
            frames::confirm(number, tag, true, &mut channel.afterwards);
        }
        if has(Fault::CloseChannel) {
            return self.close_channel(id, number, answer);
        }
        if has(Fault::CutConsumers) {
            self.cut_consumers();
        }
        if has(Fault::Block) {
            self.blocked = Some(clock::now() + BLOCKED.as_nanos() as u64);
            self.broadcast(&frames::blocked());
        }
        if has(Fault::Nack) {
            return self.refuse(id, number, answer);
        }
        match self.queues.route(&publish.exchange, &publish.routing_key) {
            Some(queue) => {
                let message = Message {
                    header: publish.header,
                    body: publish.body,
                    redelivered: has(Fault::Mark),
                    due,
                    read_at: Some(self.read_at).filter(|_| !confirms),
                };
                put(queue, message, &script, index);
            }
            None if publish.mandatory => {
                let back = basic::Return {
                    reply_code: 312,
                    reply_text: "NO_ROUTE".into(),
                    exchange: publish.exchange.into(),
                    routing_key: publish.routing_key.into(),
                };
                let back = AMQPClass::Basic(basic::AMQPMethod::Return(back));
                let mut said = encode(&AMQPFrame::Method(number, back));
                let (header, body) = (&publish.header, &publish.body);
                frames::content(number, header, body, frames::LARGEST, &mut said);
                match (script.returns_late, self.channel(id, number)) {
                    (true, Some(channel)) => channel.afterwards.extend(said),
                    _ => answer.extend(said),
                }
            }
            None => {}
        }
    }

    fn close_channel(&mut self, id: Id, number: u16, answer: &mut Vec<u8>) {
        if let Some(channel) = self.channel(id, number) {
            channel.closed = true;
            channel.confirms = false;
        }
        let close = channel::AMQPMethod::Close(channel::Close {
            reply_code: 404,
            reply_text: "NOT_FOUND - no exchange".into(),
            class_id: 60,
            method_id: 40,
        });
        answer.extend(encode(&AMQPFrame::Method(
            number,
            AMQPClass::Channel(close),
        )));
    }

    fn cut_consumers(&mut self) {
        let consume = |(id, peer): (Id, &Peer)| {
            let mut channels = peer.channels.values();
            let consumes = channels.any(|channel| channel.consumes.is_some());
            consumes.then_some(id)
        };
        let ids: Vec<Id> = self.peers.iter().filter_map(consume).collect();
        ids.into_iter().for_each(|id| self.disconnect(id));
    }

    /// Confirms the messages before this one, and refuses it.
    fn refuse(&mut self, id: Id, number: u16, answer: &mut Vec<u8>) {
        let Some(channel) = self.channel(id, number).filter(|channel| channel.confirms) else {
            return;
        };
        let tag = channel.published;
        if channel.confirmed + 1 < tag {
            frames::confirm(number, tag - 1, true, answer);
        }
        frames::confirm(number, tag, false, answer);
        channel.confirmed = tag;
    }

    /// Confirms everything published since the last turn, with one answer per channel.
    pub(super) fn confirm(&mut self, now: u64) {
        if self.withholds || (self.script.confirms_consumed && !self.is_consumed()) {
            return;
        }
        let mut answers = Vec::new();
        let ids: Vec<Id> = self.peers.iter().map(|(id, _)| id).collect();
        for id in ids {
            let Some(peer) = self.peers.get_mut(id) else {
                continue;
            };
            answers.clear();
            for (number, channel) in &mut peer.channels {
                let whole = channel.confirmable(now, &mut self.held);
                if channel.confirms && channel.confirmed < whole {
                    frames::confirm(*number, whole, true, &mut answers);
                    channel.confirmed = whole;
                    answers.append(&mut channel.afterwards);
                }
            }
            if !answers.is_empty() {
                self.write(id, &answers);
            }
        }
    }

    /// Returns true if every queue is empty and every delivery is acknowledged.
    fn is_consumed(&self) -> bool {
        let mut queues = self.queues.by_name.values();
        let mut channels = self
            .peers
            .iter()
            .flat_map(|(_, peer)| peer.channels.values());
        queues.all(|queue| queue.messages.is_empty())
            && channels.all(|channel| channel.unacknowledged.is_empty())
    }

    pub(super) fn acknowledged(&mut self, id: Id, number: u16, payload: &[u8]) {
        let Some((tag, &[bits, ..])) = payload.get(4..).and_then(<[u8]>::split_first_chunk) else {
            return self.disconnect(id);
        };
        let (refused, tag) = (payload[3] == 120, u64::from_be_bytes(*tag));
        let Some(channel) = self.channel(id, number) else {
            return;
        };
        let multiple = bits & 1 == 1;
        if let Some(streamed) = &mut channel.streamed {
            return streamed.settled(tag, multiple);
        }
        let mut requeued = std::collections::VecDeque::new();
        while let Some(index) = channel
            .unacknowledged
            .iter()
            .position(|(of, _, _)| *of == tag || (multiple && (tag == 0 || *of < tag)))
        {
            let message = channel.unacknowledged.remove(index);
            if refused && bits & 2 == 2 {
                requeued.extend(message);
            }
        }
        self.queues.requeue(requeued);
    }

    /// Delivers messages to the consumers, a batch each.
    pub(super) fn deliver(&mut self, now: u64) {
        let ids: Vec<Id> = self.peers.iter().map(|(id, _)| id).collect();
        let mut output = Vec::new();
        // A few messages each in turn, so that all consumers of a queue have a share.
        let mut gave = true;
        while gave {
            gave = false;
            for id in &ids {
                output.clear();
                self.fill(*id, now, &mut output);
                if !output.is_empty() {
                    gave = true;
                    self.write(*id, &output);
                }
            }
        }
    }

    fn fill(&mut self, id: Id, now: u64, output: &mut Vec<u8>) {
        let Some(peer) = self.peers.get_mut(id).filter(|peer| peer.output.is_empty()) else {
            return;
        };
        for (number, channel) in &mut peer.channels {
            while output.len() < SOME && channel.has_credit() {
                let Some((queue, consumer, no_ack)) = &channel.consumes else {
                    break;
                };
                let queued = self.queues.by_name.get_mut(queue);
                let Some(mut message) = queued.and_then(|queue| next(queue, now)) else {
                    break;
                };
                message
                    .read_at
                    .take()
                    .inspect(|read_at| self.held.answer(*read_at));
                channel.delivered += 1;
                let tag = channel.delivered;
                frames::deliver(*number, consumer, tag, message.redelivered, queue, output);
                let largest = if self.script.large_frames {
                    usize::MAX
                } else {
                    frames::LARGEST
                };
                frames::content(*number, &message.header, &message.body, largest, output);
                if !no_ack {
                    channel
                        .unacknowledged
                        .push_back((tag, queue.clone(), message));
                }
            }
        }
    }
}

impl Channel {
    fn has_credit(&self) -> bool {
        let open = self.unacknowledged.len() as u64;
        self.consumes.is_some() && (self.prefetch == 0 || open < self.prefetch)
    }
}

impl Message {
    /// Truncates the body and adjusts its header: class and weight come before the size (AMQP 0-9-1, 2.3.5.2).
    fn shorten(&mut self) {
        let length = self.body.len().saturating_sub(100).max(stamp::BYTES);
        self.body.truncate(length);
        self.header[4..12].copy_from_slice(&(self.body.len() as u64).to_be_bytes());
    }
}

/// Adds a message to a queue, with the errors that the script demands.
fn put(queue: &mut Queue, mut message: Message, script: &Script, index: u64) {
    let has = |fault| script.has(index, fault);
    if has(Fault::Shorten) {
        message.shorten();
    }
    if has(Fault::Corrupt)
        && let Some(byte) = message.body.last_mut()
    {
        *byte ^= 1;
    }
    let again = has(Fault::Redeliver).then(|| Message {
        redelivered: true,
        ..message.clone()
    });
    if !has(Fault::Drop) {
        queue
            .messages
            .extend(has(Fault::Duplicate).then(|| message.clone()));
        let last = queue.messages.len();
        queue.messages.push_back(message);
        if has(Fault::Swap) && last > 0 {
            queue.messages.swap(last - 1, last);
        }
    }
    queue.messages.extend(again);
}

/// Takes the first message, unless it is held.
pub(super) fn next(queue: &mut Queue, now: u64) -> Option<Message> {
    queue.messages.front().filter(|front| front.due <= now)?;
    queue.messages.pop_front()
}
