//! Frame handlers of the null broker, and the frames that it sends unasked.

use std::sync::atomic::Ordering;

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, basic, channel, confirm, connection, exchange, queue};
use load::clock;
use load::slots::Id;

use super::messages::next;
use super::queues::Queue;
use super::{Broker, Channel, Mode, frames};
use amqp_client::frame::{encode, whole_frame};

impl Broker {
    pub(super) fn frame(&mut self, id: Id, frame: &[u8], answer: &mut Vec<u8>) {
        let payload = frames::payload(frame);
        match (frame[0], payload) {
            (2 | 3, _) if self.script.mode == Mode::Discard => {}
            (1, [0, 60, 0, 40, ..]) => self.begin_publish(id, frames::channel(frame), payload),
            (1, [0, 60, 0, 80 | 120, ..]) => self.acknowledged(id, frames::channel(frame), payload),
            (2, _) => self.header(id, frames::channel(frame), payload, answer),
            (3, _) => self.body(id, frames::channel(frame), payload, answer),
            (1, _) => self.method(id, frame, answer),
            (8, _) if self.taken.load(Ordering::Relaxed) == 0 => {
                self.heartbeats.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    pub(super) fn channel(&mut self, id: Id, number: u16) -> Option<&mut Channel> {
        self.peers.get_mut(id)?.channels.get_mut(&number)
    }

    fn method(&mut self, id: Id, frame: &[u8], answer: &mut Vec<u8>) {
        let Ok(Some((_, AMQPFrame::Method(number, method)))) = whole_frame(frame) else {
            return self.disconnect(id);
        };
        let reply = match method {
            AMQPClass::Connection(method) => return self.connection(id, method, answer),
            AMQPClass::Channel(channel::AMQPMethod::Open(_)) => {
                if let Some(peer) = self.peers.get_mut(id) {
                    peer.channels.insert(number, Channel::default());
                }
                Some(AMQPClass::Channel(channel::AMQPMethod::OpenOk(
                    channel::OpenOk {},
                )))
            }
            AMQPClass::Channel(channel::AMQPMethod::Close(_)) => {
                if let Some(peer) = self.peers.get_mut(id) {
                    peer.channels.remove(&number);
                }
                Some(AMQPClass::Channel(channel::AMQPMethod::CloseOk(
                    channel::CloseOk {},
                )))
            }
            AMQPClass::Confirm(confirm::AMQPMethod::Select(_)) => {
                if let Some(channel) = self.channel(id, number).filter(|it| !it.confirms) {
                    // Delivery tags count from the first message after confirm.select.
                    channel.confirms = true;
                    channel.published = 0;
                    channel.unconfirmed.clear();
                }
                Some(AMQPClass::Confirm(confirm::AMQPMethod::SelectOk(
                    confirm::SelectOk {},
                )))
            }
            AMQPClass::Exchange(exchange::AMQPMethod::Declare(_)) => Some(AMQPClass::Exchange(
                exchange::AMQPMethod::DeclareOk(exchange::DeclareOk {}),
            )),
            AMQPClass::Exchange(exchange::AMQPMethod::Delete(_)) => Some(AMQPClass::Exchange(
                exchange::AMQPMethod::DeleteOk(exchange::DeleteOk {}),
            )),
            AMQPClass::Queue(queue::AMQPMethod::Declare(declare)) => Some(self.declare(declare)),
            AMQPClass::Queue(method) => self.queue(method).map(AMQPClass::Queue),
            AMQPClass::Basic(method) => {
                self.basic(id, number, method, answer).map(AMQPClass::Basic)
            }
            _ => None,
        };
        if let Some(reply) = reply {
            answer.extend(encode(&AMQPFrame::Method(number, reply)));
        }
    }

    fn connection(&mut self, id: Id, method: connection::AMQPMethod, answer: &mut Vec<u8>) {
        let reply = match method {
            connection::AMQPMethod::StartOk(start)
                if start.response.as_bytes() != b"\0guest\0guest" =>
            {
                self.refuse_connection(id, 403, "ACCESS_REFUSED - Login was refused")
            }
            connection::AMQPMethod::StartOk(_) => connection::AMQPMethod::Tune(connection::Tune {
                channel_max: 2047,
                frame_max: 131_072,
                heartbeat: self.script.heartbeat,
            }),
            connection::AMQPMethod::Open(open) if open.virtual_host.as_str() != "/" => {
                self.refuse_connection(id, 530, "NOT_ALLOWED - vhost not found")
            }
            connection::AMQPMethod::Open(_) => {
                std::thread::sleep(self.script.slow_open);
                connection::AMQPMethod::OpenOk(connection::OpenOk {})
            }
            connection::AMQPMethod::Close(_) if self.script.keeps_open => return,
            connection::AMQPMethod::Close(_) => {
                let lingers = self.script.lingers;
                if let Some(peer) = self.peers.get_mut(id) {
                    peer.closing = !lingers;
                }
                connection::AMQPMethod::CloseOk(connection::CloseOk {})
            }
            _ => return,
        };
        answer.extend(frames::connection(reply));
    }

    fn refuse_connection(&mut self, id: Id, code: u16, text: &str) -> connection::AMQPMethod {
        if let Some(peer) = self.peers.get_mut(id) {
            peer.closing = true;
        }
        connection::AMQPMethod::Close(connection::Close {
            reply_code: code,
            reply_text: text.into(),
            class_id: 10,
            method_id: 0,
        })
    }

    fn declare(&mut self, mut declare: queue::Declare) -> AMQPClass {
        if declare.queue.as_str().is_empty() {
            declare.queue = self.queues.new_name().into();
        }
        let found = self.queues.by_name.get(declare.queue.as_str());
        let refused = match found {
            None if declare.passive => Some((404, "NOT_FOUND - no such queue")),
            Some(queue) if !declare.passive && queue.durable != declare.durable => {
                Some((406, "PRECONDITION_FAILED - inequivalent arg 'durable'"))
            }
            _ => None,
        };
        if let Some((reply_code, text)) = refused {
            return AMQPClass::Channel(channel::AMQPMethod::Close(channel::Close {
                reply_code,
                reply_text: text.into(),
                class_id: 50,
                method_id: 10,
            }));
        }
        let name = declare.queue.to_string();
        let queue = self.queues.by_name.entry(name).or_insert_with(|| Queue {
            durable: declare.durable,
            ..Queue::default()
        });
        AMQPClass::Queue(queue::AMQPMethod::DeclareOk(queue::DeclareOk {
            queue: declare.queue,
            message_count: queue.messages.len() as u32,
            consumer_count: 0,
        }))
    }

    fn queue(&mut self, method: queue::AMQPMethod) -> Option<queue::AMQPMethod> {
        let queues = &mut self.queues;
        Some(match method {
            queue::AMQPMethod::Bind(bind) => {
                let key = (bind.exchange.to_string(), bind.routing_key.to_string());
                queues.bindings.insert(key, bind.queue.to_string());
                queue::AMQPMethod::BindOk(queue::BindOk {})
            }
            queue::AMQPMethod::Unbind(unbind) => {
                let key = (unbind.exchange.to_string(), unbind.routing_key.to_string());
                queues.bindings.remove(&key);
                queue::AMQPMethod::UnbindOk(queue::UnbindOk {})
            }
            queue::AMQPMethod::Purge(purge) => {
                let queue = queues.by_name.get_mut(purge.queue.as_str());
                let message_count = queue.map_or(0, |queue| queue.messages.drain(..).len() as u32);
                queue::AMQPMethod::PurgeOk(queue::PurgeOk { message_count })
            }
            queue::AMQPMethod::Delete(delete) => {
                let queue = queues.by_name.remove(delete.queue.as_str());
                let message_count = queue.map_or(0, |queue| queue.messages.len() as u32);
                queue::AMQPMethod::DeleteOk(queue::DeleteOk { message_count })
            }
            _ => return None,
        })
    }

    fn basic(
        &mut self,
        id: Id,
        number: u16,
        method: basic::AMQPMethod,
        answer: &mut Vec<u8>,
    ) -> Option<basic::AMQPMethod> {
        match method {
            basic::AMQPMethod::Qos(qos) => {
                self.channel(id, number)?.prefetch = u64::from(qos.prefetch_count);
                Some(basic::AMQPMethod::QosOk(basic::QosOk {}))
            }
            basic::AMQPMethod::Consume(consume) => {
                std::thread::sleep(self.script.slow_consume);
                let tag = consume.consumer_tag.to_string();
                let consumes = (consume.queue.to_string(), tag, consume.no_ack);
                self.channel(id, number)?.consumes = Some(consumes);
                let consumer_tag = consume.consumer_tag;
                (!consume.nowait).then_some(basic::AMQPMethod::ConsumeOk(basic::ConsumeOk {
                    consumer_tag,
                }))
            }
            basic::AMQPMethod::Cancel(cancel) => {
                let consumer_tag = cancel.consumer_tag;
                let is_own = |(_, tag, _): &mut (_, String, _)| tag == consumer_tag.as_str();
                self.channel(id, number)?.consumes.take_if(is_own);
                Some(basic::AMQPMethod::CancelOk(basic::CancelOk {
                    consumer_tag,
                }))
            }
            basic::AMQPMethod::Get(get) => {
                let name = get.queue.to_string();
                let queue = self.queues.by_name.get_mut(&name)?;
                let Some(mut message) = next(queue, clock::now()) else {
                    return Some(basic::AMQPMethod::GetEmpty(basic::GetEmpty {}));
                };
                message
                    .read_at
                    .take()
                    .inspect(|read_at| self.held.answer(*read_at));
                let left = queue.messages.len() as u32;
                let channel = self.channel(id, number)?;
                channel.delivered += 1;
                let ok = basic::AMQPMethod::GetOk(basic::GetOk {
                    delivery_tag: channel.delivered,
                    redelivered: message.redelivered,
                    exchange: "".into(),
                    routing_key: get.queue,
                    message_count: left,
                });
                answer.extend(encode(&AMQPFrame::Method(number, AMQPClass::Basic(ok))));
                frames::content(
                    number,
                    &message.header,
                    &message.body,
                    frames::LARGEST,
                    answer,
                );
                if !get.no_ack {
                    let tag = channel.delivered;
                    channel.unacknowledged.push_back((tag, name, message));
                }
                None
            }
            _ => None,
        }
    }
}
