//! The account of all messages of a run, over all of its workers: which arrived, which twice, in which order, and which
//! never.
//!
//! Each producer numbers its messages from 0 without a gap ([`crate::stamp`]), so a bit for each is enough to know. A
//! worker notes what arrives and hands its notes in when there are thousands, every 2 ms and at its end: under load the
//! lock is taken once for thousands of messages. Bits are kept in pieces of 4,096; a piece whose messages have all arrived is
//! let go, so that what is kept follows the backlog and not the length of the run.
//!
//! An operation is one message published (consumed, where nobody publishes). Where there are consumers it ends, once, with the first of: it arrives (ok);
//! the broker refuses or returns it, or its connection is lost before it was confirmed (that error; a later arrival is
//! only counted, as `arrived_late`). What has done neither when the last worker ends is `unfinished` as far as messages
//! are still in the queues, and `lost` beyond that. A message that has arrived may lie in a queue again, because a consumer
//! gave it back, or lost its connection before it was acknowledged: so many are not counted among those in the queues.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use harness::clock;
use harness::recorder::Recorder;

use crate::outcome::{self, count};
use crate::series::END_TO_END;
use crate::stamp;

mod stream;

use stream::Stream;

/// Arrivals that a worker keeps to itself.
pub(crate) const KEPT: usize = 8192;

/// Most messages that are written and not noted yet.
const NOT_NOTED: u64 = 1 << 20;

/// A message that has arrived.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) stream: u32,
    pub(crate) consumer: u32,
    pub(crate) sequence: u64,
    /// From the intended start, nanoseconds; `None` where that lies later by the clock of the sender.
    pub(crate) latency: Option<u64>,
    pub(crate) redelivered: bool,
}

/// The account of a run.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    books: Mutex<Books>,
    /// Messages written, those of the warm-up too.
    published: AtomicU64,
    /// Messages that have arrived or come to another end.
    settled: AtomicU64,
    /// Messages that had arrived and went back to their queue.
    given_back: AtomicU64,
    /// Workers whose producers have nothing more to do, and when the last of them said so.
    done: AtomicU64,
    done_at: AtomicU64,
    /// Workers that have ended.
    left: AtomicU64,
    /// Whether the run has no producers: then what was published is not known, and an operation is a message consumed.
    alone: bool,
    /// The run whose messages a run without producers takes: that of the first.
    adopted: AtomicU64,
}

#[derive(Debug, Default)]
struct Books {
    streams: Vec<Stream>,
    /// By consumer.
    orders: Vec<Order>,
    /// Messages that ended otherwise and have not arrived since.
    failed: HashSet<(u32, u64)>,
    /// Arrivals of messages that had arrived before, as the broker said.
    came_back: u64,
}

/// What a consumer was given. It has an entry for each stream that it was given something of, and not for each that
/// there is: 50,000 consumers with a producer each would else be 20 GB.
#[derive(Debug, Default)]
struct Order {
    /// Streams, sorted, each with the number after the greatest that came.
    next: Vec<(u32, u64)>,
    /// The place of the stream that came last: mostly that of the next one too.
    last: usize,
}

/// What the last worker finds missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Missing {
    /// Of those that count.
    pub(crate) counted: u64,
    /// Of the warm-up.
    pub(crate) warmup: u64,
}

