//! A history with numbered values, without operations that cannot matter.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;

use crate::{Kind, Operation, Violation};

/// The value that the register holds before the first operation.
pub(crate) const INITIAL: u32 = 0;

/// An operation whose value is a number, the same for equal values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Numbered {
    /// Its index in the caller's history.
    pub(crate) index: usize,
    pub(crate) invoked_ns: u64,
    /// `None` for a write that may happen at any later time.
    pub(crate) returned_ns: Option<u64>,
    pub(crate) is_write: bool,
    pub(crate) value: u32,
}

/// A history that is ready to be checked.
#[derive(Debug)]
pub(crate) struct Prepared<'a, V> {
    pub(crate) history: &'a [Operation<V>],
    pub(crate) operations: Vec<Numbered>,
    /// The values by number; the first one is the initial value.
    pub(crate) values: Vec<V>,
}

impl<'a, V: Copy + Eq + Hash + Debug> Prepared<'a, V> {
    /// Numbers the values, and drops reads without an answer and writes without an answer that nobody read.
    pub(crate) fn new(initial: V, history: &'a [Operation<V>]) -> Result<Self, Violation> {
        if let Some(violation) = clock_error(history) {
            return Err(violation);
        }
        let mut values = vec![initial];
        let mut numbers = HashMap::from([(initial, INITIAL)]);
        let mut number = |value: V| {
            *numbers.entry(value).or_insert_with(|| {
                values.push(value);
                u32::try_from(values.len() - 1).expect("fewer than 4 billion values")
            })
        };
        let mut operations: Vec<Numbered> = history
            .iter()
            .enumerate()
            .map(|(index, operation)| Numbered {
                index,
                invoked_ns: operation.invoked_ns,
                returned_ns: operation.returned_ns,
                is_write: matches!(operation.kind, Kind::Write(_)),
                value: number(operation.kind.value()),
            })
            .collect();
        let mut is_read = vec![false; values.len()];
        for read in operations.iter().filter(|operation| !operation.is_write) {
            is_read[read.value as usize] |= read.returned_ns.is_some();
        }
        // A write that may not have happened need not have happened if nobody read its value.
        operations.retain(|operation| {
            operation.returned_ns.is_some()
                || (operation.is_write && is_read[operation.value as usize])
        });
        Ok(Self {
            history,
            operations,
            values,
        })
    }

    /// Returns true if no two writes have the same value, and none has the initial one.
    pub(crate) fn has_unique_values(&self) -> bool {
        let mut is_written = vec![false; self.values.len()];
        is_written[INITIAL as usize] = true;
        self.operations
            .iter()
            .filter(|operation| operation.is_write)
            .all(|write| !std::mem::replace(&mut is_written[write.value as usize], true))
    }

    /// Describes an operation: its client, its value and its times.
    pub(crate) fn describe(&self, operation: &Numbered) -> String {
        describe(&self.history[operation.index])
    }

    /// Returns a value as text.
    pub(crate) fn value_text(&self, value: u32) -> String {
        format!("{:?}", self.values[value as usize])
    }
}

fn clock_error<V: Debug>(history: &[Operation<V>]) -> Option<Violation> {
    let ends_early = |operation: &Operation<V>| {
        operation
            .returned_ns
            .is_some_and(|returned| returned < operation.invoked_ns)
    };
    let index = history.iter().position(ends_early)?;
    let text = format!(
        "{} returned before it was invoked: the recorder's clock went backwards",
        describe(&history[index])
    );
    Some(Violation::new(vec![index], text))
}

fn describe<V: Debug>(operation: &Operation<V>) -> String {
    let (noun, value) = match &operation.kind {
        Kind::Write(value) => ("write", value),
        Kind::Read(value) => ("read", value),
    };
    let invoked = operation.invoked_ns;
    let end = match operation.returned_ns {
        Some(returned) => format!("from {invoked} to {returned} ns"),
        None => format!("from {invoked} ns, without an answer"),
    };
    format!("client {}'s {noun} of {value:?} ({end})", operation.client)
}
