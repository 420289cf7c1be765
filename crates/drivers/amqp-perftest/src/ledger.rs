//! The ledger of all messages of a run, over all of its workers: which arrived, arrived twice, arrived out of order, or
//! never arrived.
//!
//! Each producer numbers its messages from 0 without a gap ([`amqp_client::stamp`]), so one bit per message is enough.
//! A worker collects its arrivals and hands them in when there are thousands, every 2 ms, and at its end: under load,
//! the lock is taken once for thousands of messages. Bits are kept in pieces of 4,096. A piece is dropped once all of
//! its messages have arrived, so that memory follows the backlog and not the length of the run.
//!
//! An operation is one message published, or consumed if the run has no producers. With consumers it ends once, with
//! the first of these: the message arrives (ok), the broker refuses or returns it, or its connection is lost before the
//! confirm (that error; a later arrival is only counted, as `arrived_late`). Operations still open when the last worker
//! ends are `unfinished` as far as messages are still in the queues. Beyond that they are `refused` if the broker
//! closed their channel and they were not to be confirmed, `dropped` if an argument of the plan permits that, and
//! `lost` otherwise. An arrived message may be in a queue again, because a consumer requeued it or lost its connection
//! before the acknowledgement. These are subtracted from the queue depth.
//!
//! If the workers are in several processes, each has a part of the ledger, and the [merged] one has the outcomes that
//! need all of them.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use load::clock;
use load::recorder::Recorder;

use crate::outcome::{self, count};
use crate::spec::END_TO_END;
use amqp_client::stamp;

mod merged;
mod missing;
mod part;
mod stream;

pub(crate) use merged::MergedLedger;
pub(crate) use part::{LedgerLine, LedgerPart, QueueDepth};

use missing::Missing;
use part::PartState;
use stream::Stream;

/// Arrivals that a worker collects before it hands them in.
pub(crate) const KEPT: usize = 8192;

/// Maximum messages that are written and not recorded yet.
const NOT_NOTED: u64 = 1 << 20;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) stream: u32,
    pub(crate) consumer: u32,
    pub(crate) sequence: u64,
    /// Time since the intended start, nanoseconds; `None` if the sender's clock is ahead.
    pub(crate) latency: Option<u64>,
    pub(crate) redelivered: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    state: Mutex<LedgerState>,
    /// Messages written, including the warm-up's.
    published: AtomicU64,
    /// Messages that have arrived or ended otherwise.
    settled: AtomicU64,
    /// Messages that had arrived and were requeued.
    given_back: AtomicU64,
    /// Workers whose producers have finished, and the time at which the last of them did.
    done: AtomicU64,
    done_at: AtomicU64,
    /// Workers that have ended.
    left: AtomicU64,
    /// True if the run has no producers. The published messages are then unknown, and an operation is one message
    /// consumed.
    consume_only: bool,
    /// The run whose messages a run without producers accepts: the first message's.
    accepted_run: AtomicU64,
}

#[derive(Debug, Default)]
struct LedgerState {
    streams: Vec<Stream>,
    /// Delivery order by consumer.
    orders: Vec<ConsumerOrder>,
    /// Failed messages that have not arrived since.
    failed: HashSet<(u32, u64)>,
    /// Repeated arrivals that the broker marked as redelivered.
    redelivered: u64,
    /// Further records, if other processes have parts of the ledger too.
    part: Option<PartState>,
}

/// The sequence of messages that a consumer received. It has entries only for streams that it received messages of:
/// with 50,000 consumers and a producer each, entries for all streams would take 20 GB.
#[derive(Debug, Default)]
struct ConsumerOrder {
    /// Streams, sorted, each with the number after the greatest received.
    next: Vec<(u32, u64)>,
    /// Index of the last message's stream, which is mostly the next one's too.
    last: usize,
}

