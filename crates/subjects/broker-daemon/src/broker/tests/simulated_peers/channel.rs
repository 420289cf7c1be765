//! A channel of a simulated client: its requests without answers, and what it may receive.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::mem;

use amq_protocol::protocol::AMQPClass;
use amq_protocol::protocol::basic::AMQPMethod as Basic;

use super::ask::{Ask, Queue};
use super::ledger::Ledger;

/// The longest body.
pub(super) const LONGEST: usize = 100_000;
/// Bodies repeat this byte after the number of their message.
pub(super) static FILLING: [u8; LONGEST] = [b'x'; LONGEST];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Mode {
    #[default]
    Plain,
    Confirm,
    Tx,
}

/// A request that is not answered.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) ask: Ask,
    pub(super) ids: (u16, u16),
    /// The settlements and the publishes of the channel before it.
    pub(super) settled: usize,
    pub(super) published: usize,
}

/// The begin of a message that is being received.
#[derive(Debug)]
pub(super) enum Head {
    Delivery {
        queue: Queue,
        no_ack: bool,
        tag: u64,
        redelivered: bool,
    },
    Return,
}

#[derive(Debug)]
pub(super) struct Content {
    head: Head,
    pub(super) missing: Option<u64>,
    body: Vec<u8>,
}

/// A channel from its request to open to the answer to its end. One that ends and the next one with its number may exist
/// at the same time.
#[derive(Debug, Default)]
pub(super) struct Channel {
    pub(super) is_closing: bool,
    pub(super) pending: VecDeque<Pending>,
    /// Consumers by tag: their queues, and true if they do not acknowledge.
    pub(super) consumers: BTreeMap<String, (Queue, bool)>,
    last_tag: u64,
    pub(super) held: BTreeMap<u64, (Queue, u32)>,
    /// [`Ask::SettleAll`] was sent: it may settle deliveries that the client has not received yet.
    pub(super) settles_all: bool,
    /// Messages of `Queue::Kept` that were settled, and that were published, in order. Those before `certain` and
    /// `stored` are dealt with.
    pub(super) settled: Vec<u32>,
    certain: usize,
    pub(super) published: Vec<u32>,
    stored: usize,
    pub(super) mode: Mode,
    pub(super) last_confirm: u64,
    pub(super) unconfirmed: BTreeMap<u64, u32>,
    returned: HashSet<u32>,
    /// The last message from each queue and publisher.
    last: HashMap<(Queue, usize), u32>,
    pub(super) content: Option<Content>,
}

impl Channel {
    /// Ends it, as the broker has closed it: nothing that was sent before is answered, but that the client closes it too.
    pub(super) fn refuse(&mut self) {
        let mut pending = mem::take(&mut self.pending);
        pending.retain(|pending| pending.ask == Ask::Close);
        *self = Self {
            is_closing: true,
            pending,
            ..Self::default()
        };
    }

    /// Handles a method. Returns true if it is the end of the channel.
    pub(super) fn method(
        &mut self,
        method: AMQPClass,
        ledger: &mut Ledger,
    ) -> Result<bool, String> {
        if self.content.is_some() {
            return Err(format!("unexpected: {method:?} within a message"));
        }
        match method {
            AMQPClass::Basic(Basic::Deliver(deliver)) => {
                let (tag, consumer) = (deliver.delivery_tag, deliver.consumer_tag.as_str());
                let Some((queue, no_ack)) = self.consumers.get(consumer).copied() else {
                    return Err(format!(
                        "stranger: a delivery to {consumer}, which is not a consumer"
                    ));
                };
                self.begin(Head::Delivery {
                    queue,
                    no_ack,
                    tag,
                    redelivered: deliver.redelivered,
                });
            }
            AMQPClass::Basic(Basic::GetOk(ok)) => {
                let Some(Pending {
                    ask: Ask::Get(queue, no_ack),
                    ..
                }) = self.pending.pop_front()
                else {
                    return Err("unexpected: basic.get-ok".to_owned());
                };
                self.begin(Head::Delivery {
                    queue,
                    no_ack,
                    tag: ok.delivery_tag,
                    redelivered: ok.redelivered,
                });
            }
            AMQPClass::Basic(Basic::Return(_)) => self.begin(Head::Return),
            AMQPClass::Basic(Basic::Ack(ack)) => {
                for message in self.take_confirmed(ack.delivery_tag, ack.multiple)? {
                    if ledger.published[message as usize].to == Some(Queue::Kept)
                        && !self.returned.contains(&message)
                    {
                        ledger.confirmed.insert(message);
                    }
                }
            }
            AMQPClass::Basic(Basic::Nack(nack)) => {
                for message in self.take_confirmed(nack.delivery_tag, nack.multiple)? {
                    let to = ledger.published[message as usize].to;
                    if to.is_some_and(|queue| queue != Queue::Full) {
                        return Err(format!("refused: a message for {to:?}"));
                    }
                }
            }
            AMQPClass::Basic(Basic::Cancel(cancel)) => {
                let tag = cancel.consumer_tag.as_str();
                if self.consumers.remove(tag).is_none() {
                    return Err(format!(
                        "stranger: {tag} is cancelled, which is not a consumer"
                    ));
                }
            }
            other => return self.answered(&other, ledger),
        }
        Ok(false)
    }

