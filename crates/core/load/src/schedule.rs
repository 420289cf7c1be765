//! Computes when operations are due: pure functions of a plan, as nanoseconds since the run's origin.

mod arrival;
mod curve;
mod drawn;
mod users;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use arrival::RandomArrivals;
pub use arrival::{Arrival, Shape};
use curve::Curve;
use drawn::RandomOffsets;
use users::Users;

/// The due times of the operations of one share of the load, in order. Operation k is due at the same time in every
/// share, so that n machines together replay exactly the schedule of one.
#[derive(Debug)]
pub struct Schedule {
    rule: Rule,
    /// The share's next operation.
    next: u64,
    share: Share,
    /// Exclusive upper bound of operation indices.
    limit: u64,
}

/// A rule for the due time of an operation, given its index.
#[derive(Debug)]
enum Rule {
    /// `ops` operations evenly over `over_ns`.
    Spread { ops: u64, over_ns: u64 },
    /// `workers` first starts evenly over `over_ns`; then each worker continues by itself, `ops` times.
    Closed {
        workers: u64,
        over_ns: u64,
        ops: u64,
    },
    /// Operation k is due when the curve has made k operations due.
    Constant(Curve),
    /// Operation k is due when the curve reaches the sum of the first k + 1 draws.
    Random(Box<RandomArrivals>),
    /// Each worker starts at its own random time.
    RandomOffsets(RandomOffsets),
    /// The curve gives the number of users at each time.
    Users(Users),
    /// Each operation is due at its time in a list, and `next` is the index of the list's next one.
    Listed { times: Box<dyn DueTimes>, next: u64 },
}

/// The due times of all operations, nanoseconds since the run's origin, in order.
pub trait DueTimes: Iterator<Item = u64> + fmt::Debug + Send {}

impl<T: Iterator<Item = u64> + fmt::Debug + Send> DueTimes for T {}

/// The next operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Nanoseconds since the run's origin.
    pub at: u64,
    /// Its index in the schedule of the whole load.
    pub index: u64,
}

/// The part of the operations that one worker, thread, process or machine starts: those with `k % of == index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Its index among the shares, from 0.
    pub index: u64,
    /// Number of shares.
    pub of: u64,
}

impl Share {
    /// The whole.
    pub const ALL: Self = Self { index: 0, of: 1 };

    /// Returns the share `inner` of this share: the part of thread `inner.index` of `inner.of` in the process that has
    /// `self`.
    #[must_use]
    pub const fn within(self, inner: Self) -> Self {
        Self {
            index: self.index + self.of * inner.index,
            of: self.of * inner.of,
        }
    }

    /// Returns how many of `whole` operations belong to this share.
    #[must_use]
    pub const fn count(self, whole: u64) -> u64 {
        whole.saturating_sub(self.index).div_ceil(self.of)
    }
}

/// A piece of a rate curve: operations per second change linearly from `from` to `to`. Rates are finite and not below
/// 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stage {
    /// Operations per second at its beginning.
    pub from: f64,
    /// Operations per second at its end.
    pub to: f64,
    /// Its duration.
    pub over: Duration,
}

/// A piece of a curve of users: their number changes linearly from the end of the stage before, 0 at first, to `users`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserStage {
    /// Users at its end.
    pub users: u64,
    /// Its duration; 0 changes the number at once.
    pub over: Duration,
}

impl Schedule {
    /// Creates a fixed number of operations. Number k is due at `over * k / ops`; all are due at once if `over` is 0.
    #[must_use]
    pub fn spread(ops: u64, over: Duration, share: Share) -> Self {
        Self::new(
            Rule::Spread {
                ops,
                over_ns: nanoseconds(over),
            },
            ops,
            share,
        )
    }

    /// Creates an open loop: a rate that goes through `stages`, and ends with them.
    ///
    /// With constant arrivals, operation k is due when the rate, integrated over time, reaches k. It is computed from
    /// k, so that nothing drifts. With random arrivals, it is due when the integral reaches the k-th arrival of a
    /// process of rate 1 drawn from `seed`. Every share draws all arrivals and keeps its own. (The draws need the
    /// same `rand` and the same libm on all machines, which the same binary on the same distribution has.)
    #[must_use]
    pub fn rate(stages: &[Stage], arrival: Arrival, seed: u64, share: Share) -> Self {
        let curve = Curve::new(stages);
        let rule = match arrival {
            Arrival::Constant => Rule::Constant(curve),
            random => Rule::Random(Box::new(RandomArrivals::new(random, curve, seed))),
        };
        Self::new(rule, u64::MAX, share)
    }

    /// Returns the time before the end of `stages` in which perhaps no operation is due. With constant arrivals one is due
    /// in it; with random ones the chance of none is about e⁻¹⁰.
    #[must_use]
    pub fn idle_tail(stages: &[Stage], arrival: Arrival) -> Duration {
        Duration::from_nanos(Curve::new(stages).last(arrival.longest_gap()))
    }

    /// Creates a closed loop: worker j begins at `ramp * j / workers`. Its later operations are not on any schedule
    /// and not listed here: see [`Pacer::next_of_client`](crate::pacer::Pacer::next_of_client). A worker with its own
    /// pacer has the share `{ index: j, of: workers }`.
    #[must_use]
    pub fn closed(workers: u64, ramp: Duration, share: Share) -> Self {
        let rule = Rule::Closed {
            workers,
            over_ns: nanoseconds(ramp),
            ops: u64::MAX,
        };
        Self::new(rule, workers, share)
    }

