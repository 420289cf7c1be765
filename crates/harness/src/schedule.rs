//! When operations are due: pure functions of a plan, as nanoseconds since the run's origin.

mod curve;
mod drawn;
mod users;

use std::fmt;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

use curve::Curve;
use drawn::Drawn;
use users::Users;

/// When each operation of one share of the load is due, in order. Operation k is due at the same time in every
/// share, so that n machines together replay exactly the schedule of one.
#[derive(Debug)]
pub struct Schedule {
    rule: Rule,
    /// The share's next operation.
    next: u64,
    share: Share,
    /// Operations `limit` and up are nobody's.
    limit: u64,
}

/// How the time of an operation follows from its number.
#[derive(Debug)]
enum Rule {
    /// `ops` operations evenly over `over_ns`.
    Spread { ops: u64, over_ns: u64 },
    /// `workers` beginnings evenly over `over_ns`; then each goes on by itself, `ops` times.
    Closed {
        workers: u64,
        over_ns: u64,
        ops: u64,
    },
    /// Operation k when the curve has made k operations due.
    Constant(Curve),
    /// Operation k when the curve has made the sum of the first k + 1 draws due.
    Poisson(Box<Poisson>),
    /// Each worker from a time of its own on.
    Drawn(Drawn),
    /// As many users as the curve has at the time.
    Users(Users),
}

/// The operation that comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Nanoseconds since the run's origin.
    pub at: u64,
    /// Its number in the schedule of the whole.
    pub index: u64,
}

/// Which operations of the whole one worker, thread, process or machine starts: those with `k % of == index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Its place among the shares, from 0.
    pub index: u64,
    /// How many shares there are.
    pub of: u64,
}

impl Share {
    /// The whole.
    pub const ALL: Self = Self { index: 0, of: 1 };

    /// The share `inner` of this share: what thread `inner.index` of `inner.of` starts in the process that has `self`.
    #[must_use]
    pub const fn within(self, inner: Self) -> Self {
        Self {
            index: self.index + self.of * inner.index,
            of: self.of * inner.of,
        }
    }

    /// How many of `whole` operations are its own.
    #[must_use]
    pub const fn count(self, whole: u64) -> u64 {
        whole.saturating_sub(self.index).div_ceil(self.of)
    }
}

/// How open-loop operations follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Arrival {
    /// Evenly: the gap is the inverse of the rate.
    #[default]
    Constant,
    /// As independent users come: the gaps are exponentially distributed.
    Poisson,
}

impl fmt::Display for Arrival {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Constant => "constant",
            Self::Poisson => "poisson",
        })
    }
}

/// A piece of a rate curve: operations per second go evenly from `from` to `to`. Rates are finite and not below 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stage {
    /// Operations per second at its beginning.
    pub from: f64,
    /// Operations per second at its end.
    pub to: f64,
    /// How long it takes.
    pub over: Duration,
}

/// A piece of a curve of users: their number goes evenly from that of the stage before, 0 at first, to `users`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserStage {
    /// Users at its end.
    pub users: u64,
    /// How long it takes; all at once if it is 0.
    pub over: Duration,
}

impl Schedule {
    /// A fixed number of operations, number k due at `over * k / ops`; all at once if `over` is 0.
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

    /// An open loop: a rate that goes through `stages`, and ends with them.
    ///
    /// With constant arrivals operation k is due when the rate, summed over time, reaches k; computed from k, so that
    /// nothing drifts. With Poisson arrivals it is due when the sum reaches the k-th arrival of a unit Poisson process
    /// drawn from `seed`; every share draws it all and keeps its own. (The draws need the same `rand` and the same
    /// libm on all machines, which the same binary on the same distribution has.)
    #[must_use]
    pub fn rate(stages: &[Stage], arrival: Arrival, seed: u64, share: Share) -> Self {
        let curve = Curve::new(stages);
        let rule = match arrival {
            Arrival::Constant => Rule::Constant(curve),
            Arrival::Poisson => Rule::Poisson(Box::new(Poisson::new(curve, seed))),
        };
        Self::new(rule, u64::MAX, share)
    }

    /// A closed loop: worker j begins at `ramp * j / workers`. What it does after that is not on any schedule, and is
    /// not listed here: see [`Pacer::again`](crate::pacer::Pacer::again). A worker that has a pacer of its own has the
    /// share `{ index: j, of: workers }`.
    #[must_use]
    pub fn closed(workers: u64, ramp: Duration, share: Share) -> Self {
        let rule = Rule::Closed {
            workers,
            over_ns: nanoseconds(ramp),
            ops: u64::MAX,
        };
        Self::new(rule, workers, share)
    }

    /// Workers that begin each at a random time below `most`, drawn from `seed`, and then start an operation each
    /// `interval`, without end, computed from its number so that nothing drifts; without an interval they go on by
    /// themselves, as those of [`closed`](Self::closed) do.
    #[must_use]
    pub fn drawn(
        workers: u64,
        most: Duration,
        interval: Option<Duration>,
        seed: u64,
        share: Share,
    ) -> Self {
        let drawn = Drawn::new(workers, most, interval, seed, share);
        Self::new(Rule::Drawn(drawn), u64::MAX, share)
    }

