//! Integrity check of a stored result. Its figures depend on each other, so a result that was edited or damaged
//! contradicts itself.

use std::collections::BTreeMap;

use crate::imported::SeriesSummary;
use crate::metrics::STATISTICS;
use crate::result::{RunResult, Second, SeriesResult};
use crate::tally::{DecodeError, MISSED, OK, STARTED, UNFINISHED};
use crate::warning::{Kind, verdict};

/// Tolerance between two ways to compute the same mean, as a share.
const ROUNDING: f64 = 1e-9;

/// A field of a result that contradicts the others.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the result was edited or damaged: `{field}` is {found}, but {expected} according to {by}")]
pub struct Damaged {
    /// The field.
    pub field: String,
    /// The stored value.
    pub found: String,
    /// The expected value.
    pub expected: String,
    /// The source of the expected value.
    pub by: &'static str,
}

impl RunResult {
    /// Compares the figures of a result with each other: sums with their parts, percentiles with their histograms, the
    /// verdict with the warnings.
    ///
    /// # Errors
    /// The first field that contradicts the others.
    pub fn check_intact(&self) -> Result<(), Damaged> {
        let verdict = verdict(&self.warnings);
        differs("verdict", &self.verdict, &verdict, "`warnings`")?;
        // The report of another tool has no parts to compare with.
        if self.imported.is_some() {
            return Ok(());
        }
        self.sums()?;
        self.series
            .iter()
            .chain(&self.lag)
            .try_for_each(SeriesResult::check_intact)
    }

    fn sums(&self) -> Result<(), Damaged> {
        let operations = &self.operations;
        let failed: u64 = self.errors.values().sum();
        differs("operations.failed", &operations.failed, &failed, "`errors`")?;
        // A driver with inconsistent counters already has a warning about it, and a part may end what another began.
        let crosses = self
            .part
            .as_ref()
            .is_some_and(|part| part.shares_operations);
        if !crosses && !self.has_warning(Kind::CountsDisagree) {
            let ended = operations.ok + operations.failed + operations.unfinished;
            let by = "the operations that ended or are unfinished";
            differs("operations.started", &operations.started, &ended, by)?;
        }
        for (name, found) in [
            (STARTED, operations.started),
            (OK, operations.ok),
            (UNFINISHED, operations.unfinished),
            (MISSED, operations.missed),
        ] {
            let field = format!("operations.{name}");
            if let Some(counted) = self.counts.get(name) {
                differs(&field, &found, counted, "`counts`")?;
            }
        }
        // Lost rows are missing from the sums.
        if self.seconds.is_empty() || self.has_warning(Kind::RowsLost) {
            return Ok(());
        }
        let seconds = &self.seconds;
        check_total("errors", &self.errors, seconds, |second| &second.errors)?;
        check_total("counts", &self.counts, seconds, |second| &second.counts)
    }
}

/// Compares each total with the sum over the seconds that have a part of it.
fn check_total(
    field: &str,
    totals: &BTreeMap<String, u64>,
    seconds: &[Second],
    parts: fn(&Second) -> &BTreeMap<String, u64>,
) -> Result<(), Damaged> {
    let mut sums = BTreeMap::<&str, u64>::new();
    for (name, part) in seconds.iter().flat_map(parts) {
        *sums.entry(name).or_default() += part;
    }
    for (name, sum) in sums {
        let found = totals.get(name).unwrap_or(&0);
        differs(&format!("{field}.{name}"), found, &sum, "`seconds`")?;
    }
    Ok(())
}

impl SeriesResult {
    fn check_intact(&self) -> Result<(), Damaged> {
        let field = |name: &str| format!("series.{}.{name}", self.name);
        let by = "its histogram";
        let values = self.distribution().map_err(|error| Damaged {
            field: field("histogram"),
            found: "not readable".to_owned(),
            expected: "readable".to_owned(),
            by: match error {
                DecodeError::Base64 => "its text",
                DecodeError::Histogram(_) => "its bytes",
            },
        })?;
        differs(&field("count"), &self.count, &values.len(), by)?;
        let summary = SeriesSummary::from(self);
        for statistic in &STATISTICS {
            let stored = (statistic.read)(&summary);
            let expected = statistic.quantile.and_then(|share| values.quantile(share));
            if let (Some(stored), Some(expected)) = (stored, expected) {
                let name = format!("{}_ns", statistic.key.replace('.', ""));
                differs(&field(&name), &(stored as u64), &expected, by)?;
            }
        }
        let mean = values.histogram().mean();
        if (self.mean_ns - mean).abs() <= ROUNDING * mean.abs() {
            Ok(())
        } else {
            differs(&field("mean_ns"), &self.mean_ns, &mean, by)
        }
    }
}

fn differs<T: PartialEq + std::fmt::Display>(
    field: &str,
    found: &T,
    expected: &T,
    by: &'static str,
) -> Result<(), Damaged> {
    if found == expected {
        Ok(())
    } else {
        Err(Damaged {
            field: field.to_owned(),
            found: found.to_string(),
            expected: expected.to_string(),
            by,
        })
    }
}
