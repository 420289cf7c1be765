//! Access control for senders, in addition to the permissions of the socket file.

use std::os::fd::AsFd;

use nix::sys::socket::{getsockopt, sockopt};

/// The users and groups that may hand over clients. If both lists are empty, everyone may whom the socket's permissions
/// let in, and nothing is checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Peers {
    /// User ids; root is not included automatically.
    pub users: Vec<u32>,
    /// Group ids. Only the effective group of a sender counts, not the supplementary ones.
    pub groups: Vec<u32>,
}

impl Peers {
    /// Returns true if the process at the other end may send: its user or its group is listed.
    ///
    /// The kernel recorded both when it connected (SO_PEERCRED, unix(7)). If the kernel does not report them, the
    /// result is false.
    pub(crate) fn allow(&self, connection: impl AsFd) -> bool {
        if self.users.is_empty() && self.groups.is_empty() {
            return true;
        }
        getsockopt(&connection, sockopt::PeerCredentials).is_ok_and(|sender| {
            self.users.contains(&sender.uid()) || self.groups.contains(&sender.gid())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use nix::unistd::{getegid, geteuid};

    use super::*;

    #[test]
    fn a_sender_is_let_in_by_its_user_or_its_group_or_when_nothing_is_listed() {
        let (connection, _other) = UnixStream::pair().unwrap();
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        let allow = |users: &[u32], groups: &[u32]| {
            let peers = Peers {
                users: users.to_vec(),
                groups: groups.to_vec(),
            };
            peers.allow(&connection)
        };
        assert!(allow(&[], &[]));
        assert!(allow(&[user + 1, user], &[]));
        assert!(allow(&[], &[group]));
        assert!(allow(&[user + 1], &[group]));
        assert!(!allow(&[user + 1], &[]));
        assert!(!allow(&[user + 1], &[group + 1]));
    }

    #[test]
    fn what_has_no_sender_is_refused() {
        let peers = Peers {
            users: vec![geteuid().as_raw()],
            groups: Vec::new(),
        };
        assert!(!peers.allow(std::fs::File::open("/dev/null").unwrap()));
    }
}
