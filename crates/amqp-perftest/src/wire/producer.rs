//! A producer: writes messages and tracks their outcomes.

use std::collections::VecDeque;

use load::clock;
use load::slots::Id;

use super::link::Lost;
use super::publish::{Message, Template};
use super::{BATCH, Loop};
use crate::outcome::{self, count};
use crate::series::{CONFIRM, PUBLISH};
use crate::starts::{Starts, size_at};
use crate::topology;
use amqp_client::stamp::{self, Stamp};

/// A producer of this worker.
#[derive(Debug, Default)]
pub(super) struct Producer {
    pub(super) number: u32,
    link: Option<Id>,
    templates: Vec<Template>,
    pub(super) is_ready: bool,
    /// Starts to publish.
    pub(super) starts: Starts,
    /// Messages written in the warm-up, and in the measured time.
    pub(super) written: [u64; 2],
    /// Unconfirmed messages in the order of their delivery tags; the first has `first_tag`.
    unconfirmed: VecDeque<Unconfirmed>,
    first_tag: u64,
    /// Starts of messages that the kernel has not taken completely, if an operation ends with the write.
    unsent: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Unconfirmed {
    start: u64,
    sequence: u64,
    counts: bool,
    /// True if it is confirmed while an earlier one is not.
    confirmed: bool,
    /// True if its operation has ended because it was returned.
    ended: bool,
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
        self.unconfirmed.is_empty() && self.unsent.is_empty()
    }

    /// Returns the start of the oldest unconfirmed message.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.unconfirmed.front().map(|oldest| oldest.start)
    }
}