impl Ledger {
    /// Returns an empty ledger; `consume_only` is set if the run has no producers, `is_part` if other processes have
    /// parts of it too.
    pub(crate) fn new(consume_only: bool, is_part: bool) -> Self {
        let state = LedgerState {
            part: is_part.then(PartState::default),
            ..LedgerState::default()
        };
        Self {
            consume_only,
            state: Mutex::new(state),
            ..Self::default()
        }
    }

    fn state(&self) -> MutexGuard<'_, LedgerState> {
        // A panicking worker fails the run; the ledger of the others is still valid.
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns true if a run without producers accepts messages of this run. It accepts only one run, because sequence
    /// numbers of two would collide.
    pub(crate) fn accepts_run(&self, run: u32) -> bool {
        let run = u64::from(run) | 1 << 32;
        let first =
            self.accepted_run
                .compare_exchange(0, run, Ordering::Relaxed, Ordering::Relaxed);
        first.is_ok() || first == Err(run)
    }

    /// Returns true for the run whose messages a run without producers accepts.
    pub(crate) fn has_accepted(&self, run: u32) -> bool {
        self.accepted_run.load(Ordering::Relaxed) == u64::from(run) | 1 << 32
    }

    /// Returns the run whose messages a run without producers has accepted; 0 if none came.
    pub(crate) fn accepted_run(&self) -> u32 {
        self.accepted_run.load(Ordering::Relaxed) as u32
    }

    /// Adds written messages.
    pub(crate) fn published(&self, messages: u64) {
        self.published.fetch_add(messages, Ordering::Relaxed);
    }

    /// Takes a worker's arrivals. Each measured one ends an operation and has a latency, unless the operation has
    /// already ended.
    pub(crate) fn take(&self, arrivals: &mut Vec<Arrival>, record: &Recorder) {
        if arrivals.is_empty() {
            return;
        }
        let found = self.state().take(arrivals);
        for arrival in arrivals.drain(..) {
            let is_counted = self.consume_only || stamp::counts(arrival.stream);
            if let Some(latency) = arrival.latency {
                let meets = record.meets(END_TO_END, latency);
                record.goodput(is_counted, u64::from(meets));
            }
            if is_counted {
                match arrival.latency {
                    Some(latency) => record.value(END_TO_END, latency),
                    None => record.count(count::NEGATIVE_LATENCY, 1),
                }
            }
        }
        self.settled.fetch_add(found.fresh, Ordering::Relaxed);
        if self.consume_only {
            record.begin_many(found.fresh);
            record.ok_many(found.fresh);
        } else {
            record.ok_many(found.fresh_counted);
            record.ok_of_warmup(found.fresh - found.fresh_counted);
        }
        record.add(count::DUPLICATED, found.duplicated);
        record.add(count::OUT_OF_ORDER, found.out_of_order);
        record.add(count::ARRIVED_LATE, found.late);
        record.add(count::FOREIGN, found.foreign);
    }

    /// Adds arrived messages that are requeued.
    pub(crate) fn given_back(&self, messages: u64) {
        self.given_back.fetch_add(messages, Ordering::Relaxed);
    }

    /// Returns how many messages in queues have arrived before: requeued ones that have not come again. Final once all
    /// workers have left.
    pub(crate) fn in_queues_again(&self) -> u64 {
        let given_back = self.given_back.load(Ordering::Relaxed);
        given_back.saturating_sub(self.state().redelivered)
    }

    /// Ends the operation of a message with `kind`, unless it has ended.
    pub(crate) fn fail(&self, stream: u32, sequence: u64, kind: &'static str, record: &Recorder) {
        if self.state().fail(stream, sequence, kind) {
            self.settled.fetch_add(1, Ordering::Relaxed);
            if stamp::counts(stream) {
                record.error(kind)
            } else {
                record.error_of_warmup(kind)
            }
        }
    }

    /// Records that the broker closed the channel of a stream, of which `written` messages were written. It may have
    /// refused any of those that do not arrive.
    pub(crate) fn refused(&self, stream: u32, written: u64) {
        self.state().stream(stream).refusable_below = written;
    }

