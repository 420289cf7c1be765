//! The check by search, for any values.
//!
//! The search reads the history in the order of time and keeps every configuration that explains it so far: the value
//! of the register, and the open operations that already took effect. Equal configurations are merged. An operation
//! takes effect only when one that returns needs it ("just in time", Lowe 2017), so that a history with little
//! contention has one or two configurations at any time. If none is left, the history up to that return is the shortest
//! that cannot be ordered.
//!
//! Four rules for registers keep the configurations few, and each loses no order:
//!
//! - A read takes effect as soon as the register holds its value, since it changes nothing.
//! - A write may take effect directly before another write that took effect while it was open, which nobody notices: it
//!   is then *overwritten*. A configuration holds the writes for which this is possible.
//! - Of the open writes of one value, the one that returns first takes effect first.
//! - Writes without an answer are only counted, by value, and take effect only for a read. Fewer of them are better.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;

use crate::configurations::{Configuration, Configurations, Spent, State};
use crate::history::{INITIAL, Numbered, Prepared};
use crate::slots::Slots;
use crate::{Outcome, Violation};

/// The bound of steps was reached.
struct LimitReached;

/// A write that may take effect.
#[derive(Debug, Clone, Copy)]
enum Candidate {
    /// The open write of a slot.
    Open(usize),
    /// A write of this value without an answer.
    Unanswered(u32),
}

struct Search<'a, V> {
    prepared: &'a Prepared<'a, V>,
    /// The open operations by slot, as indices into the prepared operations. Writes without an answer have no slot.
    open: Vec<Option<usize>>,
    free: Vec<usize>,
    /// The number of writes without an answer that began, by value.
    unanswered: HashMap<u32, u32>,
    configurations: Configurations,
    steps_left: u64,
}

/// Checks a history with at most about `max_steps` extensions of a configuration.
pub(crate) fn check<V: Copy + Eq + Hash + Debug>(
    prepared: &Prepared<'_, V>,
    max_steps: u64,
) -> Outcome {
    let mut configurations = Configurations::default();
    configurations.insert(Configuration {
        state: State {
            value: INITIAL,
            done: Slots::default(),
            overwritable: Slots::default(),
        },
        spent: Spent::default(),
    });
    let mut search = Search {
        prepared,
        open: Vec::new(),
        free: Vec::new(),
        unanswered: HashMap::new(),
        configurations,
        steps_left: max_steps,
    };
    let mut slots = vec![0; prepared.operations.len()];
    for (index, is_return) in events(&prepared.operations) {
        let operation = prepared.operations[index];
        if operation.returned_ns.is_none() {
            *search.unanswered.entry(operation.value).or_default() += 1;
        } else if !is_return {
            slots[index] = search.begin(index);
        } else {
            match search.finish(slots[index]) {
                Ok(None) => {}
                Ok(Some(violation)) => return Outcome::Violated(violation),
                Err(LimitReached) => return Outcome::Unknown,
            }
        }
    }
    Outcome::Linearizable
}

/// Returns starts and returns in the order of time; at the same time starts come first, since such operations are
/// concurrent.
fn events(operations: &[Numbered]) -> Vec<(usize, bool)> {
    let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(operations.len() * 2);
    for (index, operation) in operations.iter().enumerate() {
        events.push((operation.invoked_ns, false, index));
        events.extend(
            operation
                .returned_ns
                .map(|returned| (returned, true, index)),
        );
    }
    events.sort_unstable();
    events
        .into_iter()
        .map(|(_, is_return, index)| (index, is_return))
        .collect()
}

