//! Streams that ended without saying why: whether the daemon refused, broke off or died shows a moment later.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use harness::clock;
use harness::recorder::Recorder;

use crate::{handoff, outcome};

/// How long a daemon's end may take to show after its sockets have closed.
const DELAY_NS: u64 = 100_000_000;

/// A stream that ended as a daemon ends it that refuses, breaks off or dies.
#[derive(Debug, Clone, Copy)]
struct Doubt {
    ended: u64,
    /// The daemon's process.
    pid: Option<i32>,
    /// What it was if that process lives on.
    otherwise: &'static str,
}

/// The streams in doubt, and the process of each daemon.
#[derive(Debug)]
pub(crate) struct Doubts {
    /// In the order of their ends.
    queue: VecDeque<Doubt>,
    peers: Vec<Peer>,
}

impl Doubts {
    /// None yet, of so many daemons.
    pub(crate) fn new(daemons: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            peers: (0..daemons).map(|_| Peer::default()).collect(),
        }
    }

    /// Learns who listens behind a door, once for each daemon process.
    pub(crate) fn learn(&mut self, door: u8, handoff: &OwnedFd) {
        self.peers[usize::from(door)].learn(handoff);
    }

    /// A door refused: who listens next is learned anew.
    pub(crate) fn refused(&mut self, door: u8) {
        self.peers[usize::from(door)].doubt();
    }

    /// A stream has just ended, as `otherwise` unless its daemon has ended too.
    pub(crate) fn add(&mut self, door: u8, otherwise: &'static str) {
        self.queue.push_back(Doubt {
            ended: clock::now(),
            pid: self.peers[usize::from(door)].pid(),
            otherwise,
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Counts those streams whose daemon would have shown its end by `now`; returns when the next is to be settled.
    pub(crate) fn settle(&mut self, now: u64, record: &Recorder) -> u64 {
        let mut asked = Asked::default();
        while let Some(doubt) = self.queue.front().copied() {
            let due = doubt.ended + DELAY_NS;
            if due > now {
                return due;
            }
            self.queue.pop_front();
            match doubt.pid {
                Some(pid) if asked.is_gone(pid) => {
                    // It is not the one that takes the next handoff.
                    let own = self.peers.iter_mut().filter(|peer| peer.pid() == doubt.pid);
                    own.for_each(Peer::doubt);
                    record.error(outcome::LOST);
                }
                _ => record.error(doubt.otherwise),
            }
        }
        u64::MAX
    }
}

/// The daemon's process, learned from its socket.
#[derive(Debug, Default)]
struct Peer {
    learned: bool,
    /// `None` where it can't be seen from here.
    pid: Option<i32>,
}

impl Peer {
    /// Learns who listens, once for each daemon process.
    fn learn(&mut self, handoff: &OwnedFd) {
        if !self.learned {
            self.learned = true;
            self.pid = handoff::peer(handoff);
        }
    }

    /// The socket refused: whoever listens next is learned anew. Until then it is the one that was.
    fn doubt(&mut self) {
        self.learned = false;
    }

    /// Who listened last.
    fn pid(&self) -> Option<i32> {
        self.pid
    }
}

/// Whether processes have ended, each asked for once.
#[derive(Debug, Default)]
struct Asked(Vec<(i32, bool)>);

impl Asked {
    fn is_gone(&mut self, pid: i32) -> bool {
        if let Some((_, gone)) = self.0.iter().find(|(known, _)| *known == pid) {
            return *gone;
        }
        let gone = !lives(pid);
        self.0.push((pid, gone));
        gone
    }
}

/// Whether a process is there and no zombie: the state is the field after the name in brackets (proc_pid_stat(5)).
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
        peer.doubt();
        assert_eq!(peer.pid(), own, "a stream that ends now was its own");
        assert!(!Asked::default().is_gone(std::process::id() as i32));
    }

    #[test]
    fn a_process_lives_until_it_has_ended_even_before_it_is_reaped() {
        assert!(lives(std::process::id() as i32));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id() as i32;
        let deadline = harness::clock::now() + 10_000_000_000;
        while lives(pid) && harness::clock::now() < deadline {
            std::thread::yield_now();
        }
        assert!(!lives(pid));
        child.wait().unwrap();
    }
}
