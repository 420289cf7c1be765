//! A publisher: numbers its messages, keeps those that are unconfirmed, and tells how each of them ends.

use std::collections::VecDeque;

use load::event_loop::LoopState;
use load::pacer::{Pacer, Start};

use super::connection::Lost;
use super::starts::{Starts, size_at};
use super::worker::WorkerState;
use crate::outcome::{self, count};
use crate::settings::Settings;
use crate::spec::{CONFIRM, PUBLISH};
use amqp_client::stamp::{self, Stamp};

#[derive(Debug)]
pub(crate) struct Publisher {
    number: u32,
    /// Starts to publish.
    starts: Starts,
    /// Messages written in the warm-up, and in the measured time.
    written: [u64; 2],
    /// Maximum number of unconfirmed messages; `None` without confirms.
    window: Option<usize>,
    /// Unconfirmed messages in the order of their delivery tags; the first has `first_tag`.
    unconfirmed: VecDeque<Unconfirmed>,
    first_tag: u64,
    /// Starts of messages that are not completely written, if an operation ends with the write.
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

/// Messages that the broker has accepted, or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirm {
    /// The delivery tag.
    pub tag: u64,
    /// True if all messages up to `tag` are meant.
    pub multiple: bool,
    /// True if they were accepted.
    pub accepted: bool,
}

/// A batch of messages: the facts that they have in common.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Time from which nothing may start.
    until: u64,
    /// Index of the body, if it changes with time and not with the message.
    body: Option<usize>,
    ends_when_written: bool,
    before: [u64; 2],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NextMessage {
    pub(crate) stamp: Stamp,
    /// Index of its body.
    pub(crate) body: usize,
}

