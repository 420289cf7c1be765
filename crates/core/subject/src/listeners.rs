//! Finds the processes that listen at an address of this machine, as `ss -xtlp` does: address, listening socket, inode,
//! process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;

use load::driver::{Address, Target};
use nix::unistd::{Uid, User};

use crate::usage::stat;

mod holders;
mod local_address;
mod queues;
mod sock_diag;
mod tcp;
mod unix;

pub use holders::{command_line, process_name, require_process};
pub use queues::AcceptQueues;

use local_address::LocalAddress;

/// Programs that pass connections on to a container. They hold the published port, and are not the server.
const FORWARDERS: [&str; 4] = ["docker-proxy", "rootlessport", "pasta", "slirp4netns"];
/// A program that may hold sockets for services that it starts (systemd.socket(5)).
const SOCKET_ACTIVATION: &str = "systemd";

/// The processes that listen at one address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listeners {
    /// The processes that hold a listening socket open, such as the master and the workers of a pre-forking server.
    pub holders: BTreeSet<u32>,
    /// The holders that descend from no other: their process trees are the server.
    pub roots: BTreeSet<u32>,
}

/// An error: the processes behind an address can't be found. Each names the reason and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// The address belongs to another machine, or can't be read.
    #[error("{0} is not an address of this machine")]
    OtherMachine(String),
    /// No socket listens there.
    #[error("no process of this machine's network namespace listens at {0}")]
    NoListener(String),
    /// The socket belongs to another user.
    #[error("the socket belongs to the user {0}, whose processes this user may not look into")]
    OtherUser(String),
    /// No visible process holds the socket.
    #[error("no visible process holds the socket of {0} open")]
    Hidden(String),
    /// A program that passes connections on holds the socket.
    #[error("process {pid} ({name}) listens there, which passes connections on to a container")]
    Forwarder {
        /// The name of the program.
        name: String,
        /// Its process id.
        pid: u32,
    },
}

impl NotFound {
    /// Returns what to do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::OtherMachine(_) => {
                "run the driver on the daemon's machine to see what the daemon uses"
            }
            Self::OtherUser(_) => {
                "run the driver as that user or as root, or name the daemon's process with --pid"
            }
            Self::NoListener(_) | Self::Hidden(_) | Self::Forwarder { .. } => {
                "name the daemon's process with --pid; for a container, --pid $(docker inspect -f '{{.State.Pid}}' NAME)"
            }
        }
    }
}

/// Finds the processes behind each address of a target, in its order. Resolves host names, and looks through the open
/// files of all processes once.
#[must_use]
pub fn find(target: &Target) -> Vec<Result<Listeners, NotFound>> {
    let local: Vec<Option<LocalAddress>> = target
        .addresses
        .iter()
        .map(LocalAddress::from_address)
        .collect();
    let sockets: Vec<Sockets> = local
        .iter()
        .map(|address| address.as_ref().map(Sockets::find).unwrap_or_default())
        .collect();
    let inodes = sockets
        .iter()
        .flat_map(|found| found.inodes.iter().copied());
    let parents = parents();
    let holders = holders::find(&inodes.collect(), parents.keys().copied());
    let found = target.addresses.iter().zip(&local).zip(&sockets);
    found
        .map(|((address, local), sockets)| {
            let local = local.as_ref();
            let local = local.ok_or_else(|| NotFound::OtherMachine(address.to_string()))?;
            listeners(address, local, sockets, &holders, &parents)
        })
        .collect()
}

/// Returns true if exactly these processes hold the sockets of a target. Looks through their open files alone.
#[must_use]
pub fn are_held_by(target: &Target, processes: &BTreeSet<u32>) -> bool {
    let local = target.addresses.iter().map(LocalAddress::from_address);
    let sockets = local.flatten().map(|address| Sockets::find(&address));
    let inodes = sockets.flat_map(|found| found.inodes).collect();
    let holders = holders::find(&inodes, processes.iter().copied());
    holders.len() == inodes.len()
        && holders.into_values().flatten().collect::<BTreeSet<u32>>() == *processes
}

