//! Counts of passed and failed checks.

use load::recorder::Recorder;

use super::{Checks, ResponseView};
use crate::outcome::count;

/// The checks of one worker, with their counts since they were last recorded.
#[derive(Debug)]
pub(crate) struct CheckCounters<'a> {
    checks: &'a Checks,
    /// Passes and failures of each check.
    each: Vec<[u64; 2]>,
    /// Successful responses that failed a check.
    failed_a_check: u64,
}

impl<'a> CheckCounters<'a> {
    /// Creates the counters; `None` if there are no checks.
    pub(crate) fn new(checks: &'a Checks) -> Option<Self> {
        (!checks.all.is_empty()).then(|| Self {
            each: vec![[0; 2]; checks.all.len()],
            checks,
            failed_a_check: 0,
        })
    }

    /// Evaluates the checks against the response of an operation that counts. `ok` is true if the response succeeded
    /// otherwise.
    pub(crate) fn record(&mut self, answer: ResponseView<'_>, ok: bool) {
        let mut all = true;
        let each = &mut self.each;
        self.checks.evaluate(answer, |index, passed| {
            each[index][usize::from(!passed)] += 1;
            all &= passed;
        });
        self.failed_a_check += u64::from(ok && !all);
    }

    /// Records the counts and resets them. Called once per loop iteration, since counting by name costs more than
    /// adding.
    pub(crate) fn flush(&mut self, record: &Recorder) {
        let mut sums = [0; 2];
        for (of_it, names) in self.each.iter_mut().zip(&self.checks.names) {
            for (index, number) in std::mem::take(of_it).into_iter().enumerate() {
                sums[index] += number;
                if number > 0 {
                    record.count(names[index], number);
                }
            }
        }
        let failed = std::mem::take(&mut self.failed_a_check);
        let counts = [
            (count::CHECKS_PASSED, sums[0]),
            (count::CHECKS_FAILED, sums[1]),
            (count::FAILED_A_CHECK, failed),
        ];
        for (name, number) in counts.into_iter().filter(|(_, number)| *number > 0) {
            record.count(name, number);
        }
    }
}
