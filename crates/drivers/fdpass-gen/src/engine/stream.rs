//! A stream in flight.
//!
//! Memory per stream: this entry takes 80 bytes, 88 with its generation; the kernel keeps about 7 KB for the socket
//! pair, outside any process's memory. There is no read buffer per stream: 10,000 streams are 0.9 MB.

use std::os::fd::OwnedFd;

use load::recorder::Recorder;
use measure::tally::Series;
use nix::errno::Errno;

use super::OK;
use crate::expect::{Expect, Expected};
use crate::outcome::{self, count};
use crate::shared::{Shared, Timeouts};
use crate::spec::{DRIFT, FIRST_BYTE, FIRST_EVENT, GAP, STREAM, TAKE};
use fdpass_client::sse::{Fault, Reader, Rest, Seen};

/// A stream in flight.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Our end of the client.
    pub(crate) client: OwnedFd,
    /// The handoff connection, until the daemon closes it.
    pub(crate) handoff: Option<OwnedFd>,
    /// True if it began in the measured time.
    pub(crate) counted: bool,
    /// True if its times count as well.
    timed: bool,
    /// True if its times so far meet the objectives of the plan.
    pub(crate) meets: bool,
    /// The reading behaviour of its client.
    pub(crate) reads: Reads,
    /// Index of the daemon that it was handed to.
    pub(crate) endpoint: u8,
    /// Parser state of the answer.
    reader: Reader,
    /// The intended start.
    pub(crate) start: u64,
    /// Time at which the message was sent.
    sent: u64,
    /// Time at which the handoff was over.
    handed: u64,
    /// Time of the last bytes.
    last: u64,
    /// Time of the last record.
    event: u64,
    /// Bytes received.
    bytes: u32,
    /// Bytes of its records.
    body: u32,
    /// A record cut by a read, or a framed body: rare, so it is a pointer.
    rest: Option<Box<Rest>>,
}

/// The reading behaviour of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// Reads everything at once.
    Promptly,
    /// Reads a few bytes, then pauses.
    Slowly,
    /// Reads nothing.
    Never,
}

/// An attempt to start a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt {
    /// The intended start.
    pub(crate) start: u64,
    pub(crate) counted: bool,
    pub(crate) timed: bool,
    pub(crate) reads: Reads,
    pub(crate) endpoint: u8,
    /// Number of connects that failed before it, and the error of the last one.
    pub(crate) failed: u32,
    pub(crate) errno: Errno,
}

impl Stream {
    pub(crate) fn new(
        client: OwnedFd,
        handoff: OwnedFd,
        attempt: &Attempt,
        sent: u64,
        handed: u64,
    ) -> Self {
        Self {
            client,
            handoff: Some(handoff),
            counted: attempt.counted,
            timed: attempt.timed,
            meets: true,
            reads: attempt.reads,
            endpoint: attempt.endpoint,
            reader: Reader::default(),
            start: attempt.start,
            sent,
            handed,
            last: handed,
            event: handed,
            bytes: 0,
            body: 0,
            rest: None,
        }
    }

    /// Returns the number of received bytes.
    pub(super) fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Returns the number of received records.
    pub(super) fn records(&self) -> u32 {
        self.reader.records()
    }

    /// Returns the time after which the stream is given up, and its outcome then.
    #[inline]
    pub(super) fn expires(&self, timeouts: &Timeouts) -> (u64, &'static str) {
        let (since, timeout, outcome) = match self.bytes {
            0 => (
                self.handed,
                timeouts.first_byte,
                outcome::TIMEOUT_FIRST_BYTE,
            ),
            1.. => (self.last, timeouts.idle, outcome::TIMEOUT_IDLE),
        };
        let next_byte = since.saturating_add(timeout);
        let end = self.handed.saturating_add(timeouts.total);
        match self.reads {
            Reads::Never => (next_byte.min(end), outcome::UNREAD),
            _ if next_byte <= end => (next_byte, outcome),
            _ => (end, outcome::TIMEOUT_TOTAL),
        }
    }

    /// Records that the daemon has closed the handoff connection at `now`.
    pub(super) fn taken(&self, now: u64, record: &Recorder) {
        if self.timed {
            record.value(TAKE, now - self.sent);
        }
    }

    /// Takes a piece of the answer that has come at `now`: compares its records with the expected ones, and records
    /// times and amounts.
    pub(super) fn received(
        &mut self,
        bytes: &[u8],
        now: u64,
        expected: &mut Expected,
        record: &Recorder,
    ) -> Result<Seen, Fault> {
        let first = self.bytes == 0;
        let before = self.reader.records();
        let piece = self.read(bytes, expected);
        self.last = now;
        let records = piece.as_ref().map_or(0, |piece| piece.records);
        record.count_of(self.counted, count::BYTES, bytes.len() as u64);
        record.count_of(self.counted, count::EVENTS, u64::from(records));
        if first {
            self.value(FIRST_BYTE, now - self.handed, record);
        }
        if records > 0 {
            match before {
                0 => self.value(FIRST_EVENT, now - self.start, record),
                _ => self.value(GAP, now - self.event, record),
            }
            // Records of one read have come together.
            (1..records).for_each(|_| self.value(GAP, 1, record));
            self.event = now;
        }
        piece
    }

    /// Compares a time with the objectives, and records it if the times of the stream count.
    #[inline]
    fn value(&mut self, series: Series, ns: u64, record: &Recorder) {
        self.meets &= record.meets(series, ns);
        if self.timed {
            record.value(series, ns);
        }
    }

    /// Returns the outcome once the daemon has closed the stream at `now`. Records the time of a complete one.
    pub(super) fn closed(
        &mut self,
        now: u64,
        shared: &Shared,
        expected: &mut Expected,
        record: &Recorder,
    ) -> &'static str {
        if self.bytes == 0 {
            return outcome::REJECTED;
        }
        if !self.complete() {
            return outcome::INCOMPLETE;
        }
        let messages = shared.settings.messages;
        if messages.is_some_and(|messages| messages != self.records()) {
            return Fault::Order.kind();
        }
        expected.stream_ended();
        let took = now - self.handed;
        self.value(STREAM, took, record);
        if let Some(nominal) = shared.nominal_ns.filter(|_| self.timed) {
            match took.checked_sub(nominal) {
                Some(drift) => record.value(DRIFT, drift.max(1)),
                None => record.count(count::EARLY, 1),
            }
        }
        if self.counted {
            match expected.basis() {
                Expect::Transcript => record.count(count::AS_TRANSCRIPT, 1),
                Expect::First => record.count(count::AS_FIRST, 1),
                Expect::Auto | Expect::Any => {}
            }
        }
        OK
    }

    fn read(&mut self, bytes: &[u8], expected: &mut Expected) -> Result<Seen, Fault> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u32);
        let body = &mut self.body;
        self.reader.read(bytes, &mut self.rest, |records| {
            expected.take(*body as usize, records)?;
            *body = body.saturating_add(records.len() as u32);
            Ok(())
        })
    }

    /// Returns true if the stream has reached its end marker.
    fn complete(&self) -> bool {
        self.reader.done() && self.rest.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_as_small_as_the_sketch_says() {
        assert!(size_of::<Stream>() <= 80, "{} bytes", size_of::<Stream>());
    }
}
