//! The check for writes with values of their own, by zones (Gibbons and Korach, 1997).
//!
//! A cluster is a write with the reads of its value. `earliest_return` is the lowest time at which one of them returned
//! and `latest_invoked` the highest at which one was invoked. One cluster must precede another if one of its operations
//! returned before one of the other was invoked, so two clusters conflict if each must precede the other. A history
//! without conflicts between two clusters is linearizable.

use std::fmt::Debug;
use std::hash::Hash;

use crate::history::{INITIAL, Numbered, Prepared};
use crate::{Outcome, Violation};

/// A time that may lie before the first operation or after the last.
type Time = i128;

/// A write with the reads of its value, as indices into the prepared operations.
#[derive(Debug, Clone, Copy)]
struct Cluster {
    value: u32,
    /// `None` for the initial value.
    write: Option<usize>,
    earliest_return: Time,
    /// The operation that returned first; `None` for the initial value, which was there before.
    returned_first: Option<usize>,
    latest_invoked: Time,
    invoked_last: Option<usize>,
}

impl Cluster {
    fn new(value: u32) -> Self {
        let is_initial = value == INITIAL;
        Self {
            value,
            write: None,
            earliest_return: if is_initial { -1 } else { Time::MAX },
            returned_first: None,
            latest_invoked: -1,
            invoked_last: None,
        }
    }

    fn add(&mut self, index: usize, operation: &Numbered) {
        let returned = end(operation);
        if returned < self.earliest_return {
            (self.earliest_return, self.returned_first) = (returned, Some(index));
        }
        let invoked = Time::from(operation.invoked_ns);
        if invoked > self.latest_invoked {
            (self.latest_invoked, self.invoked_last) = (invoked, Some(index));
        }
        if operation.is_write {
            self.write = Some(index);
        }
    }

    /// Returns true if the register certainly held the value for some time: one operation returned before another
    /// one was invoked.
    fn is_forward(&self) -> bool {
        self.earliest_return < self.latest_invoked
    }

    fn precedes(&self, other: &Self) -> bool {
        self.earliest_return < other.latest_invoked
    }
}

fn end(operation: &Numbered) -> Time {
    operation.returned_ns.map_or(Time::MAX, Time::from)
}

/// Checks a history in which each write has its own value.
pub(crate) fn check<V: Copy + Eq + Hash + Debug>(prepared: &Prepared<'_, V>) -> Outcome {
    let clusters = clusters(prepared);
    let found = unwritten(prepared, &clusters)
        .or_else(|| conflict(&clusters).map(|(one, other)| explain(prepared, one, other)));
    found.map_or(Outcome::Linearizable, Outcome::Violated)
}

fn clusters<V>(prepared: &Prepared<'_, V>) -> Vec<Cluster> {
    let count = u32::try_from(prepared.values.len()).expect("values have 32-bit numbers");
    let mut clusters: Vec<Cluster> = (0..count).map(Cluster::new).collect();
    for (index, operation) in prepared.operations.iter().enumerate() {
        clusters[operation.value as usize].add(index, operation);
    }
    // The value of a read without an answer has no operation left.
    clusters.retain(|cluster| cluster.value == INITIAL || cluster.invoked_last.is_some());
    clusters
}

/// Finds a read of a value that was not written, or was written only later.
fn unwritten<V: Copy + Eq + Hash + Debug>(
    prepared: &Prepared<'_, V>,
    clusters: &[Cluster],
) -> Option<Violation> {
    let operations = &prepared.operations;
    for cluster in clusters.iter().filter(|cluster| cluster.value != INITIAL) {
        let first = cluster.returned_first.or(cluster.invoked_last)?;
        let read = prepared.describe(&operations[first]);
        let Some(write) = cluster.write else {
            let text = format!("{read} returned a value that nobody wrote");
            return Some(Violation::new(vec![operations[first].index], text));
        };
        if cluster.earliest_return < Time::from(operations[write].invoked_ns) {
            let later = prepared.describe(&operations[write]);
            let text = format!("{read} returned a value from the future: it ended before {later}");
            let named = vec![operations[first].index, operations[write].index];
            return Some(Violation::new(named, text));
        }
    }
    None
}

/// Finds two clusters that must precede each other.
fn conflict(clusters: &[Cluster]) -> Option<(&Cluster, &Cluster)> {
    let (mut forward, backward): (Vec<&Cluster>, Vec<&Cluster>) =
        clusters.iter().partition(|cluster| cluster.is_forward());
    forward.sort_by_key(|cluster| cluster.earliest_return);
    // Sorted, the first overlap is one of neighbours.
    for pair in forward.windows(2) {
        if pair[1].precedes(pair[0]) {
            return Some((pair[0], pair[1]));
        }
    }
    // The forward zones are disjoint here, so only the last one that begins before a backward zone can hold it.
    backward.into_iter().find_map(|inner| {
        let begun = forward.partition_point(|outer| outer.precedes(inner));
        let outer = *forward.get(begun.checked_sub(1)?)?;
        inner.precedes(outer).then_some((outer, inner))
    })
}

fn explain<V: Copy + Eq + Hash + Debug>(
    prepared: &Prepared<'_, V>,
    one: &Cluster,
    other: &Cluster,
) -> Violation {
    let operations = &prepared.operations;
    let order = |before: &Cluster, after: &Cluster| {
        let first = before.returned_first.map_or_else(
            || {
                format!(
                    "the register held {} at first",
                    prepared.value_text(INITIAL)
                )
            },
            |index| format!("{} ended", prepared.describe(&operations[index])),
        );
        let second = after
            .invoked_last
            .map(|index| prepared.describe(&operations[index]))
            .unwrap_or_default();
        format!("{first} before {second} began")
    };
    let values = [one, other].map(|cluster| prepared.value_text(cluster.value));
    let text = format!(
        "the values {} and {} cannot be ordered: {}, and {}; each was written once",
        values[0],
        values[1],
        order(one, other),
        order(other, one)
    );
    let named = [one, other]
        .into_iter()
        .flat_map(|cluster| [cluster.write, cluster.returned_first, cluster.invoked_last])
        .flatten()
        .map(|index| operations[index].index);
    Violation::new(named.collect(), text)
}
