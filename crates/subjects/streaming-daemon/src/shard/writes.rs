//! The due writes of a shard.

use super::{Shard, SlowPath};
use crate::answer::Answer;
use crate::client::has_unread;
use crate::failure::StreamFailure;
use crate::metrics::Metrics;
use crate::stream::{Step, Stream};
use daemon_kit::clock;

/// Writes per round while no handoff waits: about 0.2 ms, which a handoff may have to wait.
const WRITES_WHEN_CALM: u32 = 64;
/// Writes per round of 64 handoffs while more handoffs wait.
const WRITES_IN_A_RUSH: u32 = 16;

impl Shard {
    /// Returns the number of writes that this round may make.
    ///
    /// In a rush, accepting takes nine tenths of the time, until 31/32 of the slots are taken. From there on, streams
    /// have to end before more of them begin, and the accept queue holds back the senders, which beats turning clients
    /// away.
    pub(super) fn write_budget(&self, accepted_all: bool) -> u32 {
        let shared = &self.shared;
        let is_crowded = shared.metrics.active_streams() > shared.capacity - shared.capacity / 32;
        if accepted_all || is_crowded {
            WRITES_WHEN_CALM
        } else {
            WRITES_IN_A_RUSH
        }
    }

    /// Makes up to `budget` of the due writes, the longest overdue first. Returns true if those were all.
    pub(super) fn serve(&mut self, budget: u32) -> bool {
        let mut now = clock::now();
        let mut sent = Sent::default();
        let mut served_all = false;
        for _ in 0..budget {
            let next_due = self.streams.next_due();
            if next_due.is_none_or(|due| due > now) {
                now = clock::now();
                if next_due.is_none_or(|due| due > now) {
                    served_all = true;
                    break;
                }
            }
            self.write_next(now, &mut sent);
            self.last_served = now;
        }
        sent.report(&self.shared.metrics);
        served_all
    }

    /// Makes the next write of the stream that is due first.
    fn write_next(&mut self, now: u64, sent: &mut Sent) {
        let Some(mut stream) = self.streams.pop() else {
            return;
        };
        let (answer, metrics) = (&self.shared.answer, &self.shared.metrics);
        let events = stream.events();
        let step = stream.step(answer, &mut self.scratch);
        if events == 0 && stream.events() == 1 {
            metrics.first_event(now.saturating_sub(stream.started(answer)));
        }
        match step {
            Step::Sent(bytes) => {
                sent.events += u64::from(stream.events() > events);
                sent.bytes += bytes as u64;
                if stream.is_over(answer) {
                    // Counted before the client is closed, so that the page already includes it when the client sees
                    // its end, and its slot is free.
                    sent.report(metrics);
                    complete(&stream, answer, metrics);
                    self.close(stream);
                } else {
                    self.streams.push(stream);
                }
            }
            Step::Blocked(bytes, rest) => {
                sent.bytes += bytes as u64;
                self.wait_for_client(stream, rest);
            }
            Step::Failed(failure) => {
                metrics.stream_failed(failure);
            }
        }
    }

    fn close(&mut self, stream: Stream) {
        let client = stream.into_client();
        if has_unread(&client) {
            self.linger(client);
        }
    }

    fn wait_for_client(&mut self, stream: Stream, rest: Vec<u8>) {
        let limit = self.shared.write_timeout;
        self.blocked += 1;
        self.slow_paths.spawn(async move {
            let (bytes, stream) = stream.unblock(rest, limit).await;
            SlowPath::Client(bytes, stream)
        });
    }

    /// Takes back a stream whose client made room, or did not. Writes that fell due meanwhile are made at once: due
    /// times do not move.
    pub(super) fn resume(&mut self, bytes: usize, stream: Result<Stream, StreamFailure>) {
        let (answer, metrics) = (&self.shared.answer, &self.shared.metrics);
        let is_event = stream.as_ref().is_ok_and(|stream| stream.events() > 0);
        metrics.wrote(u64::from(is_event), bytes as u64);
        let stream = match stream {
            Ok(stream) => stream,
            Err(failure) => return metrics.stream_failed(failure),
        };
        if stream.is_over(answer) {
            complete(&stream, answer, metrics);
            self.close(stream);
        } else {
            self.streams.push(stream);
        }
    }
}

fn complete(stream: &Stream, answer: &Answer, metrics: &Metrics) {
    let took = clock::now().saturating_sub(stream.started(answer));
    metrics.stream_completed(took, took);
}

/// Sent data that was not reported yet. It is added to the metrics from time to time, not with each write.
#[derive(Debug, Default)]
struct Sent {
    events: u64,
    bytes: u64,
}

impl Sent {
    fn report(&mut self, metrics: &Metrics) {
        if self.bytes > 0 || self.events > 0 {
            metrics.wrote(self.events, self.bytes);
        }
        *self = Self::default();
    }
}
