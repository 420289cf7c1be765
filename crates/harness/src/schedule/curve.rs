//! A rate over time, and its inverse: when the operations due so far reach a number.

use super::{Stage, nanoseconds};

/// A piecewise linear rate.
#[derive(Debug, Clone)]
pub(super) struct Curve {
    pieces: Vec<Piece>,
    /// The piece that the last answer was in: numbers asked for only grow.
    current: usize,
    over_ns: u64,
}

/// A stage, and what lies before it.
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
    /// Stages one after the other. A rate below 0 is 0; a stage that takes no time is none.
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

    /// Operations due by its end; not a whole number, and off by the rounding of floating point.
    pub(super) fn area(&self) -> f64 {
        self.pieces.last().map_or(0.0, |piece| piece.after)
    }

    /// When `count` operations have come due, in nanoseconds from the beginning; `None` from the end on.
    /// A function of `count` alone, and never falling: whoever asks for some of the counts gets the same answers as
    /// who asks for all. Each call asks for as much as the call before it, or more.
    pub(super) fn when(&mut self, count: f64) -> Option<u64> {
        while self.pieces.get(self.current)?.after <= count {
            self.current += 1;
        }
        let at = self.pieces[self.current].when(count);
        (at < self.over_ns).then_some(at)
    }

    /// How many whole counts from 0 on have their time before the end.
    pub(super) fn whole_counts(&self) -> u64 {
        // The area may be off by one either way: ask `when`, which decides.
        let mut counts = (self.area().ceil() as u64).saturating_add(1);
        while counts > 0 && self.clone().when((counts - 1) as f64).is_none() {
            counts -= 1;
        }
        counts
    }
}

impl Piece {
    fn when(&self, count: f64) -> u64 {
        let seconds = self.seconds(count - self.before);
        // `as` saturates, and the end of the piece bounds what rounding could add.
        self.begin_ns
            .saturating_add(((seconds * 1e9).round() as u64).min(self.over_ns))
    }

    /// Solves `from * t + slope / 2 * t² = count` for t, without cancellation where the slope is small.
    /// Each form is made of operations that never fall (or never rise) with `count`, rounding included, so that the
    /// times never run backwards however close the counts are.
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