    /// A closed loop whose number of users follows `stages`: user j begins when it reaches j + 1, goes on by himself as
    /// the workers of [`closed`](Self::closed) do, and leaves when it falls below that or when the stages are over. When
    /// it rises again he begins again. Share k of n has the users k, k + n, k + 2 n…
    ///
    /// What is listed are the beginnings. Indices are unique over the run and leave gaps; `index % most users` is the user.
    #[must_use]
    pub fn users(stages: &[UserStage], share: Share) -> Self {
        Self::new(Rule::Users(Users::new(stages, share)), u64::MAX, share)
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

    /// At most `most` operations: of each worker where there are workers (each time that he begins, where he does so
    /// again), of all shares together otherwise.
    #[must_use]
    pub fn limited(mut self, most: u64) -> Self {
        match &mut self.rule {
            Rule::Closed { ops, .. } => {
                *ops = most.min(*ops);
                if most == 0 {
                    // A worker that may do nothing does not begin.
                    self.limit = 0;
                }
            }
            Rule::Drawn(drawn) => drawn.ops = most.min(drawn.ops),
            Rule::Users(users) => users.ops = most.min(users.ops),
            _ => self.limit = self.limit.min(most),
        }
        self
    }

    /// How many operations this share has from beginning to end, if that is known before: not for Poisson arrivals,
    /// nor for a closed loop without a limit.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        match &self.rule {
            Rule::Spread { .. } => Some(self.share.count(self.limit)),
            Rule::Closed { ops, .. } => {
                (*ops < u64::MAX).then(|| self.share.count(self.limit).saturating_mul(*ops))
            }
            Rule::Constant(curve) => Some(self.share.count(self.limit.min(curve.whole_counts()))),
            Rule::Poisson(_) | Rule::Drawn(_) | Rule::Users(_) => None,
        }
    }

    /// Whether everything is due at once: then no order of time was asked for, and nothing can be late.
    #[must_use]
    pub fn is_burst(&self) -> bool {
        matches!(
            self.rule,
            Rule::Spread { over_ns: 0, .. } | Rule::Closed { over_ns: 0, .. }
        )
    }

    /// Returns true where the number of operations is fixed, and not what fits into a time: clients that are used once
    /// each, or a limit to what a rate starts.
    #[must_use]
    pub fn has_fixed_number(&self) -> bool {
        match &self.rule {
            Rule::Spread { .. } => true,
            Rule::Constant(_) | Rule::Poisson(_) => self.limit < u64::MAX,
            Rule::Drawn(drawn) => !drawn.is_closed() && drawn.ops < u64::MAX,
            Rule::Closed { .. } | Rule::Users(_) => false,
        }
    }

    /// Whether workers go on by themselves once they have begun.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match &self.rule {
            Rule::Closed { .. } | Rule::Users(_) => true,
            Rule::Drawn(drawn) => drawn.is_closed(),
            _ => false,
        }
    }

    /// The operation after `index` of the same worker of a closed loop: worker j does j, j + workers, j + 2 workers…
    /// `at` is the time, in nanoseconds since the run's origin.
    pub(crate) fn following(&self, index: u64, at: u64) -> Option<u64> {
        match &self.rule {
            Rule::Closed { workers, ops, .. } => {
                let following = index.checked_add(*workers)?;
                (following / workers < *ops).then_some(following)
            }
            Rule::Drawn(drawn) => drawn.following(index),
            Rule::Users(users) => users.following(index, at),
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
            Rule::Poisson(poisson) => poisson.when(index)?,
            Rule::Drawn(drawn) => return drawn.next(),
            Rule::Users(users) => return users.next(),
        };
        self.next = index.saturating_add(self.share.of);
        Some(Due { at, index })
    }
}

/// `over * index / of`, rounded down. A division of 128 bits costs five times one of 64, so it is kept for the rest.
fn proportion(over: u64, index: u64, of: u64) -> u64 {
    match over.checked_mul(index) {
        Some(product) => product / of,
        None => (u128::from(over) * u128::from(index) / u128::from(of)) as u64,
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A unit Poisson process, stretched to a curve.
#[derive(Debug)]
struct Poisson {
    curve: Curve,
    random: StdRng,
    /// Sum of the draws.
    sum: f64,
    /// How many were drawn.
    drawn: u64,
}

impl Poisson {
    fn new(curve: Curve, seed: u64) -> Self {
        Self {
            curve,
            random: StdRng::seed_from_u64(seed),
            sum: 0.0,
            drawn: 0,
        }
    }

    /// When operation `index` is due; draws those before it that are other shares'.
    fn when(&mut self, index: u64) -> Option<u64> {
        while self.drawn <= index {
            // 1 - u is in (0, 1], so that the logarithm is finite.
            let uniform: f64 = self.random.random();
            self.sum -= (1.0 - uniform).ln();
            self.drawn += 1;
        }
        self.curve.when(self.sum)
    }
}
