//! The explanations of a history that the search keeps.

use std::collections::HashMap;

use crate::slots::Slots;

/// One explanation of the history so far.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Configuration {
    pub(crate) state: State,
    pub(crate) spent: Spent,
}

/// The register and its open operations.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) value: u32,
    /// The open operations that took effect.
    pub(crate) done: Slots,
    /// The open writes that may have taken effect directly before the write of `value`.
    pub(crate) overwritable: Slots,
}

/// The number of writes without an answer that took effect, for each value in ascending order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Spent(Vec<(u32, u32)>);

impl Spent {
    pub(crate) fn count(&self, value: u32) -> u32 {
        let found = self.0.binary_search_by_key(&value, |(known, _)| *known);
        found.map_or(0, |index| self.0[index].1)
    }

    pub(crate) fn add(&mut self, value: u32) {
        match self.0.binary_search_by_key(&value, |(known, _)| *known) {
            Ok(index) => self.0[index].1 += 1,
            Err(index) => self.0.insert(index, (value, 1)),
        }
    }

    /// Returns true if no value was written more often here than in `other`.
    fn is_within(&self, other: &Self) -> bool {
        self.0
            .iter()
            .all(|(value, count)| *count <= other.count(*value))
    }
}

/// A set of configurations without those that another one makes superfluous: of equal states, the one that spent fewer
/// writes can do whatever the other can.
#[derive(Debug, Default)]
pub(crate) struct Configurations(HashMap<State, Vec<Spent>>);

impl Configurations {
    pub(crate) fn insert(&mut self, configuration: Configuration) {
        let all = self.0.entry(configuration.state).or_default();
        let spent = configuration.spent;
        if !all.iter().any(|known| known.is_within(&spent)) {
            all.retain(|known| !spent.is_within(known));
            all.push(spent);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_iter(self) -> impl Iterator<Item = Configuration> {
        self.0.into_iter().flat_map(|(state, all)| {
            all.into_iter().map(move |spent| Configuration {
                state: state.clone(),
                spent,
            })
        })
    }

    /// Returns the values that the register may hold.
    pub(crate) fn values(&self) -> impl Iterator<Item = u32> {
        self.0.keys().map(|state| state.value)
    }

    /// Changes every state.
    pub(crate) fn map(self, change: impl Fn(&mut State)) -> Self {
        let mut changed = Self::default();
        for mut configuration in self.into_iter() {
            change(&mut configuration.state);
            changed.insert(configuration);
        }
        changed
    }
}
