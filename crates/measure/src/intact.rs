//! Integrity check of a stored result. Its figures depend on each other, so a result that was edited or damaged
//! contradicts itself.

use std::collections::BTreeMap;

use crate::result::{RunResult, Second, SeriesResult};
use crate::tally::{MISSED, OK, STARTED, UNFINISHED};
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
        differs(
            "verdict",
            &self.verdict,
            &verdict(&self.warnings),
            "`warnings`",
        )?;
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
        let has = |kind: Kind| self.warnings.iter().any(|warning| warning.kind == kind);
        // A driver with inconsistent counters already has a warning about it.
        if !has(Kind::CountsDisagree) {
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
        if self.seconds.is_empty() || has(Kind::RowsLost) {
            return Ok(());
        }
        let errors = |row: &Second| row.errors.clone();
        of_rows("errors", &self.errors, &self.seconds, errors)?;
        let counts = |row: &Second| row.counts.clone();
        of_rows("counts", &self.counts, &self.seconds, counts)
    }
}

/// Compares each total with the sum over the rows that have a part of it.
fn of_rows(
    field: &str,
    whole: &BTreeMap<String, u64>,
    seconds: &[Second],
    parts: fn(&Second) -> BTreeMap<String, u64>,
) -> Result<(), Damaged> {
    let mut sums = BTreeMap::<String, u64>::new();
    for (name, part) in seconds.iter().flat_map(parts) {
        *sums.entry(name).or_default() += part;
    }
    for (name, sum) in sums {
        let found = whole.get(&name).copied().unwrap_or(0);
        differs(&format!("{field}.{name}"), &found, &sum, "`seconds`")?;
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
                crate::tally::DecodeError::Base64 => "its text",
                crate::tally::DecodeError::Histogram(_) => "its bytes",
            },
        })?;
        differs(&field("count"), &self.count, &values.len(), by)?;
        for (name, quantile, found) in [
            ("min_ns", 0.0, Some(self.min_ns)),
            ("p50_ns", 0.5, Some(self.p50_ns)),
            ("p75_ns", 0.75, self.p75_ns),
            ("p90_ns", 0.9, Some(self.p90_ns)),
            ("p95_ns", 0.95, Some(self.p95_ns)),
            ("p99_ns", 0.99, Some(self.p99_ns)),
            ("p999_ns", 0.999, Some(self.p999_ns)),
            ("max_ns", 1.0, Some(self.max_ns)),
        ] {
            if let (Some(found), Some(expected)) = (found, values.quantile(quantile)) {
                differs(&field(name), &found, &expected, by)?;
            }
        }
        let mean = values.histogram().mean();
        match (self.mean_ns - mean).abs() <= ROUNDING * mean.abs() {
            true => Ok(()),
            false => differs(&field("mean_ns"), &self.mean_ns, &mean, by),
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
        return Ok(());
    }
    Err(Damaged {
        field: field.to_owned(),
        found: found.to_string(),
        expected: expected.to_string(),
        by,
    })
}
