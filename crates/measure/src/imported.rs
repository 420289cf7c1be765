//! The report of another tool about its run: figures without histograms.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::result::{RunResult, SeriesResult};

/// Marks an imported result: its driver is another tool, whose output is the only source.
///
/// Its `series`, `seconds` and `usage` are empty. `started_at` and the machine's facts are empty unless the tool
/// reported them. A 0 in `operations.unfinished`, `missed` or `peak_active` means "not known".
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Imported {
    /// Definition of its times: their start, and the operations that they cover.
    pub times: String,
    /// The series as the tool reported them.
    pub series: Vec<SeriesSummary>,
}

/// The figures of a series, in nanoseconds. A figure that was not reported is absent; none is computed from the others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct SeriesSummary {
    /// This project's name of the series.
    pub name: String,
    /// Values recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Smallest value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_ns: Option<u64>,
    /// Arithmetic mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_ns: Option<f64>,
    /// Median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<u64>,
    /// 75th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p75_ns: Option<u64>,
    /// 90th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p90_ns: Option<u64>,
    /// 95th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p95_ns: Option<u64>,
    /// 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p999_ns: Option<u64>,
    /// Largest value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<u64>,
}

impl SeriesSummary {
    /// Returns true if only the name is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let name = self.name.clone();
        *self
            == Self {
                name,
                ..Self::default()
            }
    }
}

impl From<&SeriesResult> for SeriesSummary {
    fn from(series: &SeriesResult) -> Self {
        Self {
            name: series.name.clone(),
            count: Some(series.count),
            min_ns: Some(series.min_ns),
            mean_ns: Some(series.mean_ns),
            p50_ns: Some(series.p50_ns),
            p75_ns: series.p75_ns,
            p90_ns: Some(series.p90_ns),
            p95_ns: Some(series.p95_ns),
            p99_ns: Some(series.p99_ns),
            p999_ns: Some(series.p999_ns),
            max_ns: Some(series.max_ns),
        }
    }
}

impl RunResult {
    /// Returns the figures of all series, measured or imported, in the driver's order.
    pub fn summaries(&self) -> impl Iterator<Item = SeriesSummary> {
        let reported = self.imported.iter().flat_map(|imported| &imported.series);
        let measured = self.series.iter().map(SeriesSummary::from);
        measured.chain(reported.cloned())
    }

    /// Returns the figures of one series, measured or imported.
    #[must_use]
    pub fn summary(&self, name: &str) -> Option<SeriesSummary> {
        self.summaries().find(|series| series.name == name)
    }

    /// Returns the names of all series, measured or imported.
    pub fn series_names(&self) -> impl Iterator<Item = &str> {
        let reported = self.imported.iter().flat_map(|imported| &imported.series);
        let measured = self.series.iter().map(|series| series.name.as_str());
        measured.chain(reported.map(|series| series.name.as_str()))
    }

    /// Returns `unfinished`, `missed` or `peak_active`, or `None` for a 0 of another tool, which means "not known".
    #[must_use]
    pub fn if_known(&self, count: u64) -> Option<u64> {
        (count > 0 || self.imported.is_none()).then_some(count)
    }
}
