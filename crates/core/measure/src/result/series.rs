//! A series of a result, over the whole run and over one second.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::imported::SeriesSummary;
use crate::tally::{DecodeError, Distribution};

/// A series over the whole run. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesResult {
    /// The driver's name of the series.
    pub name: String,
    /// Values recorded.
    pub count: u64,
    /// Smallest value.
    pub min_ns: u64,
    /// Arithmetic mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 75th percentile; absent in older results.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p75_ns: Option<u64>,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 95th percentile.
    pub p95_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Largest value.
    pub max_ns: u64,
    /// Values outside 1 ns to 1 h, recorded at the bound.
    pub clamped: u64,
    /// The histogram, lossless: HdrHistogram V2 + deflate in base64.
    pub histogram: String,
}

impl SeriesResult {
    /// Computes the figures of a distribution, or `None` for an empty one.
    pub fn from_distribution(name: &str, values: &Distribution) -> Option<Self> {
        let at = |quantile| values.quantile(quantile);
        Some(Self {
            name: name.to_owned(),
            count: values.len(),
            min_ns: at(0.0)?,
            mean_ns: values.histogram().mean(),
            p50_ns: at(0.5)?,
            p75_ns: at(0.75),
            p90_ns: at(0.9)?,
            p95_ns: at(0.95)?,
            p99_ns: at(0.99)?,
            p999_ns: at(0.999)?,
            max_ns: at(1.0)?,
            clamped: values.clamped(),
            histogram: values.encode(),
        })
    }

    /// Decodes the distribution, for other percentiles and for merging.
    ///
    /// # Errors
    /// The stored histogram cannot be decoded.
    pub fn distribution(&self) -> Result<Distribution, DecodeError> {
        Distribution::decode(&self.histogram, self.clamped)
    }
}

/// A series over one second.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecondSeries {
    /// The driver's name of the series.
    pub name: String,
    /// Values recorded.
    pub count: u64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Largest value.
    pub max_ns: u64,
    /// Values outside 1 ns to 1 h, recorded at the bound.
    pub clamped: u64,
    /// The histogram, lossless: HdrHistogram V2 + deflate in base64.
    pub histogram: String,
}

impl SecondSeries {
    /// Computes the figures of a distribution, or `None` for an empty one.
    pub fn from_distribution(name: &str, values: &Distribution) -> Option<Self> {
        Some(Self {
            name: name.to_owned(),
            count: values.len(),
            p50_ns: values.quantile(0.5)?,
            p99_ns: values.quantile(0.99)?,
            max_ns: values.quantile(1.0)?,
            clamped: values.clamped(),
            histogram: values.encode(),
        })
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