    fn begin(&mut self, head: Head) {
        self.content = Some(Content {
            head,
            missing: None,
            body: Vec::new(),
        });
    }

    /// Takes the messages that a confirm is about.
    fn take_confirmed(&mut self, tag: u64, multiple: bool) -> Result<Vec<u32>, String> {
        let rest = self.unconfirmed.split_off(&(tag + 1));
        let mut taken = mem::replace(&mut self.unconfirmed, rest);
        let last = taken.remove(&tag);
        if !multiple {
            self.unconfirmed.append(&mut taken);
        }
        let last =
            last.ok_or_else(|| format!("stranger: confirm {tag} of a message that awaits none"))?;
        Ok(taken.into_values().chain([last]).collect())
    }

    /// Handles the answer to a request. Returns true if it is the end of the channel.
    fn answered(&mut self, method: &AMQPClass, ledger: &mut Ledger) -> Result<bool, String> {
        let ids = (method.get_amqp_class_id(), method.get_amqp_method_id());
        let pending = self.pending.pop_front();
        let Some(pending) = pending.filter(|pending| is_answer(ids, pending.ids)) else {
            return Err(format!("unexpected: {method:?}"));
        };
        match (pending.ask, method) {
            (Ask::Consume(queue, no_ack), AMQPClass::Basic(Basic::ConsumeOk(ok))) => {
                self.consumers
                    .insert(ok.consumer_tag.to_string(), (queue, no_ack));
            }
            (_, AMQPClass::Basic(Basic::CancelOk(ok))) => {
                self.consumers.remove(ok.consumer_tag.as_str());
            }
            (Ask::Recover, _) => self.held.clear(),
            (Ask::Get(Queue::Kept, true), _) => ledger.is_complete = true,
            (Ask::Commit, _) => {
                let stored = self
                    .published
                    .get(self.stored..pending.published)
                    .unwrap_or_default();
                let kept = stored
                    .iter()
                    .filter(|message| !self.returned.contains(message));
                ledger.confirmed.extend(kept);
            }
            _ => {}
        }
        if self.mode != Mode::Tx || pending.ask == Ask::Commit {
            let certain = self
                .settled
                .get(self.certain..pending.settled)
                .unwrap_or_default();
            ledger.over.extend(certain);
        }
        if self.mode != Mode::Tx || matches!(pending.ask, Ask::Commit | Ask::RollBack) {
            self.certain = pending.settled;
            self.stored = pending.published;
        }
        Ok(pending.ask == Ask::Close)
    }

    pub(super) fn body(&mut self, part: &[u8], ledger: &mut Ledger) -> Result<(), String> {
        let Some(Content {
            missing: Some(missing),
            body,
            ..
        }) = &mut self.content
        else {
            return Err("unexpected: a content body".to_owned());
        };
        body.extend_from_slice(part);
        *missing = missing
            .checked_sub(part.len() as u64)
            .ok_or("a body that is too long")?;
        if *missing > 0 {
            return Ok(());
        }
        let Some(Content { head, body, .. }) = self.content.take() else {
            return Ok(());
        };
        let (number, rest) = body.split_first_chunk().ok_or("a body that is too short")?;
        let number = u32::from_be_bytes(*number);
        let message = ledger.published.get(number as usize);
        let message = message
            .filter(|message| message.length == body.len() && *rest == FILLING[4..body.len()]);
        let Some(message) = message else {
            return Err(format!(
                "stranger: a message {number} that nobody has published"
            ));
        };
        match head {
            Head::Return => {
                self.returned.insert(number);
                Ok(())
            }
            Head::Delivery {
                queue,
                no_ack,
                tag,
                redelivered,
            } => {
                if tag != self.last_tag + 1 {
                    return Err(format!("delivery {tag} after {}", self.last_tag));
                }
                self.last_tag = tag;
                if message.to.is_some_and(|to| to != queue) && queue != Queue::Dead {
                    return Err(format!(
                        "stranger: message {number} of {:?} in {queue:?}",
                        message.to
                    ));
                }
                let is_first = !redelivered && queue != Queue::Dead;
                if is_first && !ledger.first.insert((queue, number)) {
                    return Err(format!(
                        "twice: message {number} of {queue:?}, not marked as redelivered"
                    ));
                }
                // What was requeued has returned to its position, which shows if one client takes all.
                if is_first || (queue, no_ack) == (Queue::Kept, true) {
                    let last = self.last.insert((queue, message.publisher), number);
                    if last.is_some_and(|last| last > number) {
                        return Err(format!(
                            "order: message {number} of {queue:?} after {last:?}"
                        ));
                    }
                }
                if !no_ack {
                    self.held.insert(tag, (queue, number));
                    if self.settles_all && queue == Queue::Kept {
                        ledger.settled.insert(number);
                    }
                } else if queue == Queue::Kept && !ledger.found.insert(number) {
                    return Err(format!("twice: message {number} at the end"));
                }
                Ok(())
            }
        }
    }
}

/// Returns true if a method answers the request with these ids.
fn is_answer(ids: (u16, u16), request: (u16, u16)) -> bool {
    // basic.get has two answers.
    ids == (request.0, request.1 + 1) || (ids, request) == ((60, 72), (60, 70))
}