    /// Ends the operation of a corrupted message, if a message of this number can exist.
    pub(crate) fn damaged(&self, stream: u32, sequence: u64, record: &Recorder) {
        // Each stream has fewer messages than all together, some of which may not be recorded yet. Those that another
        // process publishes are known only by their arrival.
        let published = self.published.load(Ordering::Relaxed);
        let most = published.max(self.state().stream(stream).end());
        if sequence < most + NOT_NOTED {
            self.fail(stream, sequence, outcome::DAMAGED, record);
        }
    }

    /// Returns how many messages were redelivered beyond those that had been requeued. Final once all workers have
    /// left.
    pub(crate) fn redelivered_unasked(&self) -> u64 {
        let given_back = self.given_back.load(Ordering::Relaxed);
        self.state().redelivered.saturating_sub(given_back)
    }

    /// Records that a worker's producers have written everything, `numbers` of each stream.
    pub(crate) fn producers_done(&self, numbers: impl Iterator<Item = (u32, u64)>) {
        let mut state = self.state();
        for (stream, published) in numbers {
            state.stream(stream).published = Some(published);
        }
        drop(state);
        self.done_at.fetch_max(clock::now(), Ordering::Relaxed);
        self.done.fetch_add(1, Ordering::Release);
    }

    /// Returns the time since which the producers of all `workers` workers are finished.
    pub(crate) fn published_all(&self, workers: u64) -> Option<u64> {
        let done = self.done.load(Ordering::Acquire) >= workers;
        done.then(|| self.done_at.load(Ordering::Relaxed))
    }

    /// Returns how many messages were written here and have not ended here, once the producers of all `workers` workers
    /// of this process are finished.
    pub(crate) fn open(&self, workers: u64) -> Option<i64> {
        self.published_all(workers)?;
        let [published, settled] = [&self.published, &self.settled]
            .map(|messages| messages.load(Ordering::Relaxed).cast_signed());
        Some(published - settled)
    }

    /// Returns true once the producers of all `workers` workers are finished and every message has ended.
    pub(crate) fn complete(&self, workers: u64) -> bool {
        self.published_all(workers).is_some()
            && self.settled.load(Ordering::Relaxed) >= self.published.load(Ordering::Relaxed)
    }

    /// Records that a worker ends. Returns true if it is the last of `workers`.
    pub(crate) fn leave(&self, workers: u64) -> bool {
        self.left.fetch_add(1, Ordering::AcqRel) + 1 == workers
    }

    /// Returns the messages that have not ended. Final once all workers have left.
    pub(crate) fn missing(&self) -> Missing {
        let state = self.state();
        let mut missing = Missing::default();
        for (index, stream) in state.streams.iter().enumerate() {
            let published = stream.published.unwrap_or(0);
            missing.add(
                stamp::counts(index as u32),
                published.saturating_sub(stream.settled),
                stream.refusable(),
            );
        }
        missing
    }

    /// Records the missing messages; `queued` messages are still in queues. With `None` the queue depths are unknown,
    /// and no message counts as lost. `may_drop` is set if the plan permits the queues to drop messages.
    pub(crate) fn close(&self, queued: Option<u64>, may_drop: bool, record: &Recorder) {
        let again = self.in_queues_again();
        let queued = queued.map(|queued| queued.saturating_sub(again));
        let missing = self.missing().explained_by(queued);
        record.unfinished_many(missing.unfinished);
        record.error_many(outcome::REFUSED, missing.refused);
        let kind = outcome::of_missing(may_drop);
        record.error_many(kind, missing.lost);
        // The result shows 0 lost messages, too.
        record.count(count::LOST, 0);
        record.count_by_name(kind, missing.lost + missing.lost_of_warmup);
    }
}

