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

    /// Whether the daemon has ended since it was learned; a later one is learned anew.
    pub(crate) fn is_gone(&mut self) -> bool {
        let gone = self.pid.is_some_and(|pid| !lives(pid));
        if gone {
            *self = Self::default();
        }
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
