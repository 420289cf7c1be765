//! Evaluates the runs of a calibration: the driver's own times and rate, and its error against a peer that answers when
//! planned.

use std::fmt;

use measure::calibration::{Calibration, headline};
use measure::imported::SeriesSummary;
use measure::metrics;
use measure::result::RunResult;
use measure::units::{self, Unit};
use measure::warning::{Kind, Severity, Verdict};
use serde::Deserialize;

use crate::project::listed;

/// The level at a low rate, and the one of a closed loop. In the others, the peer answers when planned.
const FLOOR: &str = "floor";
const CEILING: &str = "ceiling";
/// Warnings about a driver that is full. It sees ends of operations late, so that Little's law does not hold.
const OF_A_FULL_DRIVER: [Kind; 5] = [
    Kind::Audit,
    Kind::GeneratorCpuBound,
    Kind::GeneratorLate,
    Kind::Missed,
    Kind::SharedCpus,
];
/// Error beyond the floor that is accepted: the larger of a share of the time and a constant.
const ERROR_SHARE: f64 = 0.01;
const ERROR_NS: f64 = 50_000.0;

/// A run of a calibration.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) name: String,
    pub(super) result: RunResult,
    /// The peer's own record; absent if it kept none.
    pub(super) held: Option<Held>,
}

/// The times for which a peer held its requests, by its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct Held {
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
}

impl Held {
    /// Reads the last record in the log of a peer: `{"held":{"count":5000,"p50_ns":…}}`.
    pub(super) fn in_log(log: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Line {
            held: Held,
        }
        let lines = String::from_utf8_lossy(log);
        let mut lines = lines.lines().rev();
        lines.find_map(|line| Some(serde_json::from_str::<Line>(line).ok()?.held))
    }

    /// Returns the statistics that are compared.
    fn statistics(&self) -> [(&'static str, u64); 3] {
        [
            ("p50", self.p50_ns),
            ("p90", self.p90_ns),
            ("p99", self.p99_ns),
        ]
    }
}

/// A time that is known, and the driver's measurement of it. All are in nanoseconds.
#[derive(Debug, PartialEq)]
struct Golden {
    level: String,
    statistic: &'static str,
    held: f64,
    floor: f64,
    measured: f64,
}

impl Golden {
    /// Returns the distance of the measured time from the range between the known one and the same with the floor.
    fn error(&self) -> f64 {
        let most = self.held + self.floor;
        self.measured - self.measured.clamp(self.held, most)
    }

    fn is_right(&self) -> bool {
        self.error().abs() <= (self.held * ERROR_SHARE).max(ERROR_NS)
    }
}

impl fmt::Display for Golden {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |ns: f64| Unit::Nanoseconds.short(ns);
        let [held, measured] = [self.held, self.measured].map(short);
        let key = self.statistic;
        write!(formatter, "{key} held {held}, measured {measured}: ")?;
        let error = self.error();
        if error == 0.0 {
            return write!(formatter, "within the floor");
        }
        let side = if error < 0.0 { "below" } else { "above" };
        let (error, pct) = (short(error.abs()), 100.0 * error.abs() / self.held);
        let mark = if self.is_right() { "" } else { ": WRONG" };
        write!(formatter, "{error} {side} it ({pct:.1} %){mark}")
    }
}

/// The outcome of a calibration.
#[derive(Debug)]
pub(super) struct Evaluation<'a> {
    pub(super) calibration: Calibration,
    floor: &'a RunResult,
    series: String,
    golden: Vec<Golden>,
    /// Verdicts on runs that are not VALID, each with its level and reasons.
    warnings: Vec<String>,
}

impl<'a> Evaluation<'a> {
    /// Evaluates runs; `None` without one at the low rate that measured a time.
    pub(super) fn new(levels: &'a [Level]) -> Option<Self> {
        let at = |name| levels.iter().find(|level| level.name == name);
        let floor = &at(FLOOR)?.result;
        let series = headline(floor)?.to_owned();
        let calibration = Calibration::from_runs(floor, at(CEILING).map(|level| &level.result));
        let own = calibration.floor(&series)?;
        let mut golden = Vec::new();
        let mut warnings: Vec<String> = levels.iter().filter_map(verdict).collect();
        for level in levels
            .iter()
            .filter(|level| ![FLOOR, CEILING].contains(&&*level.name))
        {
            match (level.held, level.result.summary(&series)) {
                (Some(held), Some(measured)) => {
                    golden.extend(compare(level, &held, &measured, own))
                }
                (None, _) => warnings.push(format!(
                    "{}: the peer kept no record of its delays",
                    level.name
                )),
                (_, None) => warnings.push(format!("{}: no {series} was measured", level.name)),
            }
        }
        Some(Self {
            floor,
            series,
            golden,
            warnings,
            calibration,
        })
    }

