//! The calibration of a driver: its times and its rate on a machine, measured against a peer that does almost nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::imported::SeriesSummary;
use crate::metrics;
use crate::result::RunResult;
use crate::spec::SeriesRole;
use crate::units::{self, Unit};
use crate::warning::{Kind, Verdict, Warning};

/// A time below this multiple of the floor is mostly the driver's and the machine's.
const NEAR_FLOOR: f64 = 2.0;
/// A rate above this share of the ceiling is limited by the driver too.
const NEAR_CEILING: f64 = 0.5;
/// CPU use of a thread from which on its side is full, percent of a core.
const FULL_PCT: f64 = 85.0;
/// The statistics that are compared with the floor.
const COMPARED: [&str; 2] = ["p50", "p99"];

/// The times and the rate that a driver reaches by itself on this machine, in its default mode.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Calibration {
    /// Start of its first run, RFC 3339 in UTC.
    pub measured_at: String,
    /// The verdict on its times.
    pub verdict: Verdict,
    /// The series at a low rate, in the driver's order: the time of the driver, the peer and the machine.
    pub floor: Vec<SeriesSummary>,
    /// The highest rate; absent if it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<Ceiling>,
    /// CPU time of the driver for an operation at the highest rate, nanoseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_each_ns: Option<f64>,
}

/// The highest rate of a driver: of a closed loop against the peer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ceiling {
    /// Completed operations per second.
    pub per_s: f64,
    /// The side that was full.
    pub limit: Limit,
}

/// The side that limits a closed loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// A worker of the driver used a whole core.
    Driver,
    /// A thread of the peer did, and no worker: the driver may reach more.
    Peer,
    /// Neither did: the machine, or too few clients.
    Neither,
}

impl Limit {
    /// Returns the side in words.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Driver => "driver full",
            Self::Peer => "peer full: the driver may reach more",
            Self::Neither => "neither side full",
        }
    }
}

impl Calibration {
    /// Derives a calibration from a run at a low rate, and from one of a closed loop.
    pub fn from_runs(floor: &RunResult, ceiling: Option<&RunResult>) -> Self {
        let cpu_each = |run: &RunResult| metrics::value("driver.cpu.each", run);
        Self {
            measured_at: floor.started_at.clone(),
            verdict: floor.verdict,
            floor: floor.summaries().collect(),
            ceiling: ceiling.and_then(|run| {
                Some(Ceiling {
                    per_s: metrics::value("rate", run)?,
                    limit: limit(run),
                })
            }),
            cpu_each_ns: ceiling.and_then(cpu_each),
        }
    }

    /// Returns the series of this name at the low rate.
    pub fn floor(&self, series: &str) -> Option<&SeriesSummary> {
        self.floor.iter().find(|floor| floor.name == series)
    }
}

/// Returns the side that was full in a run of a closed loop.
fn limit(run: &RunResult) -> Limit {
    let is_full = |pct: Option<f64>| pct.is_some_and(|pct| pct > FULL_PCT);
    let daemon = run.usage.daemon.as_ref();
    if is_full(run.audit_inputs.worker_cpu_pct) {
        Limit::Driver
    } else if is_full(daemon.and_then(|daemon| daemon.busiest_thread_pct)) {
        Limit::Peer
    } else {
        Limit::Neither
    }
}

/// Returns the series that is shown if only one is: the headline, or else the first main series that was measured.
pub fn headline(run: &RunResult) -> Option<&str> {
    let of_role = |role| {
        let mut names = run.series_names();
        names.find(|name| run.spec.series(name).is_some_and(|spec| spec.role == role))
    };
    of_role(SeriesRole::Headline).or_else(|| of_role(SeriesRole::Main))
}

impl Warning {
    /// Returns notes about the times that are within twice the driver's own, and about a rate above half of its highest.
    /// Series of detail are left out.
    #[must_use]
    pub fn of_calibration(run: &RunResult) -> Vec<Self> {
        let Some(calibration) = &run.calibration else {
            return Vec::new();
        };
        let shown = |series: &&SeriesSummary| {
            let spec = run.spec.series(&series.name);
            spec.is_some_and(|spec| spec.role != SeriesRole::Detail)
        };
        let mut near = Vec::new();
        for series in run.series.iter().map(SeriesSummary::from) {
            let Some(floor) = calibration.floor(&series.name).filter(shown) else {
                continue;
            };
            for statistic in COMPARED.into_iter().filter_map(metrics::statistic_by_key) {
                let values = (statistic.read)(&series).zip((statistic.read)(floor));
                let Some((value, floor)) =
                    values.filter(|(value, floor)| *value <= NEAR_FLOOR * floor)
                else {
                    continue;
                };
                let [value, floor] = [value, floor].map(|ns| Unit::Nanoseconds.short(ns));
                near.push(format!(
                    "{} {} {value} (floor {floor})",
                    series.name, statistic.key
                ));
            }
        }
        let floor = (!near.is_empty()).then(|| {
            Kind::NearFloor.note(
                format!("within 2 × of the floor: {}: mostly driver and machine", near.join(", ")),
                "two daemons that are both this fast differ by more than their times say; `drover calibrate` measured the floor",
            )
        });
        floor
            .into_iter()
            .chain(near_ceiling(run, calibration))
            .collect()
    }
}

fn near_ceiling(run: &RunResult, calibration: &Calibration) -> Option<Warning> {
    let ceiling = calibration.ceiling?;
    let rate = metrics::value("rate", run)?;
    (rate > NEAR_CEILING * ceiling.per_s).then(|| {
        let [rate, most] = [rate, ceiling.per_s].map(units::per_second);
        Kind::NearCeiling.note(
            format!("the rate of {rate} is above half of the ceiling of {most} ({})", ceiling.limit.describe()),
            "the driver's own CPU time limits the rate too: add --threads or --processes, or compare CPU time per operation",
        )
    })
}
