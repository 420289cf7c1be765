//! The output of other load generators as results: pure functions from text.
//!
//! Nothing is invented: what a tool did not report is absent, and what is known to mislead in its report is said in a
//! warning. No histogram is made from percentiles.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::imported::{Imported, SeriesSummary};
use crate::machine::Machine;
use crate::result::{DaemonInfo, Operations, RunResult, SCHEMA, ThresholdResult, Usage};
use crate::warning::{EndedBy, Warning, verdict};

mod k6;
mod oha;
mod wrk;

/// A load generator whose output is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// wrk and wrk2: what they print.
    Wrk,
    /// k6: `--summary-export`, with or without `--new-machine-readable-summary`, or what `handleSummary` is given.
    K6,
    /// oha: `--output-format json`, in older versions `--json`.
    Oha,
}

impl Tool {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Wrk, Self::K6, Self::Oha];

    fn read(self, text: &str) -> Result<Run, String> {
        match self {
            Self::Wrk => wrk::read(text),
            Self::K6 => k6::read(&json(text)?),
            Self::Oha => oha::read(&json(text)?),
        }
    }

    /// The tool whose output a text looks like.
    fn of(text: &str) -> Option<Self> {
        if wrk::is_its(text) {
            return Some(Self::Wrk);
        }
        // Where the text was cut off, what it begins with still says whose it is.
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
        known.ok_or_else(|| "choose one of wrk, k6, oha".to_owned())
    }
}

/// Why a text is no run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It looks like the output of no tool.
    #[error(
        "is the output of none of wrk, k6 and oha: expected what wrk prints, the JSON of `k6 run --summary-export FILE` or \
         that of `oha --output-format json`"
    )]
    Foreign,
    /// It is not what the tool writes.
    #[error("is no whole output of {tool}: {problem}")]
    Malformed {
        /// The tool.
        tool: Tool,
        /// What is wrong with it, and what was expected.
        problem: String,
    },
}

/// What no output says, or not every one.
#[derive(Debug, Clone, Default)]
pub struct Subject {
    /// What was driven.
    pub name: String,
    /// How much load; absent, and it is the connections or users that the tool reports.
    pub level: Option<String>,
}

/// Reads the output of `tool`, or of the one that it looks like.
///
/// # Errors
/// Text that is not whole output of such a tool.
pub fn import(text: &str, tool: Option<Tool>, subject: &Subject) -> Result<RunResult, Error> {
    let tool = tool.or_else(|| Tool::of(text)).ok_or(Error::Foreign)?;
    let run = tool
        .read(text)
        .map_err(|problem| Error::Malformed { tool, problem })?;
    Ok(run.result(subject, hash(text)))
}

/// What a tool reported.
#[derive(Debug, Default)]
struct Run {
    driver: &'static str,
    version: String,
    started_at: String,
    wall_s: f64,
    plan: BTreeMap<&'static str, serde_json::Value>,
    /// What it was told to do, as far as it says: `4 threads and 100 connections for 10s`.
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
    series: Vec<SeriesSummary>,
    thresholds: Vec<ThresholdResult>,
    /// What is known to mislead in this report.
    told: Vec<String>,
}

impl Run {
    /// Failed operations, where there were any.
    fn fail(&mut self, kind: &str, count: u64) {
        if count > 0 {
            let known = self.errors.entry(kind.to_owned()).or_default();
            *known = (*known + count).min(MOST as u64);
        }
    }

    fn result(self, subject: &Subject, hash: u64) -> RunResult {
        let failed = self.errors.values().sum();
        let operations = Operations {
            started: self.ok + failed + self.unfinished,
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
            .chain(Warning::misleading(self.driver, &self.told))
            .chain(Warning::unfinished(operations.unfinished, EndedBy::Plan))
            .chain(Warning::missed(operations.missed, operations.started))
            .collect();
        let series: Vec<SeriesSummary> = self
            .series
            .into_iter()
            .filter(|series| !series.is_empty())
            .collect();
        RunResult {
            schema: SCHEMA,
            run_id: format!("{}-{hash:016x}", self.driver),
            driver: self.driver.to_owned(),
            started_at: self.started_at,
            wall_s: self.wall_s,
            plan: serde_json::json!({ "imported": self.plan }),
            plan_sentence: format!("{}, imported: {}", self.driver, self.sentence),
            level: subject.level.clone().unwrap_or(self.level),
            daemon: DaemonInfo {
                // Runs of one daemon by several tools are no repetitions of each other.
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
            series: Vec::new(),
            lag: None,
            seconds: Vec::new(),
            usage: Usage::default(),
            resources: Vec::new(),
            thresholds: self.thresholds,
            faults: Vec::new(),
            answer: None,
            facts: crate::audit::Facts::default(),
            exit_code: None,
            throughput: None,
            imported: Some(Imported {
                times: self.times,
                series,
            }),
        }
    }
}

fn json(text: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(text).map_err(|error| {
        let cut = if error.is_eof() {
            ": was the file cut off?"
        } else {
            ""
        };
        format!("expected JSON, but {error}{cut}")
    })
}

/// FNV-1a: the same output is the same run, wherever it lies.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The largest count that is told apart from its neighbours in a JSON number; sums of a few such don't overflow.
const MOST: f64 = 9_007_199_254_740_992.0;
/// A century: no time of a run is longer.
const LONGEST_S: f64 = 3.2e9;

/// A number as a count.
fn whole(number: f64) -> Option<u64> {
    let fits = (0.0..=MOST).contains(&number) && number.fract() == 0.0;
    fits.then_some(number as u64)
}

/// Seconds as nanoseconds; nothing where it is no time.
fn nanoseconds(seconds: f64) -> Option<f64> {
    let fits = (0.0..=LONGEST_S).contains(&seconds);
    fits.then_some(seconds * 1e9)
}
