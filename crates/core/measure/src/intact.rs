//! Integrity check of a stored result. Its figures depend on each other, so a result that was edited or damaged
//! contradicts itself.

use std::collections::BTreeMap;

use crate::audit::{self, AuditRow};
use crate::imported::SeriesSummary;
use crate::metrics::STATISTICS;
use crate::result::{RunResult, Second, SeriesResult};
use crate::tally::{DecodeError, MISSED, OK, STARTED, UNFINISHED, WARMUP_FAILED, warmup_failures};
use crate::warning::{Kind, Severity, verdict};

mod throughput;
mod usage;

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
    /// Compares the figures of a result with each other: sums with their parts, percentiles with their histograms, rates
    /// with the seconds, resource use with its samples, the verdict with the warnings, and the warnings with those that
    /// the figures demand.
    ///
    /// # Errors
    /// The first field that contradicts the others.
    pub fn check_intact(&self) -> Result<(), Damaged> {
        let verdict = verdict(&self.warnings);
        differs("verdict", &self.verdict, &verdict, "`warnings`")?;
        // The report of another tool has no parts to compare with.
        if self.imported.is_some() {
            return self.has_at_least(Kind::Imported, Severity::Suspect, "`imported`");
        }
        self.sums()?;
        self.series
            .iter()
            .chain(&self.lag)
            .try_for_each(SeriesResult::check_intact)?;
        throughput::check(self)?;
        usage::check(self)?;
        self.has_demanded()
    }

    /// Checks that a result has the warnings above a note that its figures demand.
    fn has_demanded(&self) -> Result<(), Damaged> {
        for (by, warning) in self.demanded() {
            self.has_at_least(warning.kind, warning.severity, by)?;
        }
        let failed = audit::comparisons(self).into_iter();
        let mut failed = failed.filter(|row| !row.consistent);
        let unreported = |row: &AuditRow| {
            let kinds = [row.kind(), Kind::Audit].map(|kind| self.stored_severity(kind));
            kinds.into_iter().flatten().max() < Some(Severity::Suspect)
        };
        match failed.find(unreported) {
            Some(row) => self.has_at_least(row.kind(), Severity::Suspect, "the audit"),
            None => Ok(()),
        }
    }

    fn has_at_least(
        &self,
        kind: Kind,
        severity: Severity,
        by: &'static str,
    ) -> Result<(), Damaged> {
        let stored = self.stored_severity(kind);
        if severity == Severity::Note || stored >= Some(severity) {
            return Ok(());
        }
        let stored = stored.map_or("absent", Severity::name);
        let field = format!("warnings.{kind:?}");
        differs(&field, &stored, &severity.name(), by)
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
        let of_warmup: u64 = warmup_failures(&self.counts).map(|(_, count)| count).sum();
        // Older results do not have the kinds.
        if of_warmup > 0 {
            let failed = self.count(WARMUP_FAILED);
            let by = "`counts.warmup_failed.…`";
            differs("counts.warmup_failed", &failed, &of_warmup, by)?;
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
        if self.part.is_none()
            && self.seconds.is_empty()
            && self.throughput.is_some()
            && operations.started > 0
            && !self.has_warning(Kind::RowsLost)
        {
            return differs("seconds", &0, &1, "`operations`");
        }
        // Lost rows are missing from the sums.
        if self.seconds.is_empty() || self.has_warning(Kind::RowsLost) {
            return Ok(());
        }
        let seconds = &self.seconds;
        let peaks = seconds.iter().map(|second| second.active_peak);
        let peak = peaks.max().unwrap_or(0);
        differs(
            "operations.peak_active",
            &operations.peak_active,
            &peak,
            "`seconds`",
        )?;
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

fn at_most(field: &str, found: f64, most: f64, by: &'static str) -> Result<(), Damaged> {
    differs(field, &found, &found.min(most), by)
}

fn at_least(field: &str, found: f64, least: f64, by: &'static str) -> Result<(), Damaged> {
    differs(field, &found, &found.max(least), by)
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
