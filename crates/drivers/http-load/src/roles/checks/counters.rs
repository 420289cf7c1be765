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
}

impl<'a> CheckCounters<'a> {
    /// Creates the counters; `None` if there are no checks.
    pub(crate) fn new(checks: &'a Checks) -> Option<Self> {
        (!checks.all.is_empty()).then(|| Self {
            each: vec![[0; 2]; checks.all.len()],
            checks,
        })
    }

    /// Evaluates the checks against the response of an operation that counts. `ok` is true if the response succeeded
    /// otherwise.
    pub(crate) fn record(&mut self, record: &Recorder, answer: ResponseView<'_>, ok: bool) {
        let mut all = true;
        let each = &mut self.each;
        self.checks.evaluate(answer, |index, passed| {
            let sum = [count::CHECKS_FAILED, count::CHECKS_PASSED][usize::from(passed)];
            record.count(sum, 1);
            each[index][usize::from(!passed)] += 1;
            all &= passed;
        });
        record.add(count::FAILED_A_CHECK, u64::from(ok && !all));
    }

    /// Records the counts of each check and resets them. Called once per loop iteration: the names of checks are known
    /// only in the run, and looking them up is expensive.
    pub(crate) fn flush(&mut self, record: &Recorder) {
        let each = self.each.iter_mut().flatten();
        for (number, name) in each.zip(self.checks.names.iter().flatten()) {
            if *number > 0 {
                record.count_by_name(name, std::mem::take(number));
            }
        }
    }
}