impl Publisher {
    pub(crate) fn new(number: u32, settings: &Settings) -> Self {
        Self {
            number,
            starts: Starts::default(),
            written: [0; 2],
            window: settings.confirms.map(|window| window as usize),
            unconfirmed: VecDeque::new(),
            first_tag: 1,
            unsent: Vec::new(),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        u64::from(self.number)
    }

    /// Handles a new channel, on which delivery tags count from 1.
    pub(crate) fn attach(&mut self) {
        self.first_tag = 1;
    }

    /// Adds a start: a message of a schedule, or the first one of an unpaced publisher.
    pub(crate) fn start(&mut self, start: Start, state: &WorkerState<'_>) {
        self.starts.add(start, state.is_paced());
    }

    /// Returns how many messages could be published now.
    pub(crate) fn ready(&self) -> usize {
        self.starts.waiting().min(self.room())
    }

    /// Returns how many messages fit the window of unconfirmed messages.
    pub(crate) fn room(&self) -> usize {
        self.window().saturating_sub(self.unconfirmed.len())
    }

    pub(crate) fn window(&self) -> usize {
        self.window.unwrap_or(usize::MAX)
    }

    /// Returns how many starts wait to be published; an unpaced publisher has no limit.
    pub(crate) fn waiting(&self) -> usize {
        self.starts.waiting()
    }

    /// Returns true if no more events are expected.
    pub(crate) fn is_settled(&self) -> bool {
        self.unconfirmed.is_empty() && self.unsent.is_empty()
    }

    pub(crate) fn check_confirms(&self, settings: &Settings, now: u64) -> Result<(), Lost> {
        let timeout = settings.confirm_timeout.as_nanos() as u64;
        match self.unconfirmed.front() {
            Some(oldest) if now.saturating_sub(oldest.start) > timeout => Err(Lost {
                kind: outcome::CONFIRM_TIMEOUT,
                is_refusal: false,
                why: "messages were not confirmed in time".to_owned(),
            }),
            _ => Ok(()),
        }
    }

    pub(crate) fn begin_batch(&self, state: &WorkerState<'_>, pacer: &Pacer, now: u64) -> Batch {
        let run = state.run;
        let since = now.saturating_sub(state.phases.origin);
        Batch {
            until: pacer.starts_until(),
            body: size_at(&run.plan.driver, since),
            ends_when_written: self.window.is_none() && !run.ends_at_arrival(),
            before: self.written,
        }
    }

    /// Returns the next message, which is published now. Nothing starts after the end of all starts, however many were
    /// due: those are missed.
    #[inline]
    pub(crate) fn next(
        &mut self,
        state: &WorkerState<'_>,
        pacer: &mut Pacer,
        batch: &Batch,
        now: u64,
    ) -> Option<NextMessage> {
        if self.unconfirmed.len() >= self.window() || now >= batch.until {
            return None;
        }
        let start = self.starts.next(pacer, now)?;
        let counts = state.phases.counts(start);
        let sequence = self.written[usize::from(counts)];
        let in_turn = (self.written[0] + self.written[1]) as usize;
        self.written[usize::from(counts)] += 1;
        if self.window.is_some() {
            self.unconfirmed.push_back(Unconfirmed {
                start,
                sequence,
                counts,
                confirmed: false,
                ended: false,
            });
        } else if batch.ends_when_written && counts {
            self.unsent.push(start);
        }
        let run = state.run;
        Some(NextMessage {
            stamp: Stamp {
                run: run.stamps().run,
                stream: stamp::stream(self.number, counts),
                sequence,
                start: run.stamped(start),
            },
            body: match batch.body {
                Some(body) => body,
                None => in_turn % run.bodies.len(),
            },
        })
    }

    pub(crate) fn end_batch(&self, state: &mut WorkerState<'_>, batch: &Batch) {
        let [warmup, counted] = [0, 1].map(|at| self.written[at] - batch.before[at]);
        let record = &state.record;
        record.begin_many(counted);
        record.add(count::PUBLISHED, counted);
        record.add(count::WARMUP, warmup);
        record.add(count::WRITTEN, warmup + counted);
        record.count_of_warmup(count::PUBLISHED, warmup);
        if batch.ends_when_written {
            record.ok_of_warmup(warmup);
        }
        state.run.ledger.published(warmup + counted);
    }

    /// Handles that everything so far was written.
    pub(crate) fn on_written(&mut self, state: &mut WorkerState<'_>, now: impl FnOnce() -> u64) {
        if self.unsent.is_empty() {
            return;
        }
        let (now, record) = (now(), &state.record);
        record.ok_many(self.unsent.len() as u64);
        for start in self.unsent.drain(..) {
            let ns = now.saturating_sub(start);
            record.value(PUBLISH, ns);
            record.goodput(true, u64::from(record.meets(PUBLISH, ns)));
        }
    }

    pub(crate) fn oldest_tag(&self) -> u64 {
        self.first_tag
    }

    /// Handles a confirm. Returns an error for a tag that was never published: the broker violates the protocol.
    #[inline]
    pub(crate) fn on_confirm(
        &mut self,
        state: &mut WorkerState<'_>,
        confirm: Confirm,
        now: u64,
    ) -> Result<(), String> {
        let Confirm {
            tag,
            multiple,
            accepted,
        } = confirm;
        let Some(last) = tag.checked_sub(self.first_tag) else {
            // It was confirmed before.
            state.record.count(count::PROTOCOL, 1);
            return Ok(());
        };
        let last = last as usize;
        let Some(message) = self.unconfirmed.get(last) else {
            return Err(format!(
                "the broker confirmed message {tag} of a channel, which was never published"
            ));
        };
        if message.confirmed && !multiple {
            state.record.count(count::PROTOCOL, 1);
        }
        let first = if multiple { 0 } else { last };
        for at in first..=last {
            self.confirm(state, at, accepted, now);
        }
        while self
            .unconfirmed
            .front()
            .is_some_and(|front| front.confirmed)
        {
            self.unconfirmed.pop_front();
            self.first_tag += 1;
        }
        Ok(())
    }

    #[inline]
    fn confirm(&mut self, state: &mut WorkerState<'_>, at: usize, accepted: bool, now: u64) {
        let message = &mut self.unconfirmed[at];
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
        let (run, record) = (state.run, &state.record);
        if !accepted {
            if counts {
                record.count(count::NACKED, 1);
            }
            if !ended {
                let stream = stamp::stream(self.number, counts);
                run.fail(stream, sequence, outcome::NACKED, record);
            }
            return;
        }
        let ok = u64::from(!run.ends_at_arrival() && !ended);
        record.count_of(counts, count::CONFIRMED, 1);
        let ns = now.saturating_sub(start);
        record.goodput(counts, ok & u64::from(record.meets(CONFIRM, ns)));
        if counts {
            record.value(CONFIRM, ns);
            record.ok_many(ok);
        } else {
            record.ok_of_warmup(ok);
        }
    }

    /// Handles an unroutable message; its confirm, if any, comes after this (RabbitMQ, "Publisher Confirms").
    pub(crate) fn on_returned(&mut self, state: &mut WorkerState<'_>, stamp: &Stamp) {
        let (stream, sequence) = (stamp.stream, stamp.sequence);
        let counts = stamp::counts(stream);
        if counts {
            state.record.count(count::RETURNED, 1);
        }
        let mut unconfirmed = self.unconfirmed.iter_mut();
        let found = unconfirmed.find(|message| {
            message.sequence == sequence && message.counts == counts && !message.confirmed
        });
        if self.window.is_some() && found.is_none() {
            state.record.count(count::PROTOCOL, 1);
        }
        let ended = match found {
            Some(message) => std::mem::replace(&mut message.ended, true),
            // Without consumers, it ended when it was confirmed or, without confirms, written.
            None => !state.run.ends_at_arrival(),
        };
        if !ended {
            let record = &state.record;
            state.run.fail(stream, sequence, outcome::RETURNED, record);
        }
    }

    /// Handles an unroutable message that is reported together with the confirm of the oldest one, but may be another.
    /// The ledger goes by its stamp; without consumers, the operation of the oldest one ends instead.
    pub(crate) fn on_returned_with_oldest(&mut self, state: &mut WorkerState<'_>, stamp: &Stamp) {
        if !state.run.ends_at_arrival() {
            let oldest = self.unconfirmed.front().map(|oldest| Stamp {
                stream: stamp::stream(self.number, oldest.counts),
                sequence: oldest.sequence,
                ..*stamp
            });
            return self.on_returned(state, &oldest.unwrap_or(*stamp));
        }
        if stamp::counts(stamp.stream) {
            state.record.count(count::RETURNED, 1);
        }
        let (run, record) = (state.run, &state.record);
        run.fail(stamp.stream, stamp.sequence, outcome::RETURNED, record);
    }

    /// Fails the unconfirmed messages after the connection is `lost`. With `None` the run is over, and they are
    /// unfinished. If the broker closed it and confirms nothing, it may have refused any message that does not arrive.
    pub(crate) fn give_up(&mut self, state: &mut WorkerState<'_>, lost: Option<&Lost>) {
        let (run, record) = (state.run, &state.record);
        if lost.is_some_and(|lost| lost.is_refusal) && self.window.is_none() {
            for counts in [false, true] {
                let stream = stamp::stream(self.number, counts);
                run.ledger
                    .refused(stream, self.written[usize::from(counts)]);
            }
        }
        let unsent = std::mem::take(&mut self.unsent).len() as u64;
        let mut open = std::mem::take(&mut self.unconfirmed);
        open.retain(|message| !message.confirmed);
        let counted = open.iter().filter(|message| message.counts);
        let unconfirmed = counted.clone().count() as u64;
        if unconfirmed > 0 {
            record.count(count::UNCONFIRMED, unconfirmed);
        }
        let Some(kind) = lost.map(|lost| lost.kind) else {
            // At the end of the run, the ledger settles messages that are to arrive.
            let here = if run.ends_at_arrival() {
                0
            } else {
                counted.filter(|message| !message.ended).count() as u64
            };
            return record.unfinished_many(here + unsent);
        };
        for message in open.iter().filter(|message| !message.ended) {
            let stream = stamp::stream(self.number, message.counts);
            run.fail(stream, message.sequence, kind, record);
        }
        record.error_many(kind, unsent);
    }
}

/// Ends publishing, once, when the last message was published or nothing may start any more at `now`.
pub(crate) fn end_publishing<P: AsMut<Publisher>, T>(
    state: &mut WorkerState<'_>,
    cx: &mut LoopState<T>,
    producers: &mut [P],
    now: u64,
) {
    if state.has_published() {
        return;
    }
    let any = |producers: &mut [P], holds: fn(&Publisher) -> bool| {
        let mut producers = producers.iter_mut();
        producers.any(|producer| holds(producer.as_mut()))
    };
    let over = cx.pacer.over(now);
    let mut caught_up = || over && !any(producers, |publisher| publisher.starts.due() > 0);
    let ended = now >= cx.phases.end && (now >= cx.pacer.starts_until() || caught_up());
    // A run of consumers alone goes on for as long as it measures.
    let publishes = over && state.run.layout.producers > 0;
    let mut written_all = || publishes && !any(producers, |publisher| publisher.waiting() > 0);
    if !(ended || written_all()) {
        return;
    }
    let publishers = producers.iter_mut().map(AsMut::as_mut);
    cx.count_missed(publishers.map(|publisher| publisher.starts.end()).sum());
    state.on_published(producers.iter_mut().flat_map(|producer| {
        let Publisher {
            number, written, ..
        } = producer.as_mut();
        let (number, written) = (*number, *written);
        [false, true].map(|counts| {
            let stream = stamp::stream(number, counts);
            (stream, written[usize::from(counts)])
        })
    }));
}

#[cfg(test)]
mod tests;
