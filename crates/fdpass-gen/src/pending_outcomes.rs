//! Streams that ended without a reason: a moment later it shows if the daemon refused, broke off or died.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use load::clock;
use load::recorder::Recorder;

use crate::{handoff, outcome};

/// Time until a daemon's exit shows after its sockets have closed.
const DELAY_NS: u64 = 100_000_000;

/// A stream that ended as if its daemon had refused it, broken off or died.
#[derive(Debug, Clone, Copy)]
struct PendingOutcome {
    ended: u64,
    /// The daemon's process.
    pid: Option<i32>,
    /// The outcome if that process is still alive.
    otherwise: &'static str,
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
            peers: (0..daemons).map(|_| Peer::default()).collect(),
        }
    }

    /// Determines the process behind a socket, once for each daemon process.
    pub(crate) fn learn(&mut self, endpoint: u8, handoff: &OwnedFd) {
        self.peers[usize::from(endpoint)].learn(handoff);
    }

    /// Records that a socket refused: its next process is determined again.
    pub(crate) fn refused(&mut self, endpoint: u8) {
        self.peers[usize::from(endpoint)].invalidate();
    }

    /// Adds a stream that has just ended. Its outcome is `otherwise`, unless its daemon has ended too.
    pub(crate) fn add(&mut self, endpoint: u8, otherwise: &'static str) {
        self.queue.push_back(PendingOutcome {
            ended: clock::now(),
            pid: self.peers[usize::from(endpoint)].pid(),
            otherwise,
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Counts the streams whose daemon would have shown its end by `now`; returns when the next is to be settled.
    pub(crate) fn settle(&mut self, now: u64, record: &Recorder) -> u64 {
        let mut liveness = Liveness::default();
        while let Some(outcome) = self.queue.front().copied() {
            let due = outcome.ended + DELAY_NS;
            if due > now {
                return due;
            }
            self.queue.pop_front();
            match outcome.pid {
                Some(pid) if liveness.is_gone(pid) => {
                    // The next handoff goes to another process.
                    let own = self
                        .peers
                        .iter_mut()
                        .filter(|peer| peer.pid() == outcome.pid);
                    own.for_each(Peer::invalidate);
                    record.error(outcome::LOST);
                }
                _ => record.error(outcome.otherwise),
            }
        }
        u64::MAX
    }
}

/// The daemon's process, determined from its socket.
#[derive(Debug, Default)]
struct Peer {
    learned: bool,
    /// `None` if it is not visible from here.
    pid: Option<i32>,
}

impl Peer {
    /// Determines the listening process, once for each daemon process.
    fn learn(&mut self, handoff: &OwnedFd) {
        if !self.learned {
            self.learned = true;
            self.pid = handoff::peer(handoff);
        }
    }

    /// Records that the socket refused: the next listening process is determined again. Until then, the last one is
    /// assumed.
    fn invalidate(&mut self) {
        self.learned = false;
    }

    /// Returns the last known process.
    fn pid(&self) -> Option<i32> {
        self.pid
    }
}

/// The processes checked so far, each checked once, and whether they have ended.
#[derive(Debug, Default)]
struct Liveness(Vec<(i32, bool)>);

impl Liveness {
    fn is_gone(&mut self, pid: i32) -> bool {
        if let Some((_, gone)) = self.0.iter().find(|(known, _)| *known == pid) {
            return *gone;
        }
        let gone = !lives(pid);
        self.0.push((pid, gone));
        gone
    }
}

/// Returns true if a process exists and is no zombie: the state is the field after the name in brackets
/// (proc_pid_stat(5)).
fn lives(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listened_last_is_known_until_another_does() {
        let (handoff, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let handoff = OwnedFd::from(handoff);
        let mut peer = Peer::default();
        assert_eq!(peer.pid(), None);
        peer.learn(&handoff);
        let own = Some(std::process::id() as i32);
        assert_eq!(peer.pid(), own);
        peer.invalidate();
        assert_eq!(peer.pid(), own, "a stream that ends now was its own");
        assert!(!Liveness::default().is_gone(std::process::id() as i32));
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
