//! Requests that are not acknowledged yet, of all connections of a worker.
//!
//! A connection rarely has more than one, so that room for several in each would be wasted: they are in one table, as a
//! linked list for each connection, in the order in which they were sent.

use crate::roles::Change;

/// The kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    Join,
    /// A heartbeat of the load.
    Heartbeat,
    /// A heartbeat without a change.
    KeepAlive,
    Leave,
    /// A first step of a conversation, by its index.
    Start(u16),
    /// A step of the load in a conversation, by its index.
    Step(u16),
}

impl RequestKind {
    /// Returns true for an operation of the load.
    pub(super) fn is_operation(self) -> bool {
        matches!(self, Self::Heartbeat | Self::Step(_))
    }
}

/// A request that is not acknowledged yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) kind: RequestKind,
    /// The id of its acknowledgement.
    pub(super) id: u32,
    pub(super) change: Change,
}

/// The requests of a connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queue {
    first: u32,
    last: u32,
}

const NONE: u32 = u32::MAX;

impl Default for Queue {
    fn default() -> Self {
        Self {
            first: NONE,
            last: NONE,
        }
    }
}

impl Queue {
    pub(super) fn is_empty(self) -> bool {
        self.first == NONE
    }
}

/// The requests of all connections.
#[derive(Debug)]
pub(super) struct Requests {
    entries: Vec<Entry>,
    /// The first unused entry.
    free: u32,
}

#[derive(Debug)]
struct Entry {
    request: Request,
    next: u32,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: NONE,
        }
    }
}

impl Requests {
    /// Adds a request behind the others of its connection.
    pub(super) fn push(&mut self, queue: &mut Queue, request: Request) {
        let entry = Entry {
            request,
            next: NONE,
        };
        let index = match self.entries.get_mut(self.free as usize) {
            Some(unused) => {
                let index = self.free;
                self.free = unused.next;
                *unused = entry;
                index
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        match queue.last {
            NONE => queue.first = index,
            last => self.entries[last as usize].next = index,
        }
        queue.last = index;
    }

    /// Returns the oldest request of a connection.
    pub(super) fn first(&self, queue: Queue) -> Option<&Request> {
        let entry = self.entries.get(queue.first as usize);
        entry.map(|entry| &entry.request)
    }

    /// Takes the request with this id: usually the oldest.
    pub(super) fn take(&mut self, queue: &mut Queue, id: u32) -> Option<Request> {
        self.take_where(queue, |request| request.id == id)
    }

    /// Takes the oldest request that is the one.
    #[inline]
    pub(super) fn take_where(
        &mut self,
        queue: &mut Queue,
        is_it: impl Fn(&Request) -> bool,
    ) -> Option<Request> {
        let (mut before, mut index) = (NONE, queue.first);
        while let Some(entry) = self.entries.get(index as usize) {
            if is_it(&entry.request) {
                return Some(self.remove(queue, before, index));
            }
            (before, index) = (index, entry.next);
        }
        None
    }

    /// Takes the oldest request of a connection.
    pub(super) fn take_first(&mut self, queue: &mut Queue) -> Option<Request> {
        (!queue.is_empty()).then(|| self.remove(queue, NONE, queue.first))
    }

    fn remove(&mut self, queue: &mut Queue, before: u32, index: u32) -> Request {
        let entry = &mut self.entries[index as usize];
        let (request, next) = (entry.request, entry.next);
        entry.next = self.free;
        self.free = index;
        match before {
            NONE => queue.first = next,
            before => self.entries[before as usize].next = next,
        }
        if queue.last == index {
            queue.last = before;
        }
        request
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(id: u32) -> Request {
        Request {
            kind: RequestKind::Heartbeat,
            id,
            change: Change {
                n: id,
                at: 0,
                sent: 0,
            },
        }
    }

    proptest! {
        /// Each step adds a request to one of three users, or takes one by its position.
        #[test]
        fn requests_are_those_of_plain_lists(steps in prop::collection::vec((0..3_usize, 0..4_usize), 0..200)) {
            let mut requests = Requests::default();
            let mut users = [(); 3].map(|()| (Queue::default(), Vec::new()));
            for (id, (user, step)) in (0_u32..).zip(steps) {
                let (queue, list) = &mut users[user];
                match step {
                    0 | 1 => {
                        requests.push(queue, request(id));
                        list.push(id);
                    }
                    2 => {
                        let oldest = (!list.is_empty()).then(|| list.remove(0));
                        prop_assert_eq!(requests.take_first(queue).map(|taken| taken.id), oldest);
                    }
                    _ => {
                        let youngest = list.pop();
                        let taken = requests.take(queue, youngest.unwrap_or(id));
                        prop_assert_eq!(taken.map(|taken| taken.id), youngest);
                    }
                }
                prop_assert_eq!(requests.first(*queue).map(|first| first.id), list.first().copied());
                prop_assert_eq!(queue.is_empty(), list.is_empty());
            }
        }
    }
}
