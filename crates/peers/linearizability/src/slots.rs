//! Sets of small numbers.

/// A set of slots, which open operations have. The length of the vector is the same for equal sets: its last word is
/// never 0.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Slots(Vec<u64>);

impl Slots {
    pub(crate) fn contains(&self, slot: usize) -> bool {
        self.0
            .get(slot / 64)
            .is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    pub(crate) fn insert(&mut self, slot: usize) {
        if self.0.len() <= slot / 64 {
            self.0.resize(slot / 64 + 1, 0);
        }
        self.0[slot / 64] |= 1 << (slot % 64);
    }

    pub(crate) fn remove(&mut self, slot: usize) {
        if let Some(word) = self.0.get_mut(slot / 64) {
            *word &= !(1 << (slot % 64));
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[test]
    fn equal_sets_are_equal_however_they_were_made() {
        let mut slots = Slots::default();
        slots.insert(3);
        let small = slots.clone();
        slots.insert(200);
        assert!(slots.contains(200) && !slots.contains(199));
        slots.remove(200);
        slots.remove(1000);
        assert_eq!(slots, small);
    }
}
