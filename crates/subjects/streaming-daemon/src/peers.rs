//! Access control for senders, in addition to the permissions of the socket file.

use std::os::fd::AsFd;

use clap::Args;
use nix::sys::socket::{getsockopt, sockopt};

/// The users and groups that may hand over clients. If both lists are empty, everyone may whom the socket's permissions
/// let in, and nothing is checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct Peers {
    /// Accept handoffs only from processes of these users, as ids separated by commas [default: everyone whom the
    /// permissions of the socket let in]
    // Root is not included automatically.
    #[arg(long = "allow-uid", value_name = "UID", value_delimiter = ',', value_parser = parse_id)]
    pub users: Vec<u32>,

    /// Also accept handoffs from processes of these groups; only the effective group counts
    #[arg(long = "allow-gid", value_name = "GID", value_delimiter = ',', value_parser = parse_id)]
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

fn parse_id(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| {
        "write ids as numbers with commas between them, for instance 33,1000".to_owned()
    })
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
    fn a_descriptor_without_a_sender_is_refused() {
        let peers = Peers {
            users: vec![geteuid().as_raw()],
            groups: Vec::new(),
        };
        assert!(!peers.allow(std::fs::File::open("/dev/null").unwrap()));
    }
}
