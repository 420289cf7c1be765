//! Whether a result that was read is the one that was written: its figures follow from each other, so that one that was
//! edited or damaged no longer fits the rest.

use std::collections::BTreeMap;

use crate::result::{RunResult, Second, SeriesResult};
use crate::warning::{Kind, verdict};

/// How far two ways to sum up one mean may lie from each other, as a share.
const ROUNDING: f64 = 1e-9;

/// A field of a result that does not follow from the others.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("edited or damaged: `{field}` is {found}, and {expected} by {by}")]
pub struct Damaged {
    /// The field.
    pub field: String,
    /// What stands there.
    pub found: String,
    /// What must stand there.
    pub expected: String,
    /// What says so.
    pub by: &'static str,
}

impl RunResult {
    /// Holds the figures of a result against each other: sums against their parts, percentiles against the histograms
    /// that they were read from, the verdict against the warnings.
    ///
    /// # Errors
    /// The first field that does not fit.
    pub fn check_intact(&self) -> Result<(), Damaged> {
        differs(
            "verdict",
            &self.verdict,
            &verdict(&self.warnings),
            "`warnings`",
        )?;
        // What another tool did not report is not there to be held against anything.
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
        // A driver that lost count says so itself.
        if !has(Kind::CountsDisagree) {
            let ended = operations.ok + operations.failed + operations.unfinished;
            let by = "the operations that ended or are unfinished";
            differs("operations.started", &operations.started, &ended, by)?;
        }
        for (name, found) in [
            ("started", operations.started),
            ("ok", operations.ok),
            ("unfinished", operations.unfinished),
            ("missed", operations.missed),
        ] {
            let field = format!("operations.{name}");
            if let Some(counted) = self.counts.get(name) {
                differs(&field, &found, counted, "`counts`")?;
            }
        }
        // Rows that were lost are missing in the sums.
        if self.seconds.is_empty() || has(Kind::RowsLost) {
            return Ok(());
        }
        let errors = |row: &Second| row.errors.clone();
        of_rows("errors", &self.errors, &self.seconds, errors)?;
        let counts = |row: &Second| row.counts.clone();
        of_rows("counts", &self.counts, &self.seconds, counts)
    }
}

/// Compares each sum with that of the rows, where a row has a part of it.
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
            expected: "whole".to_owned(),
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