    /// Creates workers that each begin at a random time below `most`, drawn from `seed`, and then start an operation
    /// every `interval`, without end. The time is computed from the index of the operation, so that nothing drifts.
    /// Without an interval they continue by themselves, as in [`closed`](Self::closed).
    #[must_use]
    pub fn drawn(
        workers: u64,
        most: Duration,
        interval: Option<Duration>,
        seed: u64,
        share: Share,
    ) -> Self {
        let drawn = RandomOffsets::new(workers, most, interval, seed, share);
        Self::new(Rule::RandomOffsets(drawn), u64::MAX, share)
    }

    /// Creates a closed loop whose number of users follows `stages`. User j begins when the curve reaches j + 1,
    /// continues by itself like the workers of [`closed`](Self::closed), and leaves when the curve falls below that or
    /// when the stages are over. When the curve rises again, the user begins again. Share k of n has the users k, k +
    /// n, k + 2 n…
    ///
    /// Only the first starts are listed. Indices are unique over the run and leave gaps; `index % most users` is the
    /// user.
    #[must_use]
    pub fn users(stages: &[UserStage], share: Share) -> Self {
        Self::new(Rule::Users(Users::new(stages, share)), u64::MAX, share)
    }

    /// Creates an open loop whose operations are due at listed times, such as a log's. Every share reads all times and
    /// keeps its own.
    #[must_use]
    pub fn listed(times: Box<dyn DueTimes>, share: Share) -> Self {
        Self::new(Rule::Listed { times, next: 0 }, u64::MAX, share)
    }

    fn new(rule: Rule, limit: u64, share: Share) -> Self {
        assert!(
            share.index < share.of,
            "there is no share {} of {}",
            share.index,
            share.of
        );
        Self {
            rule,
            next: share.index,
            share,
            limit,
        }
    }

    /// Limits the schedule to `most` operations: of each worker if there are workers (for each time that it begins),
    /// otherwise of all shares together.
    #[must_use]
    pub fn limited(mut self, most: u64) -> Self {
        match &mut self.rule {
            Rule::Closed { ops, .. } => {
                *ops = most.min(*ops);
                if most == 0 {
                    // A worker without operations does not begin.
                    self.limit = 0;
                }
            }
            Rule::RandomOffsets(drawn) => drawn.ops = most.min(drawn.ops),
            Rule::Users(users) => users.ops = most.min(users.ops),
            _ => self.limit = self.limit.min(most),
        }
        self
    }

    /// Returns true if everything is due at once: there is then no order in time, and nothing can be late.
    #[must_use]
    pub fn is_burst(&self) -> bool {
        matches!(
            self.rule,
            Rule::Spread { over_ns: 0, .. } | Rule::Closed { over_ns: 0, .. }
        )
    }

    /// Returns true if the number of operations is fixed, instead of filling a time: clients that are used once each,
    /// or a limit on the starts of a rate.
    #[must_use]
    pub fn has_fixed_number(&self) -> bool {
        match &self.rule {
            Rule::Spread { .. } => true,
            Rule::Constant(_) | Rule::Random(_) | Rule::Listed { .. } => self.limit < u64::MAX,
            Rule::RandomOffsets(drawn) => !drawn.is_closed() && drawn.ops < u64::MAX,
            Rule::Closed { .. } | Rule::Users(_) => false,
        }
    }

    /// Returns true if workers continue by themselves once they have begun.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match &self.rule {
            Rule::Closed { .. } | Rule::Users(_) => true,
            Rule::RandomOffsets(drawn) => drawn.is_closed(),
            _ => false,
        }
    }

    /// Returns the difference between the indices of two operations that follow each other: of one client, or of all if there
    /// are no clients that go on.
    #[must_use]
    pub fn stride(&self) -> u64 {
        match &self.rule {
            Rule::Closed { workers, .. } | Rule::Spread { ops: workers, .. } => (*workers).max(1),
            Rule::Users(users) => users.stride(),
            _ => 1,
        }
    }

    /// Returns the operation after `index` of the same worker of a closed loop: worker j does j, j + workers, j + 2
    /// workers… `at` is the time, in nanoseconds since the run's origin.
    pub(crate) fn next_of_worker(&self, index: u64, at: u64) -> Option<u64> {
        match &self.rule {
            Rule::Closed { workers, ops, .. } => {
                let next_of_worker = index.checked_add(*workers)?;
                (next_of_worker / workers < *ops).then_some(next_of_worker)
            }
            Rule::RandomOffsets(drawn) => drawn.next_of_worker(index),
            Rule::Users(users) => users.next_of_worker(index, at),
            _ => None,
        }
    }
}

impl Iterator for Schedule {
    type Item = Due;

    fn next(&mut self) -> Option<Due> {
        let index = self.next;
        if index >= self.limit {
            return None;
        }
        let at = match &mut self.rule {
            Rule::Spread { ops, over_ns } => proportion(*over_ns, index, *ops),
            Rule::Closed {
                workers, over_ns, ..
            } => proportion(*over_ns, index, *workers),
            Rule::Constant(curve) => curve.when(index as f64)?,
            Rule::Random(arrivals) => arrivals.when(index)?,
            Rule::RandomOffsets(drawn) => return drawn.next(),
            Rule::Users(users) => return users.next(),
            Rule::Listed { times, next } => {
                let before = index - *next;
                *next = index + 1;
                times.nth(before as usize)?
            }
        };
        self.next = index.saturating_add(self.share.of);
        Some(Due { at, index })
    }
}

/// Computes `over * index / of`, rounded down. A 128-bit division costs five times a 64-bit one, so it is only the
/// fallback.
fn proportion(over: u64, index: u64, of: u64) -> u64 {
    match over.checked_mul(index) {
        Some(product) => product / of,
        None => (u128::from(over) * u128::from(index) / u128::from(of)) as u64,
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
