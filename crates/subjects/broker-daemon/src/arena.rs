//! A slab with generational ids: an id never refers to a later value in the same slot.

use std::ops::{Index, IndexMut};

use slab::Slab;

/// The id of a value in an [`Arena`] of the same kind. It stays unique after the value is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Id<const KIND: char> {
    slot: u32,
    /// Counts all inserted values.
    pub(crate) serial: u32,
}

/// A slab whose ids outlive their values: an unacknowledged message names a queue that may be deleted, and whose slot
/// may be reused by another one. The kind keeps ids of one arena from being used for another.
#[derive(Debug)]
pub(crate) struct Arena<const KIND: char, T> {
    slots: Slab<(u32, T)>,
    next: u32,
    /// Set once the serials have wrapped around, so that a new one may be in use.
    has_wrapped: bool,
}

// Derived, it would require a default of the values.
impl<const KIND: char, T> Default for Arena<KIND, T> {
    fn default() -> Self {
        Self {
            slots: Slab::new(),
            next: 0,
            has_wrapped: false,
        }
    }
}

impl<const KIND: char, T> Arena<KIND, T> {
    pub(crate) fn insert(&mut self, value: T) -> Id<KIND> {
        let in_use = |serial| self.slots.iter().any(|(_, (used, _))| *used == serial);
        while self.has_wrapped && in_use(self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let serial = self.next;
        self.insert_as(serial, value)
    }

    /// Inserts a value under a serial from an earlier run of the process.
    pub(crate) fn insert_as(&mut self, serial: u32, value: T) -> Id<KIND> {
        if serial >= self.next {
            self.next = serial.wrapping_add(1);
            self.has_wrapped |= self.next == 0;
        }
        id(self.slots.insert((serial, value)), serial)
    }

    pub(crate) fn get(&self, id: Id<KIND>) -> Option<&T> {
        let (serial, value) = self.slots.get(id.slot as usize)?;
        (*serial == id.serial).then_some(value)
    }

    pub(crate) fn get_mut(&mut self, id: Id<KIND>) -> Option<&mut T> {
        let (serial, value) = self.slots.get_mut(id.slot as usize)?;
        (*serial == id.serial).then_some(value)
    }

    pub(crate) fn remove(&mut self, id: Id<KIND>) -> Option<T> {
        self.get(id)?;
        Some(self.slots.remove(id.slot as usize).1)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id<KIND>, &T)> {
        self.slots
            .iter()
            .map(|(slot, (serial, value))| (id(slot, *serial), value))
    }

    pub(crate) fn ids(&self) -> Vec<Id<KIND>> {
        self.iter().map(|(id, _)| id).collect()
    }
}

fn id<const KIND: char>(slot: usize, serial: u32) -> Id<KIND> {
    let slot = u32::try_from(slot).expect("there are fewer than 2^32 of anything");
    Id { slot, serial }
}

/// # Panics
/// Panics if the value was removed.
impl<const KIND: char, T> Index<Id<KIND>> for Arena<KIND, T> {
    type Output = T;

    fn index(&self, id: Id<KIND>) -> &T {
        self.get(id).expect("the value is in use")
    }
}

impl<const KIND: char, T> IndexMut<Id<KIND>> for Arena<KIND, T> {
    fn index_mut(&mut self, id: Id<KIND>) -> &mut T {
        self.get_mut(id).expect("the value is in use")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_serial_in_use_is_not_given_out_again_after_the_last() {
        let mut arena = Arena::<'t', _>::default();
        arena.insert_as(0, "recovered");
        arena.insert_as(u32::MAX, "the last");
        let serials = [arena.insert("a").serial, arena.insert("b").serial];
        assert_eq!(serials, [1, 2]);
    }

    #[test]
    fn a_place_that_is_taken_again_does_not_answer_to_the_old_id() {
        let mut arena = Arena::<'t', _>::default();
        let first = arena.insert("a");
        assert_eq!(arena.remove(first), Some("a"));
        let second = arena.insert("b");
        assert_eq!(first.slot, second.slot);
        assert_eq!(arena.get(first), None);
        assert_eq!(arena.remove(first), None);
        assert_eq!(arena.get(second), Some(&"b"));
    }
}
