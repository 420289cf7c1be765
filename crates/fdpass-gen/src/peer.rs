//! Whether the daemon still lives: what tells a refusal from a loss when a stream ends without a byte.

use std::os::fd::OwnedFd;

use crate::handoff;

/// The daemon's process, learned from its socket.
#[derive(Debug, Default)]
pub(crate) struct Peer {
    learned: bool,
    /// `None` where it can't be seen from here.
    pid: Option<i32>,
}

impl Peer {
    /// Learns who listens, once for each daemon process.
    pub(crate) fn learn(&mut self, handoff: &OwnedFd) {
        if !self.learned {
            self.learned = true;
            self.pid = handoff::peer(handoff);
        }
    }

    /// The socket refused: whoever listens next is learned anew. Until then it is the one that was.
    pub(crate) fn doubt(&mut self) {
        self.learned = false;
    }

    /// Who listened last.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.pid
    }
}

/// Whether processes have ended, each asked for once.
#[derive(Debug, Default)]
pub(crate) struct Obituary(Vec<(i32, bool)>);

impl Obituary {
    pub(crate) fn has(&mut self, pid: i32) -> bool {
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
        assert!(!Obituary::default().has(std::process::id() as i32));
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
