//! Counters by index: counting costs a few instructions, and names are looked up once a second.

use std::borrow::Cow;
use std::cell::Cell;

use crate::spec::CounterSpec;
use crate::tally::{
    Counts, GOODPUT, MISSED, MISSED_WAITING, OK, STARTED, UNFINISHED, WARMUP, WARMUP_FAILED, add,
};

/// Counters of every driver, in front of its own.
pub(crate) const CORE: [&str; 8] = [
    STARTED,
    OK,
    UNFINISHED,
    MISSED,
    MISSED_WAITING,
    WARMUP,
    WARMUP_FAILED,
    GOODPUT,
];

/// A counter: its index among all counters of a driver, and its name. A driver defines its counters with
/// [`counters!`](crate::counters!).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    index: usize,
    name: &'static str,
}

impl Counter {
    /// Counts operations begun.
    pub const STARTED: Self = Self::of_core(0);
    /// Counts operations that ended successfully.
    pub const OK: Self = Self::of_core(1);
    /// Counts operations left open.
    pub const UNFINISHED: Self = Self::of_core(2);
    /// Counts operations that were due and never begun.
    pub const MISSED: Self = Self::of_core(3);
    /// Counts the missed operations whose client was still waiting for the daemon.
    pub const MISSED_WAITING: Self = Self::of_core(4);
    /// Counts operations that start in the warm-up.
    pub const WARMUP: Self = Self::of_core(5);
    /// Counts operations of the warm-up that fail.
    pub const WARMUP_FAILED: Self = Self::of_core(6);
    /// Counts successful operations that met all objectives of the plan.
    pub const GOODPUT: Self = Self::of_core(7);

    const fn of_core(index: usize) -> Self {
        let name = CORE[index];
        Self { index, name }
    }

    /// Returns the counter at an index of a driver's specification.
    ///
    /// # Panics
    /// If there is none, or its name is not static. The compiler reports that where the counter is a constant.
    #[must_use]
    pub const fn new(specs: &'static [CounterSpec], index: usize) -> Self {
        let Cow::Borrowed(name) = &specs[index].name else {
            panic!("the names of a driver's counters are static");
        };
        let index = CORE.len() + index;
        Self { index, name }
    }

    /// Returns the name in results and thresholds.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }
}

impl AsRef<str> for Counter {
    fn as_ref(&self) -> &str {
        self.name
    }
}

/// Defines the counters of a driver: `COUNTERS`, the list for its [`Spec`](crate::spec::Spec), and a
/// [`Counter`](crate::counters::Counter) for each entry. The list begins with the warm-up, which every driver has. The
/// form of an entry is `NAME = CounterSpec::new("name", "label", role);`.
#[macro_export]
macro_rules! counters {
    ($($(#[$doc:meta])* $counter:ident = $spec:expr;)*) => {
        /// The counters, in the order of reports.
        pub(crate) const COUNTERS: &[$crate::spec::CounterSpec] =
            &[$crate::spec::CounterSpec::WARMUP, $($spec),*];

        #[allow(
            non_camel_case_types,
            clippy::upper_case_acronyms,
            reason = "the variants are named as the constants, to number them"
        )]
        enum CounterIndex {
            $($counter),*
        }

        $(
            $(#[$doc])*
            pub(crate) const $counter: $crate::counters::Counter =
                $crate::counters::Counter::new(COUNTERS, 1 + CounterIndex::$counter as usize);
        )*
    };
}

/// The sums of all counters of a driver, until they are added to a tally.
#[derive(Debug, PartialEq, Eq)]
pub struct Counters {
    specs: &'static [CounterSpec],
    sums: Box<[Cell<u64>]>,
}

impl Counters {
    /// Creates the counters of a driver with these specifications, all at 0.
    #[must_use]
    pub fn new(specs: &'static [CounterSpec]) -> Self {
        Self {
            specs,
            sums: vec![Cell::new(0); CORE.len() + specs.len()].into(),
        }
    }

    /// Adds to a counter.
    ///
    /// # Panics
    /// If the counter belongs to another driver that has more of them.
    #[inline]
    pub fn add(&self, counter: Counter, count: u64) {
        let sum = &self.sums[counter.index];
        sum.set(sum.get() + count);
    }

    /// Returns the sum of a counter.
    #[must_use]
    pub fn get(&self, counter: Counter) -> u64 {
        self.sums[counter.index].get()
    }

    /// Moves all sums to counters by name. Those at 0 are left out.
    pub fn move_to(&self, counts: &mut Counts) {
        let specified = self.specs.iter().map(|counter| counter.name.as_ref());
        for (name, sum) in CORE.into_iter().chain(specified).zip(&self.sums) {
            if sum.get() > 0 {
                add(counts, name, sum.take());
            }
        }
    }
}
