//! The open streams of a connection, found by their number.

use std::collections::VecDeque;

use slab::Slab;

/// A stream, with what its owner keeps for it.
#[derive(Debug)]
pub(super) struct Stream<T> {
    pub(super) item: T,
    /// True if its response has no body.
    pub(super) is_head: bool,
    /// The bytes that the server lets it send; negative after the server has made its windows smaller.
    pub(super) window: i64,
    /// The status of its response, once its head has come.
    pub(super) status: Option<u16>,
    /// The length of the body that its head names.
    pub(super) length: Option<u64>,
    /// Number of bytes received of the body.
    pub(super) received: u64,
    /// Number of bytes, with padding, that the server has not been told of.
    pub(super) unreported: u32,
}

/// Streams in the order in which they were opened, which is the order of their numbers too. With ten streams a search
/// takes a few comparisons, and the removal of one moves a few 8-byte entries.
#[derive(Debug)]
pub(super) struct Streams<T> {
    order: VecDeque<(u32, u32)>,
    streams: Slab<Stream<T>>,
}

impl<T> Streams<T> {
    pub(super) fn new() -> Self {
        Self {
            order: VecDeque::new(),
            streams: Slab::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Adds a stream, whose number is above all others.
    pub(super) fn push(&mut self, id: u32, stream: Stream<T>) {
        let key = self.streams.insert(stream);
        self.order.push_back((id, key as u32));
    }

    #[inline]
    fn position(&self, id: u32) -> Option<usize> {
        match self.order.front() {
            Some((first, _)) if *first == id => Some(0),
            _ => self.order.binary_search_by_key(&id, |(id, _)| *id).ok(),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Stream<T>> {
        let position = self.position(id)?;
        self.streams.get_mut(self.order[position].1 as usize)
    }

    #[inline]
    pub(super) fn remove(&mut self, id: u32) -> Option<Stream<T>> {
        let position = self.position(id)?;
        let (_, key) = self.order.remove(position)?;
        self.streams.try_remove(key as usize)
    }

    /// Returns the stream that was opened first.
    pub(super) fn first(&self) -> Option<(u32, &T)> {
        let (id, key) = self.order.front()?;
        Some((*id, &self.streams.get(*key as usize)?.item))
    }

    /// Removes and returns the stream that was opened last, if its number is above `last`.
    pub(super) fn pop_above(&mut self, last: u32) -> Option<Stream<T>> {
        let (id, key) = *self.order.back()?;
        if id <= last {
            return None;
        }
        self.order.pop_back();
        self.streams.try_remove(key as usize)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let streams = self.order.iter();
        streams.filter_map(|(id, key)| Some((*id, &self.streams.get(*key as usize)?.item)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream<T>> {
        self.streams.iter_mut().map(|(_, stream)| stream)
    }
}
