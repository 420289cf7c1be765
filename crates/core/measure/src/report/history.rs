//! The figures of a run that its history has.

use super::comparison::Comparison;
use super::deciding;
use crate::metrics::Better;
use crate::result::RunResult;
use crate::suite::Suite;
use crate::threshold;
use crate::units::Unit;

/// A figure of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Key of its metric: `response.p50`, `daemon.rss.peak`.
    pub key: String,
    /// Name of its metric within a sentence: `response p50`.
    pub label: String,
    /// The unit of the value.
    pub unit: Unit,
    /// The direction in which a value is better.
    pub better: Better,
    /// The value.
    pub value: f64,
}

/// Returns the figures by which runs are compared: percentiles of the headline series, rates, memory and CPU.
#[must_use]
pub fn deciding_figures(run: RunResult) -> Vec<Figure> {
    let suite = Suite {
        results: vec![run],
        ..Suite::default()
    };
    let comparison = Comparison::new(&suite);
    let metrics = deciding::metrics(&comparison, &comparison.all());
    // Failures are mostly 0, which has no course; a history of them can be asked for.
    let metrics = metrics.iter().filter(|metric| !metric.is_failures());
    let figures = metrics.filter_map(|metric| {
        Some(Figure {
            key: metric.key().to_owned(),
            label: metric.column.head.clone(),
            unit: metric.unit,
            better: metric.column.better,
            value: metric.figure(&suite.results[0])?.value,
        })
    });
    figures.collect()
}

/// Returns the figure with a name that thresholds know, such as `response.p99.9`; `None` if it was not measured.
///
/// # Errors
/// The name is unknown for the driver of the run; the message says which are known.
pub fn figure(run: &RunResult, name: &str) -> Result<Option<Figure>, String> {
    let (value, unit, better) = threshold::figure(name, run)?;
    Ok(value.map(|value| Figure {
        key: name.to_owned(),
        label: name.to_owned(),
        unit,
        better,
        value,
    }))
}
