//! The locks of files, and the shared memory of databases.

use std::collections::BTreeMap;

/// Bytes of a region of shared memory.
pub(crate) const REGION: usize = 32 * 1024;
/// Locks of shared memory.
pub(crate) const SHARED_LOCKS: usize = 8;

/// A region of shared memory. Boxed, so that it stays where it is.
pub(crate) type Region = Box<[u64; REGION / 8]>;

/// The locks of a file, as SQLite defines them.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    /// The handles with their levels.
    pub(crate) held: BTreeMap<u64, i32>,
}

/// The shared memory of a database.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pub(crate) regions: Vec<Region>,
    /// For each lock, the handles that share it, or the one that has it alone.
    pub(crate) locks: [SharedLock; SHARED_LOCKS],
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) enum SharedLock {
    #[default]
    Free,
    Shared(Vec<u64>),
    Exclusive(u64),
}

/// The levels of SQLite's file locks.
pub(crate) const NONE: i32 = 0;
pub(crate) const SHARED: i32 = 1;
pub(crate) const RESERVED: i32 = 2;
pub(crate) const PENDING: i32 = 3;

/// A request for a lock of shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SharedRequest {
    Share,
    Exclude,
    Unlock,
}

impl Shared {
    pub(crate) fn new_region() -> Region {
        Box::new([0; REGION / 8])
    }
}

impl SharedLock {
    pub(crate) fn allows(&self, handle: u64, request: SharedRequest) -> bool {
        match (self, request) {
            (Self::Free, _) | (_, SharedRequest::Unlock) => true,
            (Self::Shared(_), SharedRequest::Share) => true,
            (Self::Shared(handles), SharedRequest::Exclude) => handles == &[handle],
            (Self::Exclusive(owner), _) => *owner == handle,
        }
    }

    pub(crate) fn change(&mut self, handle: u64, request: SharedRequest) {
        match (&mut *self, request) {
            (Self::Shared(handles), SharedRequest::Unlock) => {
                handles.retain(|other| *other != handle);
                if handles.is_empty() {
                    *self = Self::Free;
                }
            }
            (Self::Exclusive(owner), SharedRequest::Unlock) if *owner == handle => {
                *self = Self::Free
            }
            (_, SharedRequest::Unlock) => {}
            (Self::Shared(handles), SharedRequest::Share) => {
                if !handles.contains(&handle) {
                    handles.push(handle);
                }
            }
            (_, SharedRequest::Share) => *self = Self::Shared(vec![handle]),
            (_, SharedRequest::Exclude) => *self = Self::Exclusive(handle),
        }
    }
}
