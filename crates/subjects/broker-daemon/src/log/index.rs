//! The index: the live messages with their positions, and the segments that they keep.
//!
//! Segments are removed oldest first: a record that settles a message comes after the message, so it is no longer
//! needed once all segments up to the message's are removed. A segment is removed when no message in it is live.
//! If live messages keep too much dead data, the messages of the oldest segment are moved to the end of the log.

use std::collections::{HashMap, VecDeque};
use std::mem;

use super::format::{self, u32s};

/// The queues that hold a message. `One` matches its record; `Many` may be fewer queues than its record lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Holders {
    None,
    One(u32),
    /// Boxed: few messages are in many queues, and each entry pays for the largest variant.
    #[expect(clippy::box_collection, reason = "a vector is 24 bytes, and a box 8")]
    Many(Box<Vec<u32>>),
}

impl Holders {
    pub(super) fn new(queues: &[u32]) -> Self {
        match queues {
            [] => Self::None,
            [one] => Self::One(*one),
            _ => Self::Many(Box::new(queues.to_vec())),
        }
    }

    /// Parses the queues that a record lists.
    pub(super) fn read(queues: &[u8]) -> Self {
        match queues.as_chunks() {
            ([one], _) => Self::One(u32::from_le_bytes(*one)),
            _ => Self::left(queues),
        }
    }

    /// Parses the queues that remain of those that a record lists.
    pub(super) fn left(queues: &[u8]) -> Self {
        let queues: Vec<u32> = u32s(queues).collect();
        if queues.is_empty() {
            return Self::None;
        }
        Self::Many(Box::new(queues))
    }

    /// Removes a queue; returns `false` if it is not among them.
    fn remove(&mut self, queue: u32) -> bool {
        match self {
            Self::One(one) if *one == queue => *self = Self::None,
            Self::Many(many) => {
                let Some(at) = many.iter().position(|held| *held == queue) else {
                    return false;
                };
                many.remove(at);
                if many.is_empty() {
                    *self = Self::None;
                }
            }
            Self::None | Self::One(_) => return false,
        }
        true
    }

    pub(super) fn as_slice(&self) -> &[u32] {
        match self {
            Self::None => &[],
            Self::One(queue) => std::slice::from_ref(queue),
            Self::Many(many) => many,
        }
    }

    fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// A message's record: its position in its segment, and the queues that hold it. It takes 24 bytes for each message of
/// each segment.
#[derive(Debug, Clone)]
pub(super) struct IndexEntry {
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) holders: Holders,
}

/// A range of bytes of a segment that holds whole records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) segment: u64,
    pub(super) offset: u32,
    pub(super) len: u32,
}

/// A segment and its messages.
#[derive(Debug)]
struct Segment {
    number: u64,
    /// The id of its first entry.
    first_id: u64,
    /// The length of its file.
    bytes: u64,
    /// The messages published in it, by id: the first has `first_id`, and there are no gaps.
    entries: Vec<IndexEntry>,
    /// Ids of messages moved into it.
    moved: Vec<u64>,
    /// Messages in it that some queue holds.
    alive: usize,
    /// Position of compaction, which goes through the entries and then through the moved messages.
    cursor: usize,
}

/// The new position of a message that was moved out of its original segment.
#[derive(Debug)]
struct Moved {
    segment: u64,
    entry: IndexEntry,
}

#[derive(Debug, Default)]
pub(super) struct Index {
    segments: VecDeque<Segment>,
    moved: HashMap<u64, Moved>,
    /// The id of the next message.
    pub(super) next_id: u64,
    pub(super) live_bytes: u64,
    pub(super) disk_bytes: u64,
    /// The weight of all segments but the last in the decision to compact.
    sealed_weight: u64,
    /// The minimum weight of a segment, so that a thousand restarts do not leave a thousand files.
    least_weight: u64,
}

impl Index {
    pub(super) fn new(least_weight: u64) -> Self {
        Self {
            next_id: 1,
            least_weight,
            ..Self::default()
        }
    }

    pub(super) fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Returns number and length of the newest segment.
    pub(super) fn last(&self) -> Option<(u64, u64)> {
        self.segments.back().map(|last| (last.number, last.bytes))
    }

    /// Adds a segment after all others; one that was read comes with its messages.
    pub(super) fn push_segment(
        &mut self,
        number: u64,
        first_id: u64,
        bytes: u64,
        entries: Vec<IndexEntry>,
    ) {
        if let Some(last) = self.segments.back() {
            self.sealed_weight += last.bytes.max(self.least_weight);
        }
        self.next_id = first_id + entries.len() as u64;
        self.disk_bytes += bytes;
        let lengths = entries.iter().map(|entry| u64::from(entry.len));
        self.live_bytes += lengths.sum::<u64>();
        self.segments.push_back(Segment {
            number,
            first_id,
            bytes,
            alive: entries.len(),
            entries,
            moved: Vec::new(),
            cursor: 0,
        });
    }

    /// Adds bytes to the length of the newest segment.
    pub(super) fn grow(&mut self, bytes: u64) {
        self.newest().bytes += bytes;
        self.disk_bytes += bytes;
    }

    fn newest(&mut self) -> &mut Segment {
        self.segments
            .back_mut()
            .expect("a segment exists before anything is written")
    }

    /// Adds a message that is published in the newest segment; its id is `next_id`.
    pub(super) fn publish(&mut self, entry: IndexEntry) {
        self.next_id += 1;
        self.live_bytes += u64::from(entry.len);
        let newest = self.newest();
        newest.alive += 1;
        newest.entries.push(entry);
    }