#[derive(Debug, Default)]
struct BatchOutcome {
    fresh: u64,
    fresh_counted: u64,
    duplicated: u64,
    out_of_order: u64,
    late: u64,
    foreign: u64,
}

impl LedgerState {
    fn stream(&mut self, stream: u32) -> &mut Stream {
        let index = stream as usize;
        if index >= self.streams.len() {
            self.streams.resize_with(index + 1, Stream::default);
        }
        &mut self.streams[index]
    }

    /// Takes arrivals. Those that ended an operation stay in the list.
    fn take(&mut self, arrivals: &mut Vec<Arrival>) -> BatchOutcome {
        let mut found = BatchOutcome::default();
        arrivals.retain(|arrival| {
            if arrival.sequence >= stream::MOST {
                found.foreign += 1;
                return false;
            }
            let in_order = self.in_order(arrival);
            if self.sets_aside(arrival) {
                return false;
            }
            let fresh = self.stream(arrival.stream).settle(arrival.sequence);
            if fresh {
                found.fresh += 1;
                found.fresh_counted += u64::from(stamp::counts(arrival.stream));
                found.out_of_order += u64::from(!in_order && !arrival.redelivered);
            } else if !self.failed.is_empty()
                && self.failed.remove(&(arrival.stream, arrival.sequence))
            {
                found.late += u64::from(stamp::counts(arrival.stream));
                if let Some(part) = &mut self.part {
                    part.late(arrival);
                }
            } else {
                // A redelivered message may have been delivered before, as the broker says itself.
                found.duplicated += u64::from(!arrival.redelivered);
                self.redelivered += u64::from(arrival.redelivered);
            }
            fresh
        });
        found
    }

    /// Returns true if the consumer has received no later message of the same stream.
    fn in_order(&mut self, arrival: &Arrival) -> bool {
        let consumer = arrival.consumer as usize;
        if consumer >= self.orders.len() {
            self.orders
                .resize_with(consumer + 1, ConsumerOrder::default);
        }
        self.orders[consumer].takes(arrival.stream, arrival.sequence)
    }

    fn fail(&mut self, stream: u32, sequence: u64, kind: &'static str) -> bool {
        let fresh = self.stream(stream).settle(sequence);
        if fresh {
            self.failed.insert((stream, sequence));
            if let Some(part) = &mut self.part {
                part.failed.push((stream, sequence, kind));
            }
        }
        fresh
    }

    /// Sets a redelivered message aside that has not ended here: its first delivery may have been to another process.
    fn sets_aside(&mut self, arrival: &Arrival) -> bool {
        let stream = self.streams.get(arrival.stream as usize);
        let Some(part) = self.part.as_mut().filter(|_| arrival.redelivered) else {
            return false;
        };
        if stream.is_some_and(|stream| stream.is_settled(arrival.sequence)) {
            return false;
        }
        self.redelivered += part.set_aside(arrival);
        true
    }
}

impl ConsumerOrder {
    fn takes(&mut self, stream: u32, sequence: u64) -> bool {
        if self.next.get(self.last).is_none_or(|(of, _)| *of != stream) {
            let found = self.next.binary_search_by_key(&stream, |(of, _)| *of);
            self.last = found.unwrap_or_else(|index| {
                self.next.insert(index, (stream, 0));
                index
            });
        }
        let next = &mut self.next[self.last].1;
        let in_order = sequence >= *next;
        *next = (*next).max(sequence + 1);
        in_order
    }
}

#[cfg(test)]
mod tests {
    use super::stream::PIECE;
    use super::*;

    fn arrival(consumer: u32, sequence: u64) -> Arrival {
        Arrival {
            stream: stamp::stream(0, true),
            consumer,
            sequence,
            latency: Some(0),
            redelivered: false,
        }
    }

    fn state() -> (
        LedgerState,
        impl FnMut(&mut LedgerState, &[Arrival]) -> [u64; 4],
    ) {
        let take = |state: &mut LedgerState, arrivals: &[Arrival]| {
            let found = state.take(&mut arrivals.to_vec());
            [
                found.fresh,
                found.duplicated,
                found.out_of_order,
                found.late,
            ]
        };
        (LedgerState::default(), take)
    }

