//! Import of other load generators' output as results. All functions are pure functions of text.
//!
//! Nothing is invented: a figure that a tool did not report is absent, and known pitfalls of its report become
//! warnings. No histogram is made from percentiles.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use measure::imported::Imported;
use measure::machine::Machine;
use measure::result::{DaemonInfo, Operations, RunResult, SCHEMA, ThresholdResult};
use measure::spec::{Spec, Text};
use measure::units;
use measure::warning::{EndedBy, Warning, verdict};

mod k6;
mod oha;
mod spec;
mod times;
mod wrk;

use spec::SPEC;
use times::Times;

/// A load generator whose output can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// wrk and wrk2: their printed output.
    Wrk,
    /// k6: the file of `--summary-export`, with or without `--new-machine-readable-summary`, or the data passed to
    /// `handleSummary`.
    K6,
    /// oha: the JSON of `--output-format json`, in older versions `--json`.
    Oha,
}

impl Tool {
    /// All tools.
    pub const ALL: [Self; 3] = [Self::Wrk, Self::K6, Self::Oha];

    fn read(self, text: &str) -> Result<ToolReport, String> {
        match self {
            Self::Wrk => wrk::read(text),
            Self::K6 => k6::read(&json(text)?),
            Self::Oha => oha::read(&json(text)?),
        }
    }

    /// Detects the tool from its output.
    fn detect(text: &str) -> Option<Self> {
        if wrk::is_output(text) {
            return Some(Self::Wrk);
        }
        // The beginning of a truncated text still identifies the tool.
        let has = |key: &str| text.contains(&format!("\"{key}\""));
        let is_json = text.trim_start().starts_with('{');
        let is_oha = has("successRate") || has("statusCodeDistribution");
        match (is_json, is_oha, has("root_group") || has("metrics")) {
            (true, true, _) => Some(Self::Oha),
            (true, false, true) => Some(Self::K6),
            _ => None,
        }
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Wrk => "wrk",
            Self::K6 => "k6",
            Self::Oha => "oha",
        })
    }
}

impl FromStr for Tool {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|tool| tool.to_string() == name);
        known.ok_or_else(|| "unknown tool: choose one of wrk, k6, oha".to_owned())
    }
}

/// The reason why a text cannot be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text does not look like the output of any supported tool.
    #[error(
        "not the output of wrk, k6 or oha: expected the text printed by wrk, the JSON of `k6 run --summary-export FILE` or \
         the output of `oha --output-format json`"
    )]
    Foreign,
    /// The text is not complete output of the tool.
    #[error("not the complete output of {tool}: {problem}")]
    Malformed {
        /// The tool.
        tool: Tool,
        /// The problem, and the expected text.
        problem: String,
    },
}

/// Facts about a run that a tool's output does not contain, or not always.
#[derive(Debug, Clone, Default)]
pub struct Subject {
    /// Name of the daemon.
    pub name: String,
    /// Size of the load; if absent, the connections or users that the tool reports.
    pub level: Option<String>,
}

/// Imports the output of `tool`, or of the detected tool if `tool` is absent.
///
/// # Errors
/// The text is not complete output of such a tool.
pub fn import(text: &str, tool: Option<Tool>, subject: &Subject) -> Result<RunResult, Error> {
    let tool = tool.or_else(|| Tool::detect(text)).ok_or(Error::Foreign)?;
    let mut run = tool
        .read(text)
        .map_err(|problem| Error::Malformed { tool, problem })?;
    run.judge();
    Ok(run.result(subject, hash(text)))
}

/// The report of a tool.
#[derive(Debug, Default)]
struct ToolReport {
    driver: &'static str,
    version: String,
    started_at: String,
    wall_s: f64,
    plan: BTreeMap<&'static str, serde_json::Value>,
    /// The tool's task as far as the output shows it: `4 threads and 100 connections for 10s`.
    sentence: String,
    level: String,
    target: Option<String>,
    threads: u64,
    ok: u64,
    errors: BTreeMap<String, u64>,
    unfinished: u64,
    missed: u64,
    counts: BTreeMap<String, u64>,
    times: String,
    series: Vec<Times>,
    rates: Vec<Rate>,
    /// The figures that can't be true, with the reason.
    left_out: Vec<String>,
    thresholds: Vec<ThresholdResult>,
    /// Known pitfalls of this report.
    pitfalls: Vec<String>,
}

/// A rate that a tool states. Ours are calculated from the count and the length of the run.
#[derive(Debug)]
struct Rate {
    name: &'static str,
    stated: f64,
    count: u64,
}

impl ToolReport {
    /// Returns the number of requests, with the failed and unfinished ones.
    fn started(&self) -> u64 {
        self.ok + self.errors.values().sum::<u64>() + self.unfinished
    }