    /// Records that a message of an older segment is now in the newest one.
    pub(super) fn set_moved(&mut self, id: u64, entry: IndexEntry) {
        self.forget(id);
        self.live_bytes += u64::from(entry.len);
        let newest = self.newest();
        newest.alive += 1;
        newest.moved.push(id);
        let segment = newest.number;
        self.moved.insert(id, Moved { segment, entry });
    }

    /// Restricts a moved message to the queues that still hold it.
    pub(super) fn set_holders(&mut self, id: u64, holders: Holders) {
        if let Some(moved) = self.moved.get_mut(&id) {
            moved.entry.holders = holders;
        }
    }

    /// Removes a message from a queue; returns `false` if it was not there.
    pub(super) fn settle(&mut self, queue: u32, id: u64) -> bool {
        let Some(entry) = self.entry(id) else {
            return false;
        };
        if !entry.holders.remove(queue) {
            return false;
        }
        if entry.holders.is_none() {
            let len = entry.len;
            self.count_dead(id, len);
        }
        true
    }

    /// Removes a message from all queues.
    pub(super) fn forget(&mut self, id: u64) {
        if let Some(entry) = self.entry(id)
            && !mem::replace(&mut entry.holders, Holders::None).is_none()
        {
            let len = entry.len;
            self.count_dead(id, len);
        }
    }

    /// Returns the queues that hold a message.
    pub(super) fn holders(&mut self, id: u64) -> &Holders {
        self.entry(id)
            .map_or(&Holders::None, |entry| &entry.holders)
    }

    fn entry(&mut self, id: u64) -> Option<&mut IndexEntry> {
        // Checked first, since the entry in the old segment stays until that is removed.
        if !self.moved.is_empty() && self.moved.contains_key(&id) {
            return self.moved.get_mut(&id).map(|moved| &mut moved.entry);
        }
        let segment = self.published_in(id)?;
        let segment = &mut self.segments[segment];
        let at = usize::try_from(id - segment.first_id).ok()?;
        segment.entries.get_mut(at)
    }

    fn published_in(&self, id: u64) -> Option<usize> {
        let last = self.segments.len().checked_sub(1)?;
        if id >= self.segments[last].first_id {
            return Some(last);
        }
        self.segments
            .partition_point(|segment| segment.first_id <= id)
            .checked_sub(1)
    }

    /// Subtracts a message whose last queue has settled it.
    fn count_dead(&mut self, id: u64, len: u32) {
        self.live_bytes -= u64::from(len);
        let segment = match self.moved.remove(&id) {
            Some(moved) => self.segment_index(moved.segment),
            None => self.published_in(id),
        };
        if let Some(segment) = segment.and_then(|at| self.segments.get_mut(at)) {
            segment.alive -= 1;
        }
    }

    fn segment_index(&self, number: u64) -> Option<usize> {
        usize::try_from(number - self.segments.front()?.number).ok()
    }

    /// Removes the oldest segments without live messages and returns their numbers; the newest segment stays, because
    /// it has the definitions.
    pub(super) fn remove_dead(&mut self) -> Vec<u64> {
        let mut removed = Vec::new();
        while self.segments.len() > 1
            && let Some(segment) = self.segments.pop_front_if(|oldest| oldest.alive == 0)
        {
            self.disk_bytes -= segment.bytes;
            self.sealed_weight -= segment.bytes.max(self.least_weight);
            removed.push(segment.number);
        }
        removed
    }

    /// Returns true if the log holds so much dead data that live messages must be moved.
    pub(super) fn is_sparse(&self, segment_bytes: u64) -> bool {
        self.segments.len() > 1 && self.sealed_weight > 2 * self.live_bytes + segment_bytes
    }

    /// Moves live messages of the oldest segment, about `budget` bytes, to `offset` of the newest and onward. Returns
    /// where their records are now, in the order in which they must be written, and adds to `after` the records that
    /// must follow them.
    pub(super) fn move_oldest(
        &mut self,
        budget: u64,
        mut offset: u64,
        after: &mut Vec<u8>,
    ) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut bytes = 0;
        while bytes < budget
            && let Some((id, span)) = self.next_alive()
        {
            let Some(entry) = self.entry(id) else {
                continue;
            };
            let holders = entry.holders.clone();
            if let Holders::Many(many) = &holders {
                format::held(after, id, many);
            }
            self.set_moved(
                id,
                IndexEntry {
                    offset: u32::try_from(offset).expect("a segment has less than 4 GiB"),
                    len: span.len,
                    holders,
                },
            );
            offset += u64::from(span.len);
            bytes += u64::from(span.len);
            match spans.last_mut() {
                Some(last) if last.offset + last.len == span.offset => last.len += span.len,
                _ => spans.push(span),
            }
        }
        spans
    }

    /// Returns the next live message of the oldest segment, with its record.
    fn next_alive(&mut self) -> Option<(u64, Span)> {
        let oldest = self.segments.front_mut()?;
        let number = oldest.number;
        let span = |entry: &IndexEntry| Span {
            segment: number,
            offset: entry.offset,
            len: entry.len,
        };
        while let Some(entry) = oldest.entries.get(oldest.cursor) {
            let id = oldest.first_id + oldest.cursor as u64;
            oldest.cursor += 1;
            if !entry.holders.is_none() {
                return Some((id, span(entry)));
            }
        }
        while let Some(id) = oldest.moved.get(oldest.cursor - oldest.entries.len()) {
            oldest.cursor += 1;
            if let Some(moved) = self.moved.get(id)
                && moved.segment == number
            {
                return Some((*id, span(&moved.entry)));
            }
        }
        None
    }
}