    #[test]
    fn a_second_arrival_is_a_duplicate_even_at_another_consumer_and_when_its_piece_is_let_go() {
        let (mut state, mut take) = state();
        let all: Vec<_> = (0..PIECE).map(|index| arrival(0, index)).collect();
        assert_eq!(take(&mut state, &all), [PIECE, 0, 0, 0]);
        assert_eq!(take(&mut state, &[arrival(1, 5)]), [0, 1, 0, 0]);
        let again = Arrival {
            redelivered: true,
            ..arrival(1, 6)
        };
        assert_eq!(take(&mut state, &[again]), [0, 0, 0, 0]);
    }

    #[test]
    fn order_is_asked_of_each_consumer_alone() {
        let (mut state, mut take) = state();
        let split = [arrival(0, 1), arrival(1, 0), arrival(0, 3), arrival(1, 2)];
        assert_eq!(take(&mut state, &split), [4, 0, 0, 0]);
        let swapped = [arrival(0, 5), arrival(0, 4)];
        assert_eq!(take(&mut state, &swapped), [2, 0, 1, 0]);
    }

    #[test]
    fn order_is_kept_of_the_streams_that_a_consumer_was_given_alone() {
        let mut order = ConsumerOrder::default();
        for (stream, sequence, in_order) in [
            (1_999_999, 4, true),
            (3, 7, true),
            (700, 0, true),
            (1_999_999, 3, false),
            (3, 6, false),
            (3, 8, true),
            (700, 1, true),
        ] {
            assert_eq!(
                order.takes(stream, sequence),
                in_order,
                "{stream} {sequence}"
            );
        }
        assert_eq!(order.next, [(3, 9), (700, 2), (1_999_999, 5)]);
    }

    #[test]
    fn a_message_ends_once_and_what_comes_after_that_is_late() {
        let (mut state, mut take) = state();
        assert!(state.fail(1, 0, outcome::NACKED));
        assert!(!state.fail(1, 0, outcome::NACKED));
        assert_eq!(take(&mut state, &[arrival(0, 0)]), [0, 0, 0, 1]);
        assert_eq!(take(&mut state, &[arrival(0, 1)]), [1, 0, 0, 0]);
        assert!(!state.fail(1, 1, outcome::NACKED), "it has arrived");
    }

    #[test]
    fn published_messages_without_an_end_are_missing() {
        let ledger = Ledger::default();
        ledger.published(10);
        assert!(!ledger.complete(1));
        ledger.producers_done([(1, 8), (0, 2)].into_iter());
        ledger.state().take(&mut vec![arrival(0, 0), arrival(0, 1)]);
        let missing = Missing {
            counted: 6,
            warmup: 2,
            ..Missing::default()
        };
        assert_eq!(ledger.missing(), missing);
        assert!(!ledger.leave(2) && ledger.leave(2));
    }

    #[test]
    fn missing_messages_of_a_closed_channel_are_refused_as_far_as_no_queue_has_them() {
        let ledger = Ledger::default();
        ledger.published(8);
        ledger.state().take(&mut vec![arrival(0, 0), arrival(0, 6)]);
        ledger.refused(1, 5);
        ledger.producers_done([(1, 8)].into_iter());
        let missing = ledger.missing();
        assert_eq!((missing.counted, missing.refusable), (6, 4));
        for (queued, [unfinished, refused, lost]) in [
            (Some(0), [0, 4, 2]),
            (Some(3), [3, 3, 0]),
            (None, [6, 0, 0]),
        ] {
            let found = missing.explained_by(queued);
            let found = [found.unfinished, found.refused, found.lost];
            assert_eq!(found, [unfinished, refused, lost], "{queued:?}");
        }
    }
}
