//! A rate over time, and its inverse: the time at which the operations due so far reach a number.

use super::{Stage, nanoseconds};

/// A piecewise linear rate.
#[derive(Debug, Clone)]
pub(super) struct Curve {
    pieces: Vec<Piece>,
    /// The piece of the last result: the requested counts only grow.
    current: usize,
    over_ns: u64,
}

/// A stage, and the sum of the stages before it.
#[derive(Debug, Clone, Copy)]
struct Piece {
    begin_ns: u64,
    over_ns: u64,
    /// Operations per second at its beginning.
    from: f64,
    /// Change of the rate per second.
    slope: f64,
    /// Operations due before it.
    before: f64,
    /// Operations due by its end.
    after: f64,
}

impl Curve {
    /// Creates a curve of consecutive stages. A rate below 0 counts as 0, and a stage of no duration is ignored.
    pub(super) fn new(stages: &[Stage]) -> Self {
        let mut curve = Self {
            pieces: Vec::with_capacity(stages.len()),
            current: 0,
            over_ns: 0,
        };
        let mut before = 0.0;
        for stage in stages.iter().filter(|stage| !stage.over.is_zero()) {
            let (from, to) = (stage.from.max(0.0), stage.to.max(0.0));
            let seconds = stage.over.as_secs_f64();
            let after = before + (from + to) / 2.0 * seconds;
            let (begin_ns, over_ns) = (curve.over_ns, nanoseconds(stage.over));
            let slope = (to - from) / seconds;
            curve.pieces.push(Piece {
                begin_ns,
                over_ns,
                from,
                slope,
                before,
                after,
            });
            curve.over_ns = begin_ns.saturating_add(over_ns);
            before = after;
        }
        curve
    }

    /// Returns when `count` operations have come due, in nanoseconds from the beginning; `None` from the end on. The
    /// result depends only on `count` and never falls, so that callers that ask for some counts get the same times as
    /// callers that ask for all. Each call must ask for at least the count of the previous call.
    pub(super) fn when(&mut self, count: f64) -> Option<u64> {
        while self.pieces.get(self.current)?.after <= count {
            self.current += 1;
        }
        let at = self.pieces[self.current].when(count);
        (at < self.over_ns).then_some(at)
    }

    /// Returns the nanoseconds at the end of the curve in which `count` operations come due; the whole curve if it has
    /// fewer.
    pub(super) fn last(mut self, count: f64) -> u64 {
        let all = self.pieces.last().map_or(0.0, |piece| piece.after);
        let begin_ns = if all > count {
            self.when(all - count).unwrap_or(self.over_ns)
        } else {
            0
        };
        self.over_ns - begin_ns
    }
}

impl Piece {
    fn when(&self, count: f64) -> u64 {
        let seconds = self.seconds(count - self.before);
        // `as` saturates, and the end of the piece bounds what rounding could add.
        self.begin_ns
            .saturating_add(((seconds * 1e9).round() as u64).min(self.over_ns))
    }

    /// Solves `from * t + slope / 2 * t² = count` for t, without cancellation for a small slope. Each form consists of
    /// operations that are monotonic in `count`, including rounding, so that times never run backwards however close
    /// the counts are.
    fn seconds(&self, count: f64) -> f64 {
        if count <= 0.0 {
            return 0.0;
        }
        if self.slope == 0.0 {
            return count / self.from;
        }
        if self.slope > 0.0 {
            let inverse = 0.5 / count;
            let linear = self.from * inverse;
            return 1.0 / (linear + (linear * linear + self.slope * inverse).sqrt());
        }
        let twice = 2.0 * count;
        twice / (self.from + (self.from * self.from + self.slope * twice).max(0.0).sqrt())
    }
}