impl Loop<'_> {
    /// Attaches a producer to a channel of a connection, on which delivery tags count from 1.
    pub(super) fn attach_producer(&mut self, index: usize, link: Id, channel: u16, frame_max: u32) {
        let driver = self.driver;
        let settings = &driver.plan.driver;
        let number = u64::from(self.producers[index].number);
        let queue = settings.queue_of(number);
        let properties = topology::properties(settings);
        let templates = driver.bodies.iter().map(|body| {
            let message = Message {
                exchange: &settings.exchange,
                routing_key: settings.routing_key.as_ref().unwrap_or(&queue),
                mandatory: settings.mandatory,
                properties: &properties,
                body,
            };
            Template::new(&message, channel, frame_max)
        });
        let producer = &mut self.producers[index];
        producer.templates = templates.collect();
        producer.link = Some(link);
        producer.first_tag = 1;
        self.make_ready(index);
    }

    /// Writes one batch of the messages that a producer may write now.
    pub(super) fn publish(&mut self, index: usize) {
        let producer = &mut self.producers[index];
        let Some(link) = producer.link.and_then(|id| self.links.get_mut(id)) else {
            return;
        };
        // It becomes ready again when there is room, or when the broker accepts messages again.
        if link.has_pending_writes() || link.blocked.is_some() {
            return;
        }
        let id = producer.link.expect("it has a link");
        let mut output = std::mem::take(&mut self.output);
        output.clear();
        let more = self.fill(index, &mut output);
        let written = match output.is_empty() {
            true => Ok(()),
            false => self.write(id, &output),
        };
        self.output = output;
        match written {
            Ok(()) if more => self.make_ready(index),
            Ok(()) => {}
            Err(error) => return self.lose(id, &error.to_string()),
        }
        if self
            .links
            .get_mut(id)
            .is_some_and(|link| !link.has_pending_writes())
        {
            self.sent(index);
        }
    }

    /// Assembles one batch of messages. Returns true if the producer could write more.
    fn fill(&mut self, index: usize, output: &mut Vec<u8>) -> bool {
        let producer = &mut self.producers[index];
        let driver = self.driver;
        let settings = &driver.plan.driver;
        let window = settings
            .confirms
            .map_or(usize::MAX, |window| window as usize);
        let ends_when_written = settings.confirms.is_none() && !driver.ends_at_arrival();
        let now = clock::now();
        let of_now = size_at(settings, now.saturating_sub(self.worker.phases.origin));
        let mut messages = [0; 2];
        while output.len() < BATCH && producer.unconfirmed.len() < window {
            let Some(start) = producer.starts.next(&mut self.worker.pacer, now) else {
                break;
            };
            let counts = self.worker.phases.counts(start);
            let sequence = producer.written[usize::from(counts)];
            let stamp = Stamp {
                run: driver.run,
                stream: stamp::stream(producer.number, counts),
                sequence,
                start: driver.stamped(start),
            };
            let in_turn = producer.written[0] + producer.written[1];
            let template = of_now.unwrap_or(in_turn as usize % producer.templates.len());
            producer.templates[template].append(&stamp, output);
            producer.written[usize::from(counts)] += 1;
            messages[usize::from(counts)] += 1;
            if settings.confirms.is_some() {
                producer.unconfirmed.push_back(Unconfirmed {
                    start,
                    sequence,
                    counts,
                    confirmed: false,
                    ended: false,
                });
            } else if ends_when_written && counts {
                producer.unsent.push(start);
            }
        }
        let [warmup, counted] = messages;
        self.counts.begun += counted;
        self.counts.published += counted;
        self.counts.warmup += warmup;
        self.counts.published_of_warmup += warmup;
        if ends_when_written {
            self.counts.ok_of_warmup += warmup;
        }
        self.counts.written += warmup + counted;
        driver.ledger.published(warmup + counted);
        producer.starts.waiting() > 0 && producer.unconfirmed.len() < window
    }

    /// Handles that the kernel has taken all output of a producer.
    pub(super) fn sent(&mut self, index: usize) {
        let producer = &mut self.producers[index];
        if producer.unsent.is_empty() {
            return;
        }
        let now = clock::now();
        self.counts.ok += producer.unsent.len() as u64;
        for start in producer.unsent.drain(..) {
            self.worker.record.value(PUBLISH, now - start);
        }
    }

    /// Handles a confirm: the broker has accepted messages, or refused them.
    pub(super) fn confirmed(
        &mut self,
        index: usize,
        tag: u64,
        multiple: bool,
        taken: bool,
        now: u64,
    ) -> Result<(), Lost> {
        let producer = &self.producers[index];
        let last = tag.checked_sub(producer.first_tag);
        let Some(last) = last.map(|last| last as usize) else {
            // It was confirmed before.
            self.worker.record.count(count::PROTOCOL, 1);
            return Ok(());
        };
        let Some(message) = producer.unconfirmed.get(last) else {
            let why = format!(
                "the broker confirmed message {tag} of a channel, which was never published"
            );
            return Err(self.against_protocol(why));
        };
        if message.confirmed && !multiple {
            self.worker.record.count(count::PROTOCOL, 1);
        }
        let first = if multiple { 0 } else { last };
        for at in first..=last {
            self.confirm(index, at, taken, now);
        }
        let producer = &mut self.producers[index];
        while producer
            .unconfirmed
            .front()
            .is_some_and(|front| front.confirmed)
        {
            producer.unconfirmed.pop_front();
            producer.first_tag += 1;
        }
        self.make_ready(index);
        Ok(())
    }

    fn confirm(&mut self, index: usize, at: usize, taken: bool, now: u64) {
        let producer = &mut self.producers[index];
        let message = &mut producer.unconfirmed[at];
        if message.confirmed {
            return;
        }
        message.confirmed = true;
        let Unconfirmed {
            start,
            sequence,
            counts,
            ended,
            ..
        } = *message;
        let stream = stamp::stream(producer.number, counts);
        let record = &self.worker.record;
        if !taken {
            if counts {
                record.count(count::NACKED, 1);
            }
            return self.failed(stream, sequence, ended, outcome::NACKED);
        }
        if counts {
            self.counts.confirmed += 1;
            record.value(CONFIRM, now - start);
            if !self.driver.ends_at_arrival() && !ended {
                self.counts.ok += 1;
            }
        } else {
            self.counts.confirmed_of_warmup += 1;
            self.counts.ok_of_warmup += u64::from(!self.driver.ends_at_arrival() && !ended);
        }
    }

    /// Fails an operation, unless it has `ended`.
    fn failed(&mut self, stream: u32, sequence: u64, ended: bool, kind: &'static str) {
        if ended {
            return;
        }
        self.driver
            .fail(stream, sequence, kind, &self.worker.record);
    }

    /// Handles an unroutable message; its confirm, if any, comes after this (RabbitMQ, "Publisher Confirms").
    pub(super) fn returned(&mut self, index: usize, stamp: Option<Stamp>) {
        let producer = &mut self.producers[index];
        let Some(Stamp {
            stream, sequence, ..
        }) = stamp
        else {
            return;
        };
        let counts = stamp::counts(stream);
        if counts {
            self.worker.record.count(count::RETURNED, 1);
        }
        let same = |message: &&mut Unconfirmed| {
            message.sequence == sequence && message.counts == counts && !message.confirmed
        };
        let unconfirmed = producer.unconfirmed.iter_mut().find(same);
        let unconfirmed_no_more = unconfirmed.is_none();
        let confirms = self.driver.plan.driver.confirms.is_some();
        let ends_at_arrival = self.driver.ends_at_arrival();
        let ended = match unconfirmed {
            Some(message) => std::mem::replace(&mut message.ended, true),
            // Without consumers, it ended when it was confirmed or, without confirms, written.
            None => !ends_at_arrival,
        };
        if confirms && unconfirmed_no_more {
            self.worker.record.count(count::PROTOCOL, 1);
        }
        self.failed(stream, sequence, ended, outcome::RETURNED);
    }

    /// Fails the unconfirmed messages of a producer after its connection is lost or the run is over.
    pub(super) fn fail_unconfirmed(&mut self, index: usize, kind: Option<&'static str>) {
        let producer = &mut self.producers[index];
        producer.link = None;
        let number = producer.number;
        let unsent = std::mem::take(&mut producer.unsent).len() as u64;
        let open: Vec<Unconfirmed> = producer
            .unconfirmed
            .drain(..)
            .filter(|message| !message.confirmed)
            .collect();
        let counted = open.iter().filter(|message| message.counts).count() as u64;
        if counted > 0 {
            self.worker.record.count(count::UNCONFIRMED, counted);
        }
        let Some(kind) = kind else {
            // At the end of the run, the ledger settles messages that are to arrive.
            let ended = open
                .iter()
                .filter(|message| message.counts && !message.ended)
                .count() as u64;
            let here = if self.driver.ends_at_arrival() {
                0
            } else {
                ended
            };
            return self.worker.record.unfinished_many(here + unsent);
        };
        for message in open {
            let stream = stamp::stream(number, message.counts);
            self.failed(stream, message.sequence, message.ended, kind);
        }
        self.worker.record.error_many(kind, unsent);
    }
}
