//! What a complete answer is worth: the same for every engine.

use harness::recorder::Recorder;

use crate::checks::{Checks, Seen};
use crate::driver::HttpLoad;
use crate::outcome::{self, count};

/// A complete answer, as the checks see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Complete<'a> {
    pub(crate) status: u16,
    /// Bytes of content, whether or not they were kept.
    pub(crate) length: u64,
    /// From the first byte sent to the last byte of the answer.
    pub(crate) service_ns: u64,
    /// What was kept of it; nothing where no check asks for that.
    pub(crate) seen: Option<&'a Seen>,
}

impl HttpLoad {
    /// The kind of failure that a complete answer is; `None` if it is as it should be. Checks have no part in it.
    /// `sum` is the checksum of a content that is compared.
    pub(crate) fn outcome(
        &self,
        status: u16,
        length: u64,
        sum: Option<u32>,
    ) -> Option<&'static str> {
        if !self.settings.expects(status) {
            Some(outcome::STATUS)
        } else if !self.is_as_long_as_others(length) {
            Some(outcome::LENGTH)
        } else if sum.is_some_and(|sum| !self.is_expected(sum)) {
            Some(outcome::BODY)
        } else {
            None
        }
    }
}

/// The checks of one worker, and what they came to since that was last handed over.
#[derive(Debug)]
pub(crate) struct Judge<'a> {
    checks: &'a Checks,
    /// Passes and failures of each.
    each: Vec<[u64; 2]>,
    /// Answers that were as they should be but for a check.
    failed_a_check: u64,
}

impl<'a> Judge<'a> {
    /// `None` where there are no checks.
    pub(crate) fn new(checks: &'a Checks) -> Option<Self> {
        (!checks.is_empty()).then(|| Self {
            each: vec![[0; 2]; checks.len()],
            checks,
            failed_a_check: 0,
        })
    }

    /// Holds the checks against an answer to an operation that counts; `ok` is whether it is as it should be otherwise.
    pub(crate) fn judge(&mut self, answer: Complete<'_>, ok: bool) {
        let mut all = true;
        let each = &mut self.each;
        self.checks.hold(answer, |place, passed| {
            each[place][usize::from(!passed)] += 1;
            all &= passed;
        });
        self.failed_a_check += u64::from(ok && !all);
    }

    /// Counts it all, and begins anew. Once a turn of a loop, since counting by name costs more than adding.
    pub(crate) fn hand_over(&mut self, record: &Recorder) {
        let mut sums = [0; 2];
        for (of_it, names) in self.each.iter_mut().zip(self.checks.names()) {
            for (place, number) in std::mem::take(of_it).into_iter().enumerate() {
                sums[place] += number;
                if number > 0 {
                    record.count(names[place], number);
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
