//! Streams that ended without a reason: a moment later it shows if the daemon refused, broke off or died.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;

use load::clock;
use load::recorder::Recorder;

use crate::outcome;
use fdpass_client::handoff;

/// Time until a daemon's exit shows after its sockets have closed.
const DELAY_NS: u64 = 100_000_000;

/// A stream that ended as if its daemon had refused it, broken off or died.
#[derive(Debug)]
struct PendingOutcome {
    ended: u64,
    /// The daemon's process.
    pid: Option<i32>,
    /// The outcome if that process is still alive.
    otherwise: &'static str,
}

/// The daemon's process, determined from its socket.
#[derive(Debug, Clone, Default)]
struct Peer {
    /// False before the first handoff, and after the socket refused one: the process is then determined again. Until
    /// then, the last one is assumed.
    is_known: bool,
    /// The last known process; `None` if it is not visible from here.
    pid: Option<i32>,
}

/// The streams with pending outcomes, and the process of each daemon.
#[derive(Debug)]
pub(crate) struct PendingOutcomes {
    /// Ordered by the time of their ends.
    queue: VecDeque<PendingOutcome>,
    peers: Vec<Peer>,
}

impl PendingOutcomes {
    /// Creates an empty list for `daemons` daemons.
    pub(crate) fn new(daemons: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            peers: vec![Peer::default(); daemons],
        }
    }

    /// Determines the process behind a socket, once for each daemon process.
    pub(crate) fn learn(&mut self, endpoint: u8, handoff: &OwnedFd) {
        let peer = &mut self.peers[usize::from(endpoint)];
        if !peer.is_known {
            peer.is_known = true;
            peer.pid = handoff::peer(handoff);
        }
    }

    /// Records that a socket refused: its next process is determined again.
    pub(crate) fn refused(&mut self, endpoint: u8) {
        self.peers[usize::from(endpoint)].is_known = false;
    }

    /// Adds a stream that has just ended. Its outcome is `otherwise`, unless its daemon has ended too.
    pub(crate) fn add(&mut self, endpoint: u8, otherwise: &'static str) {
        self.queue.push_back(PendingOutcome {
            ended: clock::now(),
            pid: self.peers[usize::from(endpoint)].pid,
            otherwise,
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Counts the streams whose daemon would have shown its end by `now`; returns when the next is to be settled.
    pub(crate) fn settle(&mut self, now: u64, record: &Recorder) -> u64 {
        // Each process is checked once.
        let mut alive = BTreeMap::new();
        while let Some(outcome) = self
            .queue
            .pop_front_if(|outcome| outcome.ended + DELAY_NS <= now)
        {
            match outcome.pid {
                Some(pid) if !*alive.entry(pid).or_insert_with(|| lives(pid)) => {
                    // The next handoff goes to another process.
                    let own = self.peers.iter_mut().filter(|peer| peer.pid == Some(pid));
                    own.for_each(|peer| peer.is_known = false);
                    record.error(outcome::LOST);
                }
                _ => record.error(outcome.otherwise),
            }
        }
        let next = self.queue.front();
        next.map_or(u64::MAX, |outcome| outcome.ended + DELAY_NS)
    }
}

/// Returns true if a process exists and is no zombie: the state is the field after the name in brackets
/// (proc_pid_stat(5)).
fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_listener_is_known_until_there_is_another() {
        let (handoff, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let handoff = OwnedFd::from(handoff);
        let own = Some(std::process::id() as i32);
        let mut pending = PendingOutcomes::new(1);
        assert_eq!(pending.peers[0].pid, None);
        pending.learn(0, &handoff);
        assert_eq!(pending.peers[0].pid, own);
        pending.refused(0);
        pending.add(0, outcome::REJECTED);
        assert_eq!(
            pending.queue[0].pid, own,
            "a stream that ends now was its own"
        );
    }

    #[test]
    fn a_process_lives_until_it_has_ended_even_before_it_is_reaped() {
        assert!(lives(std::process::id() as i32));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id() as i32;
        let deadline = load::clock::now() + 10_000_000_000;
        while lives(pid) && load::clock::now() < deadline {
            std::thread::yield_now();
        }
        assert!(!lives(pid));
        child.wait().unwrap();
    }
}