impl<V: Copy + Eq + Hash + Debug> Search<'_, V> {
    fn operation(&self, slot: usize) -> &Numbered {
        let index = self.open[slot].expect("the slot holds an open operation");
        &self.prepared.operations[index]
    }

    fn count_step(&mut self) -> Result<(), LimitReached> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(LimitReached)?;
        Ok(())
    }

    /// Opens an operation and returns its slot. A read of the present value takes effect at once.
    fn begin(&mut self, index: usize) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.open.push(None);
            self.open.len() - 1
        });
        self.open[slot] = Some(index);
        let operation = self.prepared.operations[index];
        let is_held = |value| value == operation.value;
        if !operation.is_write && self.configurations.values().any(is_held) {
            self.configurations = std::mem::take(&mut self.configurations).map(|state| {
                if state.value == operation.value {
                    state.done.insert(slot);
                }
            });
        }
        slot
    }

    /// Closes an operation: keeps the configurations in which it took effect.
    fn finish(&mut self, slot: usize) -> Result<Option<Violation>, LimitReached> {
        let before = std::mem::take(&mut self.configurations);
        let values: BTreeSet<u32> = before.values().collect();
        let mut kept = Configurations::default();
        for configuration in before.into_iter() {
            self.extend(configuration, slot, &mut kept)?;
        }
        if kept.is_empty() {
            return Ok(Some(self.explain(slot, &values)));
        }
        self.configurations = kept.map(|state| {
            state.done.remove(slot);
            state.overwritable.remove(slot);
        });
        self.open[slot] = None;
        self.free.push(slot);
        Ok(None)
    }

    /// Adds the configurations that follow from `start` and in which the operation of `slot` took effect.
    fn extend(
        &mut self,
        start: Configuration,
        slot: usize,
        kept: &mut Configurations,
    ) -> Result<(), LimitReached> {
        let mut seen = HashSet::new();
        let mut pending = vec![start];
        while let Some(configuration) = pending.pop() {
            self.count_step()?;
            if configuration.state.done.contains(slot) {
                kept.insert(configuration);
                continue;
            }
            if configuration.state.overwritable.contains(slot) {
                let mut overwritten = configuration.clone();
                overwritten.state.done.insert(slot);
                kept.insert(overwritten);
            }
            for candidate in self.candidates(&configuration, slot) {
                let next = self.write(&configuration, candidate);
                if seen.insert(next.clone()) {
                    pending.push(next);
                }
            }
        }
        Ok(())
    }

    /// Returns the writes that need to take effect before `slot` closes: its own, and for each value that an open read
    /// returned the one that returns first.
    fn candidates(&self, configuration: &Configuration, slot: usize) -> Vec<Candidate> {
        let is_pending = |other: &usize| {
            self.open[*other].is_some() && !configuration.state.done.contains(*other)
        };
        let pending = (0..self.open.len()).filter(is_pending);
        let (writes, reads): (Vec<usize>, Vec<usize>) =
            pending.partition(|other| self.operation(*other).is_write);
        let mut values: Vec<u32> = reads
            .iter()
            .chain(writes.iter().filter(|write| **write == slot))
            .map(|other| self.operation(*other).value)
            .collect();
        values.sort_unstable();
        values.dedup();
        let candidate = |value: u32| {
            let same = writes
                .iter()
                .copied()
                .filter(|write| self.operation(*write).value == value);
            let first = same.min_by_key(|write| self.operation(*write).returned_ns);
            let unanswered = self.unanswered.get(&value).copied().unwrap_or_default();
            let is_left = unanswered > configuration.spent.count(value);
            first
                .map(Candidate::Open)
                .or(is_left.then_some(Candidate::Unanswered(value)))
        };
        values.into_iter().filter_map(candidate).collect()
    }

    /// Lets a write take effect, then the open reads of its value.
    fn write(&self, configuration: &Configuration, candidate: Candidate) -> Configuration {
        let mut next = configuration.clone();
        next.state.overwritable = Slots::default();
        next.state.value = match candidate {
            Candidate::Open(slot) => {
                next.state.done.insert(slot);
                self.operation(slot).value
            }
            Candidate::Unanswered(value) => {
                next.spent.add(value);
                value
            }
        };
        for other in (0..self.open.len()).filter(|other| self.open[*other].is_some()) {
            if next.state.done.contains(other) {
                continue;
            }
            let operation = self.operation(other);
            if operation.is_write {
                next.state.overwritable.insert(other);
            } else if operation.value == next.state.value {
                next.state.done.insert(other);
            }
        }
        next
    }

    /// Explains why nothing is left when `slot` closes.
    fn explain(&self, slot: usize, values: &BTreeSet<u32>) -> Violation {
        let last = *self.operation(slot);
        let overlapping: Vec<&Numbered> = (0..self.open.len())
            .filter(|other| *other != slot && self.open[*other].is_some())
            .map(|other| self.operation(other))
            .collect();
        let held: Vec<String> = values
            .iter()
            .map(|value| self.prepared.value_text(*value))
            .collect();
        let mut text = format!(
            "{} cannot be ordered: the operations before it leave {} in the register",
            self.prepared.describe(&last),
            held.join(" or ")
        );
        let described: Vec<String> = overlapping
            .iter()
            .map(|operation| self.prepared.describe(operation))
            .collect();
        if described.is_empty() {
            text.push_str(", and no other operation was open when it ended");
        } else {
            text.push_str(
                ", and no order with the operations that were open when it ended explains it: ",
            );
            text.push_str(&described.join(", "));
        }
        let named = overlapping.iter().map(|operation| operation.index);
        Violation::new(named.chain([last.index]).collect(), text)
    }
}
