//! The start of a stream: creates a client, connects to the daemon, and hands the client over.

use std::os::fd::{AsRawFd as _, OwnedFd};

use load::clock;
use load::pacer::Start;
use load::slots::Id;
use nix::errno::Errno;

use super::stream::{Attempt, Reads, Stream};
use super::{CLIENT, CONNECTION, Context, Streams, Timer};
use crate::outcome::{self, count};
use crate::spec::{CONNECT, HANDOFF};
use fdpass_client::handoff::pass;

/// Pause before the first retry of a connect; it doubles each time, as in the Apache module.
const RETRY_PAUSE_NS: u64 = 10_000_000;
/// Spare descriptors: with fewer left, handoff connections are closed early, as the reference does.
const SPARE_DESCRIPTORS: u64 = 512;

impl<'a> Streams<'a> {
    /// Returns the first attempt of a start.
    pub(super) fn attempt(&self, start: Start, cx: &Context<'a>) -> Attempt {
        let settings = &self.shared.settings;
        let counted = cx.state.phases.counts(start.at);
        let reads = match (settings.is_slow(start.index), settings.never_read) {
            (false, _) => Reads::Promptly,
            (true, false) => Reads::Slowly,
            (true, true) => Reads::Never,
        };
        Attempt {
            start: start.at,
            counted,
            timed: counted && (reads == Reads::Promptly || settings.slow_share.is_none()),
            reads,
            endpoint: (start.index % self.shared.endpoints.len() as u64) as u8,
            failed: 0,
            errno: Errno::UnknownErrno,
        }
    }

    /// Creates the client first and then connects, so that nothing delays the message after `connect`, which wakes the
    /// daemon.
    pub(super) fn connect(&mut self, attempt: Attempt, cx: &mut Context<'a>) {
        let client = match self.clients.open() {
            Ok(client) => client,
            Err(error) => {
                let errno = error.try_into().unwrap_or(Errno::UnknownErrno);
                return self.failed(&attempt, outcome::connect_error(errno), cx);
            }
        };
        let began = clock::now();
        match self.shared.endpoints[usize::from(attempt.endpoint)].connect() {
            Ok(handoff) => self.hand_over(&attempt, began, handoff, client, cx),
            Err(errno) => self.refused(attempt, began, errno, cx),
        }
    }

    fn refused(&mut self, attempt: Attempt, at: u64, errno: Errno, cx: &mut Context<'a>) {
        if errno != Errno::EAGAIN {
            self.pending.refused(attempt.endpoint);
        }
        if !outcome::may_retry(errno) || attempt.failed >= self.shared.settings.retries {
            return self.failed(&attempt, outcome::connect_error(errno), cx);
        }
        cx.state.record.count(count::RETRIES, 1);
        let retry = Attempt {
            failed: attempt.failed + 1,
            errno,
            ..attempt
        };
        self.retries += 1;
        let at = at + (RETRY_PAUSE_NS << attempt.failed);
        cx.state.timers.set(at, Timer::Retry(retry));
    }

    fn hand_over(
        &mut self,
        attempt: &Attempt,
        began: u64,
        handoff: OwnedFd,
        (ours, theirs): (OwnedFd, OwnedFd),
        cx: &mut Context<'a>,
    ) {
        let sent = clock::now();
        if let Err(errno) = pass(&handoff, &self.shared.payload, theirs.as_raw_fd()) {
            return match outcome::send_error(errno) {
                // The daemon has refused the connection unread, or has just died.
                outcome::REJECTED if attempt.counted => {
                    self.pending.add(attempt.endpoint, outcome::REJECTED)
                }
                kind => self.failed(attempt, kind, cx),
            };
        }
        drop(theirs);
        let handed = clock::now();
        self.pending.learn(attempt.endpoint, &handoff);
        let record = &cx.state.record;
        record.count(count::HANDOFFS, 1);
        if attempt.timed {
            record.value(CONNECT, sent - began);
            record.value(HANDOFF, handed - sent);
        }
        let stream = Stream::new(ours, handoff, attempt, sent, handed);
        let id = cx.connections.insert(stream);
        self.watch(id, cx);
    }

    fn watch(&mut self, id: Id, cx: &mut Context<'a>) {
        let open = cx.connections.len() as u64 + self.untaken;
        let stream = cx.connections.get_mut(id).expect("inserted just now");
        let (client, token) = (&stream.client, id.token(CLIENT));
        let watched = match stream.reads {
            Reads::Promptly => cx.reactor.watch_arrivals(client, token),
            Reads::Slowly => cx.reactor.watch(client, token),
            Reads::Never => cx.reactor.watch_end(client, token),
        };
        let early = open + SPARE_DESCRIPTORS > cx.state.descriptors;
        let handoff = stream.handoff.take_if(|_| early);
        if handoff.is_some() {
            cx.state.record.count(count::UNTAKEN, 1);
        } else {
            self.untaken += 1;
        }
        let taken = stream.handoff.as_ref().map_or(Ok(()), |handoff| {
            cx.reactor.watch_end(handoff, id.token(CONNECTION))
        });
        if watched.and(taken).is_err() {
            self.end(id, outcome::EPOLL, cx);
        }
    }

    /// Counts a start that created no stream.
    fn failed(&self, attempt: &Attempt, kind: &'static str, cx: &Context<'a>) {
        if attempt.counted {
            cx.state.record.error(kind)
        } else {
            cx.state.record.error_of_warmup(kind)
        }
        self.shared.say(attempt.start, kind, 0);
    }
}
