//! The report of another tool about its run: figures without histograms.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    pub fn is_empty(&self) -> bool {
        let name = self.name.clone();
        *self
            == Self {
                name,
                ..Self::default()
            }
    }
}
