//! Events that wait for their readers.

use std::collections::VecDeque;
use std::task::{Poll, Waker};

use crate::event::Event;

/// A bounded queue with several readers, each at its own position. Without a reader, nothing is kept.
#[derive(Debug)]
pub(crate) struct EventLog {
    events: VecDeque<Event>,
    /// The position of the first event of the queue.
    begin: u64,
    readers: Vec<Reader>,
    next_reader: u64,
    capacity: usize,
    is_closed: bool,
}

#[derive(Debug)]
struct Reader {
    id: u64,
    position: u64,
    waker: Option<Waker>,
}

impl EventLog {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            events: VecDeque::new(),
            begin: 0,
            readers: Vec::new(),
            next_reader: 0,
            capacity,
            is_closed: false,
        }
    }

    fn end(&self) -> u64 {
        self.begin + self.events.len() as u64
    }

    /// Adds a reader that gets the events from now on.
    pub(crate) fn subscribe(&mut self) -> u64 {
        let (id, position) = (self.next_reader, self.end());
        self.next_reader += 1;
        self.readers.push(Reader {
            id,
            position,
            waker: None,
        });
        id
    }

    pub(crate) fn unsubscribe(&mut self, id: u64) {
        self.readers.retain(|reader| reader.id != id);
        self.trim();
    }

    /// Adds an event, and drops the oldest one if the queue is full.
    pub(crate) fn push(&mut self, event: Event) {
        if self.readers.is_empty() {
            return;
        }
        if self.events.len() >= self.capacity {
            self.events.pop_front();
            self.begin += 1;
        }
        self.events.push_back(event);
        self.wake();
    }

    /// Ends the log: readers get what is left, then `None`.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
        self.wake();
    }

    fn wake(&mut self) {
        let wakers = self
            .readers
            .iter_mut()
            .filter_map(|reader| reader.waker.take());
        wakers.for_each(Waker::wake);
    }

    /// Returns the next event of a reader.
    pub(crate) fn poll(&mut self, id: u64, waker: &Waker) -> Poll<Option<Event>> {
        let (begin, end, is_only) = (self.begin, self.end(), self.readers.len() == 1);
        let Some(reader) = self.readers.iter_mut().find(|reader| reader.id == id) else {
            return Poll::Ready(None);
        };
        if reader.position < begin {
            let lost = begin - reader.position;
            reader.position = begin;
            return Poll::Ready(Some(Event::Lagged(lost)));
        }
        if reader.position == end {
            if self.is_closed {
                return Poll::Ready(None);
            }
            match &mut reader.waker {
                Some(known) => known.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
            return Poll::Pending;
        }
        let index = usize::try_from(reader.position - begin).expect("the queue is bounded");
        reader.position += 1;
        if is_only && index == 0 {
            self.begin += 1;
            let event = self.events.pop_front();
            self.shrink();
            return Poll::Ready(event);
        }
        let event = self.events.get(index).cloned();
        self.trim();
        Poll::Ready(event)
    }

    /// Drops the events that all readers have read.
    fn trim(&mut self) {
        let positions = self.readers.iter().map(|reader| reader.position);
        let needed = positions.min().unwrap_or_else(|| self.end());
        while self.begin < needed && self.events.pop_front().is_some() {
            self.begin += 1;
        }
        self.shrink();
    }

    /// Gives the memory of an empty queue back: thousands of clients have nothing to read most of the time.
    fn shrink(&mut self) {
        if self.events.is_empty() {
            self.events = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(expected: u64) -> Event {
        Event::Gap { expected, got: 0 }
    }

    fn read(log: &mut EventLog, id: u64) -> Option<u64> {
        match log.poll(id, Waker::noop()) {
            Poll::Ready(Some(Event::Gap { expected, .. })) => Some(expected),
            Poll::Ready(Some(Event::Lagged(lost))) => Some(1_000 + lost),
            Poll::Ready(Some(other)) => panic!("{other:?}"),
            Poll::Ready(None) => Some(0),
            Poll::Pending => None,
        }
    }

    #[test]
    fn each_reader_gets_the_events_since_it_subscribed() {
        let mut log = EventLog::new(8);
        log.push(gap(1));
        let first = log.subscribe();
        log.push(gap(2));
        let second = log.subscribe();
        log.push(gap(3));
        assert_eq!(read(&mut log, second), Some(3));
        assert_eq!(read(&mut log, second), None);
        assert_eq!(read(&mut log, first), Some(2));
        assert_eq!(read(&mut log, first), Some(3));
        assert!(log.events.is_empty());
    }

    #[test]
    fn a_slow_reader_learns_how_many_events_were_dropped() {
        let mut log = EventLog::new(2);
        let reader = log.subscribe();
        (1..=5).for_each(|number| log.push(gap(number)));
        assert_eq!(read(&mut log, reader), Some(1_003));
        assert_eq!(read(&mut log, reader), Some(4));
        assert_eq!(read(&mut log, reader), Some(5));
        assert_eq!(read(&mut log, reader), None);
    }

    #[test]
    fn a_closed_log_gives_out_what_is_left() {
        let mut log = EventLog::new(2);
        let reader = log.subscribe();
        log.push(gap(1));
        log.close();
        assert_eq!(read(&mut log, reader), Some(1));
        assert_eq!(read(&mut log, reader), Some(0));
    }

    #[test]
    fn a_reader_that_unsubscribes_keeps_no_event_alive() {
        let mut log = EventLog::new(100);
        let (slow, fast) = (log.subscribe(), log.subscribe());
        (1..=50).for_each(|number| log.push(gap(number)));
        (1..=50).for_each(|number| assert_eq!(read(&mut log, fast), Some(number)));
        log.unsubscribe(slow);
        assert!(log.events.is_empty());
        assert_eq!(log.events.capacity(), 0);
    }
}