/// Returns the living processes of `holders` that are not one of `roots` and descend from none.
#[must_use]
pub fn outside(holders: &BTreeSet<u32>, roots: &BTreeSet<u32>) -> BTreeSet<u32> {
    let parents = parents();
    let is_outside = |pid: &u32| parents.contains_key(pid) && !has_ancestor(*pid, roots, &parents);
    holders.iter().copied().filter(is_outside).collect()
}

/// The listening sockets of one address.
#[derive(Debug, Default)]
struct Sockets {
    inodes: BTreeSet<u64>,
    owner: Option<u32>,
}

impl Sockets {
    fn find(local: &LocalAddress) -> Self {
        match local {
            LocalAddress::Tcp(addresses) => {
                let listening = tcp::at_first(addresses);
                Self {
                    inodes: listening.iter().map(|socket| socket.inode).collect(),
                    owner: listening.first().map(|socket| socket.owner),
                }
            }
            LocalAddress::Unix(path) => Self {
                inodes: BTreeSet::from_iter(unix::inode(path)),
                owner: fs::metadata(path).ok().map(|file| file.uid()),
            },
        }
    }
}

fn listeners(
    address: &Address,
    local: &LocalAddress,
    sockets: &Sockets,
    holders: &BTreeMap<u64, BTreeSet<u32>>,
    parents: &BTreeMap<u32, u32>,
) -> Result<Listeners, NotFound> {
    let of_socket = |inode| holders.get(inode).into_iter().flatten().copied();
    let mut holders: BTreeSet<u32> = sockets.inodes.iter().flat_map(of_socket).collect();
    if let (true, LocalAddress::Unix(path)) = (holders.is_empty(), local) {
        // The kernel names the process that listens, even if its files may not be looked at.
        holders.extend(unix::peer(path));
    }
    if holders.is_empty() {
        return Err(not_found(address, sockets));
    }
    let services: BTreeSet<u32> = holders
        .iter()
        .copied()
        .filter(|pid| process_name(*pid) != SOCKET_ACTIVATION)
        .collect();
    if !services.is_empty() {
        holders = services;
    }
    if let [Some(pid), None] = [holders.first(), holders.iter().nth(1)]
        && let name = process_name(*pid)
        && FORWARDERS.contains(&name.as_str())
    {
        return Err(NotFound::Forwarder { name, pid: *pid });
    }
    let is_root = |pid: &u32| {
        let parent = parents.get(pid);
        parent.is_none_or(|parent| !has_ancestor(*parent, &holders, parents))
    };
    let roots = holders.iter().copied().filter(is_root).collect();
    Ok(Listeners { holders, roots })
}

fn not_found(address: &Address, sockets: &Sockets) -> NotFound {
    let shown = address.to_string();
    match sockets.owner.map(Uid::from_raw) {
        _ if sockets.inodes.is_empty() => NotFound::NoListener(shown),
        Some(owner) if owner != Uid::effective() => NotFound::OtherUser(user(owner)),
        _ => NotFound::Hidden(shown),
    }
}

fn user(owner: Uid) -> String {
    let name = User::from_uid(owner).ok().flatten().map(|user| user.name);
    name.unwrap_or_else(|| owner.to_string())
}

/// Returns the parent of each process.
fn parents() -> BTreeMap<u32, u32> {
    let parent = |stat: stat::Stat| (stat.pid.cast_unsigned(), stat.parent.cast_unsigned());
    stat::all().map(parent).collect()
}

/// Returns true if a process or one of its ancestors is in a set.
fn has_ancestor(pid: u32, among: &BTreeSet<u32>, parents: &BTreeMap<u32, u32>) -> bool {
    let mut ancestors = std::iter::successors(Some(pid), |pid| parents.get(pid).copied());
    ancestors.any(|pid| among.contains(&pid))
}