    /// Returns the run at the low rate if its times are the driver's.
    ///
    /// # Errors
    /// The reason why they are not.
    pub(super) fn usable(&self) -> Result<&'a RunResult, String> {
        match self.floor.verdict {
            Verdict::Invalid => Err(format!(
                "the run `{FLOOR}` is INVALID: repeat it when nothing else runs"
            )),
            _ => Ok(self.floor),
        }
    }

    /// Returns true if no run is suspect and all known times were measured.
    pub(super) fn is_sound(&self) -> bool {
        self.warnings.is_empty() && self.golden.iter().all(Golden::is_right)
    }
}

/// Compares the percentiles of a run with the peer's record.
fn compare<'a>(
    level: &'a Level,
    held: &Held,
    measured: &'a SeriesSummary,
    own: &'a SeriesSummary,
) -> impl Iterator<Item = Golden> + use<'a> {
    held.statistics()
        .into_iter()
        .filter_map(move |(key, held)| {
            let read = metrics::statistic_by_key(key)?.read;
            Some(Golden {
                level: level.name.clone(),
                statistic: key,
                held: held as f64,
                floor: read(own)?,
                measured: read(measured)?,
            })
        })
}

/// Returns the verdict on a run with its reasons, unless it is VALID. At the highest rate, the driver is meant to be full.
fn verdict(level: &Level) -> Option<String> {
    let is_meant = |kind| level.name == CEILING && OF_A_FULL_DRIVER.contains(&kind);
    let reasons = level.result.warnings.iter();
    let reasons = reasons
        .filter(|warning| warning.severity > Severity::Note && !is_meant(warning.kind))
        .map(|warning| format!("{:?}", warning.kind));
    let reasons: Vec<String> = reasons.collect();
    let verdict = level.result.verdict;
    (!reasons.is_empty()).then(|| format!("{}: {verdict}: {}", level.name, listed(reasons)))
}

impl fmt::Display for Evaluation<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |ns: f64| Unit::Nanoseconds.short(ns);
        writeln!(formatter, "{}", self.floor.driver)?;
        let own = self.calibration.floor(&self.series);
        let figure = |key| {
            let value = (metrics::statistic_by_key(key)?.read)(own?)?;
            Some(format!("{key} {}", short(value)))
        };
        let figures: Vec<String> = ["p50", "p99"].into_iter().filter_map(figure).collect();
        writeln!(
            formatter,
            "  floor      {} {}",
            self.series,
            figures.join(", ")
        )?;
        if let Some(ceiling) = self.calibration.ceiling {
            let per_s = units::whole(ceiling.per_s);
            let cpu = self.calibration.cpu_each_ns.map_or(String::new(), |ns| {
                format!(", {} of the driver's CPU time each", short(ns))
            });
            writeln!(
                formatter,
                "  ceiling    {per_s}/s ({}){cpu}",
                ceiling.limit.describe()
            )?;
        }
        for golden in &self.golden {
            writeln!(formatter, "  {:<10} {golden}", golden.level)?;
        }
        for warning in &self.warnings {
            writeln!(formatter, "  warning    {warning}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden(held_ms: f64, floor_ms: f64, measured_ms: f64) -> Golden {
        let [held, floor, measured] = [held_ms, floor_ms, measured_ms].map(|ms| ms * 1e6);
        Golden {
            level: "constant".to_owned(),
            statistic: "p50",
            held,
            floor,
            measured,
        }
    }

    #[test]
    fn an_error_counts_only_beyond_the_record_of_the_peer_and_the_floor() {
        let error = |measured| golden(5.0, 0.1, measured).error().round() as i64;
        assert_eq!(error(5.0), 0);
        assert_eq!(error(5.1), 0);
        assert_eq!(error(5.149), 49_000);
        assert_eq!(error(4.96), -40_000);
        let is_right = |held, measured| golden(held, 0.1, measured).is_right();
        assert!(is_right(5.0, 5.149) && !is_right(5.0, 5.151), "50 µs");
        assert!(is_right(5.0, 4.951) && !is_right(5.0, 4.949));
        assert!(is_right(50.0, 50.59) && !is_right(50.0, 50.61), "1 %");
    }

    #[test]
    fn the_last_record_in_the_log_of_a_peer_counts() {
        let log = b"listening\n{\"held\":{\"count\":1,\"p50_ns\":1,\"p90_ns\":1,\"p99_ns\":1,\"max_ns\":1}}\n\
            {\"held\":{\"count\":9,\"p50_ns\":2,\"p90_ns\":3,\"p99_ns\":4,\"max_ns\":5}}\nbye\n";
        let held = Held::in_log(log).unwrap();
        assert_eq!(held.statistics(), [("p50", 2), ("p90", 3), ("p99", 4)]);
        assert_eq!(Held::in_log(b"listening\n{}\n"), None);
    }
}