impl Ledger {
    /// An empty account; `alone` where the run has no producers.
    pub(crate) fn new(alone: bool) -> Self {
        Self {
            alone,
            ..Self::default()
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // A worker that panics fails the run; the account of the others still holds.
        self.books
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whether a run without producers takes messages of this run: those of one only, or numbers would meet twice.
    pub(crate) fn adopts(&self, run: u32) -> bool {
        let run = u64::from(run) | 1 << 32;
        let first = self
            .adopted
            .compare_exchange(0, run, Ordering::Relaxed, Ordering::Relaxed);
        first.is_ok() || first == Err(run)
    }

    /// Returns true for the run whose messages a run without producers takes.
    pub(crate) fn has_adopted(&self, run: u32) -> bool {
        self.adopted.load(Ordering::Relaxed) == u64::from(run) | 1 << 32
    }

    /// Notes that messages were written.
    pub(crate) fn published(&self, messages: u64) {
        self.published.fetch_add(messages, Ordering::Relaxed);
    }

    /// Takes a worker's arrivals; those that count end an operation each, if it has not ended, and have a latency then.
    pub(crate) fn take(&self, arrivals: &mut Vec<Arrival>, record: &Recorder) {
        if arrivals.is_empty() {
            return;
        }
        let found = self.books().take(arrivals);
        for arrival in arrivals.drain(..) {
            if self.alone || stamp::counts(arrival.stream) {
                match arrival.latency {
                    Some(latency) => record.value(END_TO_END, latency),
                    None => record.count(count::NEGATIVE_LATENCY, 1),
                }
            }
        }
        self.settled.fetch_add(found.fresh, Ordering::Relaxed);
        if self.alone {
            record.begin_many(found.fresh);
            record.ok_many(found.fresh);
        } else {
            record.ok_many(found.fresh_counted);
            record.ok_of_warmup(found.fresh - found.fresh_counted);
        }
        for (name, number) in [
            (count::DUPLICATED, found.duplicated),
            (count::OUT_OF_ORDER, found.out_of_order),
            (count::ARRIVED_LATE, found.late),
            (count::FOREIGN, found.foreign),
        ] {
            if number > 0 {
                record.count(name, number);
            }
        }
    }

    /// Notes that messages which have arrived go back to their queue.
    pub(crate) fn given_back(&self, messages: u64) {
        self.given_back.fetch_add(messages, Ordering::Relaxed);
    }

    /// Messages in queues that have arrived once: what went back to a queue and has not come again. Final once all workers
    /// have left.
    pub(crate) fn in_queues_again(&self) -> u64 {
        let given_back = self.given_back.load(Ordering::Relaxed);
        given_back.saturating_sub(self.books().came_back)
    }

    /// Ends the operation of a message otherwise, unless it has ended.
    pub(crate) fn fail(&self, stream: u32, sequence: u64, kind: &'static str, record: &Recorder) {
        if self.books().fail(stream, sequence) {
            self.settled.fetch_add(1, Ordering::Relaxed);
            match stamp::counts(stream) {
                true => record.error(kind),
                false => record.error_of_warmup(),
            }
        }
    }

    /// Ends the operation of a message whose body is not as it was sent, where there can be one of this number.
    pub(crate) fn damaged(&self, stream: u32, sequence: u64, record: &Recorder) {
        // Each stream has fewer than all of them have together, of which some may not be noted yet.
        let most = self.published.load(Ordering::Relaxed) + NOT_NOTED;
        if sequence < most {
            self.fail(stream, sequence, outcome::DAMAGED, record);
        }
    }

    /// Returns how many messages came again, marked as redelivered, beyond those that had gone back to their queue. Final
    /// once all workers have left.
    pub(crate) fn came_back_unasked(&self) -> u64 {
        let given_back = self.given_back.load(Ordering::Relaxed);
        self.books().came_back.saturating_sub(given_back)
    }

    /// A worker's producers have written all that they will, `numbers` of each stream.
    pub(crate) fn producers_done(&self, numbers: impl Iterator<Item = (u32, u64)>) {
        let mut books = self.books();
        for (stream, published) in numbers {
            books.stream(stream).published = published;
        }
        drop(books);
        self.done_at.fetch_max(clock::now(), Ordering::Relaxed);
        self.done.fetch_add(1, Ordering::Release);
    }

    /// Since when the producers of so many workers have nothing more to do.
    pub(crate) fn published_all(&self, workers: u64) -> Option<u64> {
        let done = self.done.load(Ordering::Acquire) >= workers;
        done.then(|| self.done_at.load(Ordering::Relaxed))
    }

    /// Whether the producers of so many workers have written all that they will and every message has come to an end.
    pub(crate) fn complete(&self, workers: u64) -> bool {
        self.published_all(workers).is_some()
            && self.settled.load(Ordering::Relaxed) >= self.published.load(Ordering::Relaxed)
    }

    /// A worker ends; whether it is the last of so many.
    pub(crate) fn leave(&self, workers: u64) -> bool {
        self.left.fetch_add(1, Ordering::AcqRel) + 1 == workers
    }

    /// What has not come to an end. Final once all workers have left.
    pub(crate) fn missing(&self) -> Missing {
        let books = self.books();
        let of = |counts: bool| {
            let streams = books.streams.iter().enumerate();
            streams
                .filter(|(place, _)| stamp::counts(*place as u32) == counts)
                .map(|(_, stream)| stream.published.saturating_sub(stream.settled))
                .sum()
        };
        Missing {
            counted: of(true),
            warmup: of(false),
        }
    }

    /// Writes down what is missing, where `queued` messages still lie in queues. `None`: nobody could say, so none of
    /// it is called lost.
    pub(crate) fn close(&self, queued: Option<u64>, record: &Recorder) {
        let Missing { counted, warmup } = self.missing();
        let again = self.in_queues_again();
        let queued = queued.map_or(u64::MAX, |queued| queued.saturating_sub(again));
        let unfinished = counted.min(queued);
        let lost = counted - unfinished;
        let lost_of_warmup = warmup.saturating_sub(queued - unfinished);
        record.unfinished_many(unfinished);
        record.error_many(outcome::LOST, lost);
        record.count(count::LOST, lost + lost_of_warmup);
    }
}

/// What a batch of arrivals comes to.
#[derive(Debug, Default)]
struct Found {
    fresh: u64,
    fresh_counted: u64,
    duplicated: u64,
    out_of_order: u64,
    late: u64,
    foreign: u64,
}

impl Books {
    fn stream(&mut self, stream: u32) -> &mut Stream {
        let place = stream as usize;
        if place >= self.streams.len() {
            self.streams.resize_with(place + 1, Stream::default);
        }
        &mut self.streams[place]
    }

    /// Takes arrivals, and leaves those in the list that ended an operation.
    fn take(&mut self, arrivals: &mut Vec<Arrival>) -> Found {
        let mut found = Found::default();
        arrivals.retain(|arrival| {
            if arrival.sequence >= stream::MOST {
                found.foreign += 1;
                return false;
            }
            let in_order = self.in_order(arrival);
            let fresh = self.stream(arrival.stream).settle(arrival.sequence);
            if fresh {
                found.fresh += 1;
                found.fresh_counted += u64::from(stamp::counts(arrival.stream));
                found.out_of_order += u64::from(!in_order && !arrival.redelivered);
            } else if !self.failed.is_empty()
                && self.failed.remove(&(arrival.stream, arrival.sequence))
            {
                found.late += u64::from(stamp::counts(arrival.stream));
            } else {
                // The broker says itself that a redelivered message may have been there before.
                found.duplicated += u64::from(!arrival.redelivered);
                self.came_back += u64::from(arrival.redelivered);
            }
            fresh
        });
        found
    }

    /// Whether a consumer was given nothing later of the same stream before.
    fn in_order(&mut self, arrival: &Arrival) -> bool {
        let consumer = arrival.consumer as usize;
        if consumer >= self.orders.len() {
            self.orders.resize_with(consumer + 1, Order::default);
        }
        self.orders[consumer].takes(arrival.stream, arrival.sequence)
    }

    fn fail(&mut self, stream: u32, sequence: u64) -> bool {
        let fresh = self.stream(stream).settle(sequence);
        if fresh {
            self.failed.insert((stream, sequence));
        }
        fresh
    }
}

impl Order {
    fn takes(&mut self, stream: u32, sequence: u64) -> bool {
        if self.next.get(self.last).is_none_or(|(of, _)| *of != stream) {
            let found = self.next.binary_search_by_key(&stream, |(of, _)| *of);
            self.last = found.unwrap_or_else(|place| {
                self.next.insert(place, (stream, 0));
                place
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

    fn books() -> (Books, impl FnMut(&mut Books, &[Arrival]) -> [u64; 4]) {
        let take = |books: &mut Books, arrivals: &[Arrival]| {
            let found = books.take(&mut arrivals.to_vec());
            [
                found.fresh,
                found.duplicated,
                found.out_of_order,
                found.late,
            ]
        };
        (Books::default(), take)
    }

    #[test]
    fn a_second_arrival_is_a_duplicate_even_at_another_consumer_and_when_its_piece_is_let_go() {
        let (mut books, mut take) = books();
        let all: Vec<_> = (0..PIECE).map(|place| arrival(0, place)).collect();
        assert_eq!(take(&mut books, &all), [PIECE, 0, 0, 0]);
        assert!(books.streams[1].keeps_nothing());
        assert_eq!(take(&mut books, &[arrival(1, 5)]), [0, 1, 0, 0]);
        let again = Arrival {
            redelivered: true,
            ..arrival(1, 6)
        };
        assert_eq!(take(&mut books, &[again]), [0, 0, 0, 0]);
    }

    #[test]
    fn order_is_asked_of_each_consumer_alone() {
        let (mut books, mut take) = books();
        let split = [arrival(0, 1), arrival(1, 0), arrival(0, 3), arrival(1, 2)];
        assert_eq!(take(&mut books, &split), [4, 0, 0, 0]);
        let swapped = [arrival(0, 5), arrival(0, 4)];
        assert_eq!(take(&mut books, &swapped), [2, 0, 1, 0]);
    }

    #[test]
    fn order_is_kept_of_the_streams_that_a_consumer_was_given_alone() {
        let mut order = Order::default();
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
        let (mut books, mut take) = books();
        assert!(books.fail(1, 0));
        assert!(!books.fail(1, 0));
        assert_eq!(take(&mut books, &[arrival(0, 0)]), [0, 0, 0, 1]);
        assert_eq!(take(&mut books, &[arrival(0, 1)]), [1, 0, 0, 0]);
        assert!(!books.fail(1, 1), "it has arrived");
    }

    #[test]
    fn what_was_published_and_came_to_no_end_is_missing() {
        let ledger = Ledger::default();
        ledger.published(10);
        assert!(!ledger.complete(1));
        ledger.producers_done([(1, 8), (0, 2)].into_iter());
        ledger.books().take(&mut vec![arrival(0, 0), arrival(0, 1)]);
        let missing = Missing {
            counted: 6,
            warmup: 2,
        };
        assert_eq!(ledger.missing(), missing);
        assert!(!ledger.leave(2) && ledger.leave(2));
    }
}