    /// Adds a counter, or names the reported number if it is not a count.
    fn count(&mut self, name: &str, reported: Option<f64>) {
        match reported.map(|number| to_count(number).ok_or(number)) {
            Some(Ok(count)) => {
                self.counts.insert(name.to_owned(), count);
            }
            Some(Err(number)) => self
                .left_out
                .push(format!("`{name}`: {number} is not a count")),
            None => {}
        }
    }

    /// Leaves out the figures that contradict others.
    fn judge(&mut self) {
        let requests = self.started();
        for series in &mut self.series {
            let left_out = series.judge(self.wall_s);
            self.left_out.extend(left_out);
            let count = series.count.take_if(|count| *count > requests);
            self.left_out.extend(count.map(|count| {
                format!(
                    "count of `{}`: {count} values exceed {requests} requests",
                    series.name
                )
            }));
        }
        for Rate {
            name,
            stated,
            count,
        } in &self.rates
        {
            let calculated = *count as f64 / self.wall_s;
            // wrk rounds the length, the bytes and the rate.
            let agree = (stated - calculated).abs() <= 0.02 * calculated;
            if !agree {
                self.left_out.push(format!(
                    "`{name}`: {stated:.2} contradicts {count} in {} ({calculated:.2})",
                    units::seconds(self.wall_s)
                ));
            }
        }
    }

    /// Counts failed operations; a count of 0 adds nothing.
    fn fail(&mut self, kind: &str, count: u64) {
        if count > 0 {
            let known = self.errors.entry(kind.to_owned()).or_default();
            *known = (*known + count).min(MAX_COUNT as u64);
        }
    }

    fn result(self, subject: &Subject, hash: u64) -> RunResult {
        let failed = self.errors.values().sum();
        let operations = Operations {
            started: self.started(),
            ok: self.ok,
            failed,
            unfinished: self.unfinished,
            missed: self.missed,
            peak_active: 0,
        };
        let mut counts = self.counts;
        counts.extend([
            ("ok".to_owned(), operations.ok),
            ("started".to_owned(), operations.started),
        ]);
        let warnings: Vec<Warning> = [Warning::imported(self.driver, &self.times)]
            .into_iter()
            .chain(Warning::left_out(self.driver, &self.left_out))
            .chain(Warning::misleading(self.driver, &self.pitfalls))
            .chain(Warning::unfinished(operations.unfinished, EndedBy::Plan))
            // Their drivers miss operations if no client of theirs is free.
            .chain(Warning::missed(
                operations.missed,
                operations.missed,
                operations.started,
            ))
            .collect();
        let series = self.series.iter().map(Times::summary);
        let series = series.filter(|series| !series.is_empty()).collect();
        RunResult {
            schema: SCHEMA,
            run_id: format!("{}-{hash:016x}", self.driver),
            driver: self.driver.to_owned(),
            spec: Spec {
                driver: Text::Borrowed(self.driver),
                ..SPEC.clone()
            },
            started_at: self.started_at,
            wall_s: self.wall_s,
            plan: serde_json::json!({ "imported": self.plan }),
            plan_sentence: format!("{}, imported: {}", self.driver, self.sentence),
            level: subject.level.clone().unwrap_or(self.level),
            daemon: DaemonInfo {
                // Runs of one daemon by several tools are not repetitions of each other.
                name: format!("{} ({})", subject.name, self.driver),
                target: self.target.unwrap_or_default(),
                instances: 1,
                ..DaemonInfo::default()
            },
            machine: Machine {
                version: self.version,
                ..Machine::default()
            },
            processes: 1,
            threads: self.threads,
            verdict: verdict(&warnings),
            warnings,
            operations,
            counts,
            errors: self.errors,
            thresholds: self.thresholds,
            imported: Some(Imported {
                times: self.times,
                series,
            }),
            ..RunResult::default()
        }
    }
}

fn json(text: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(text).map_err(|error| {
        let cut = if error.is_eof() {
            ": check whether the file was cut off"
        } else {
            ""
        };
        format!("expected JSON, but {error}{cut}")
    })
}

/// Computes FNV-1a. The same output has the same run ID wherever its file is.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The largest integer that a JSON number represents exactly. Sums of a few such counts do not overflow.
const MAX_COUNT: f64 = 9_007_199_254_740_992.0;
/// A century. No time of a run is longer.
const MAX_SECONDS: f64 = 3.2e9;

/// Converts a number to a count, or `None` if it is not one.
fn to_count(number: f64) -> Option<u64> {
    let fits = (0.0..=MAX_COUNT).contains(&number) && number.fract() == 0.0;
    fits.then_some(number as u64)
}

/// Returns the length of a run in seconds, or `None` if the number can't be one.
fn length(seconds: f64) -> Option<f64> {
    nanoseconds(seconds)
        .filter(|ns| *ns > 0.0)
        .and(Some(seconds))
}

/// Converts seconds to nanoseconds, or `None` if the number is not a time.
fn nanoseconds(seconds: f64) -> Option<f64> {
    let fits = (0.0..=MAX_SECONDS).contains(&seconds);
    fits.then_some(seconds * 1e9)
}
