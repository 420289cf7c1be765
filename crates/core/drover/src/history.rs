//! `drover history`: how the figures of daemons developed over all results of a folder.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{bail, ensure};
use clap::Args;
use harness::{output, store};
use measure::load_id::level_with_load_id;
use measure::machine::Machine;
use measure::report::{self, Figure};
use measure::result::RunResult;
use measure::warning::Verdict;

use crate::folder::RESULTS;
use crate::report::results;

mod otava;

/// Maximum number of letters of a course; each is the mean of several runs if there are more.
const LETTERS: usize = 40;
/// Letters of the hash of a program: enough to tell versions of one apart.
const HASH: usize = 8;

#[derive(Debug, Args)]
pub(crate) struct HistoryOptions {
    /// Read all results in this folder and below
    #[arg(value_name = "FOLDER", default_value = RESULTS)]
    folder: PathBuf,
    /// Show these metrics, named as in thresholds; runs without one are left out [default: those that comparisons use, if
    /// all runs have them]
    #[arg(long = "metric", value_name = "METRIC", value_delimiter = ',')]
    metrics: Vec<String>,
    /// Write a CSV file for each history, and otava.yaml, which configures Apache Otava to read them
    #[arg(long, value_name = "DIR")]
    out_csv: Option<PathBuf>,
}

/// The facts that all runs of a history share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    plan: String,
    daemon: String,
    level: String,
    machine: String,
    /// The level with the ID of its load.
    load: String,
}

/// A run in a history.
#[derive(Debug)]
struct Point {
    started_at: String,
    run_id: String,
    commit: String,
    program: String,
    figures: Vec<Figure>,
}

/// The runs of one key, from the first to the last.
#[derive(Debug)]
struct History {
    key: Key,
    /// True if the key's load has to be named, because the level has several.
    has_several_loads: bool,
    points: Vec<Point>,
    /// The metrics that all points have.
    metrics: Vec<Figure>,
}

/// Returns the histories as text, after their CSV files were written if that is asked for.
///
/// # Errors
/// No results, an unknown metric, or a folder that can't be written.
pub(crate) fn show(options: &HistoryOptions) -> anyhow::Result<String> {
    let histories = read(options)?;
    let mut text = String::new();
    for history in &histories {
        text += &history.table();
        text.push('\n');
    }
    match &options.out_csv {
        Some(folder) => {
            let config = otava::write(folder, &histories)?;
            text += &format!("otava analyze drover --config-file {}\n", config.display());
        }
        None => {
            text += "--out-csv DIR writes CSV files for Apache Otava, which finds change points\n"
        }
    }
    Ok(text)
}

fn read(options: &HistoryOptions) -> anyhow::Result<Vec<History>> {
    let mut all: BTreeMap<Key, Vec<Point>> = BTreeMap::new();
    let (mut invalid, mut without, mut unknown) = (0, 0, None);
    for file in results(&options.folder)? {
        let run = match store::read_result(&file) {
            Ok(run) if run.verdict == Verdict::Invalid => {
                invalid += 1;
                continue;
            }
            Ok(run) => run,
            Err(error) => {
                output::note(&format!("left out: {error:#}"));
                continue;
            }
        };
        let (key, mut point) = (Key::from(&run), Point::from(&run));
        point.figures = if options.metrics.is_empty() {
            report::deciding_figures(run)
        } else {
            let figures = options
                .metrics
                .iter()
                .map(|name| report::figure(&run, name));
            match figures.collect::<Result<Option<Vec<Figure>>, String>>() {
                Ok(figures) => figures.unwrap_or_default(),
                Err(problem) => {
                    unknown = Some(problem);
                    Vec::new()
                }
            }
        };
        if point.figures.is_empty() {
            without += 1;
        } else {
            all.entry(key).or_default().push(point);
        }
    }
    if let (true, Some(problem)) = (all.is_empty(), unknown) {
        bail!("--metric: {problem}");
    }
    for (count, reason) in [(invalid, "INVALID"), (without, "without the metrics")] {
        if count > 0 {
            output::note(&format!("Runs that are left out: {count} {reason}."));
        }
    }
    ensure!(
        !all.is_empty(),
        "{}: no run has figures to show: make runs that are not INVALID, or name a --metric that they have",
        options.folder.display()
    );
    let keys: Vec<Key> = all.keys().cloned().collect();
    let histories = all.into_iter();
    Ok(histories
        .map(|(key, points)| History::new(key, points, &keys))
        .collect())
}

impl From<&RunResult> for Key {
    fn from(run: &RunResult) -> Self {
        let plan = run.plan.get("name").and_then(|name| name.as_str());
        Self {
            plan: plan.unwrap_or(&run.driver).to_owned(),
            daemon: run.daemon.name.clone(),
            level: run.level.clone(),
            machine: machine(&run.machine),
            load: level_with_load_id(&run.level, &run.plan, &run.daemon.target),
        }
    }
}

/// Describes a machine regardless of its host name, which may be another one for each run in a container, and of its
/// kernel, whose updates belong to its history.
fn machine(machine: &Machine) -> String {
    format!(
        "{} × {}, {} GiB, {} build",
        machine.cpus,
        machine.cpu_model.as_deref().unwrap_or("unknown CPU"),
        machine.memory_bytes >> 30,
        machine.build_profile
    )
}

impl From<&RunResult> for Point {
    fn from(run: &RunResult) -> Self {
        let program = run.daemon.program_sha256.as_deref().unwrap_or_default();
        Self {
            started_at: run.started_at.clone(),
            run_id: run.run_id.clone(),
            commit: run.machine.git_commit.clone().unwrap_or_default(),
            program: program.chars().take(HASH).collect(),
            figures: Vec::new(),
        }
    }
}

impl Point {
    fn value(&self, metric: &Figure) -> Option<f64> {
        let mut figures = self.figures.iter();
        let figure = figures.find(|figure| figure.key == metric.key)?;
        Some(figure.value)
    }
}

impl History {
    fn new(key: Key, mut points: Vec<Point>, keys: &[Key]) -> Self {
        points.sort_by(|one, other| one.started_at.cmp(&other.started_at));
        let same = keys.iter().filter(|other| {
            let load = key.load.clone();
            Key {
                load,
                ..(*other).clone()
            } == key
        });
        let has_several_loads = same.count() > 1;
        // A table without a value has no course, and Otava reads no empty cell.
        let metrics = points[0].figures.iter();
        let metrics =
            metrics.filter(|metric| points.iter().all(|point| point.value(metric).is_some()));
        Self {
            has_several_loads,
            metrics: metrics.cloned().collect(),
            points,
            key,
        }
    }

    fn level(&self) -> &str {
        if self.has_several_loads {
            &self.key.load
        } else {
            &self.key.level
        }
    }

    /// Returns a line for each metric, below the name of the history.
    fn table(&self) -> String {
        let Key {
            plan,
            daemon,
            machine,
            ..
        } = &self.key;
        let day = |point: Option<&Point>| {
            let started_at = point.map_or("", |point| point.started_at.as_str());
            started_at.get(..10).unwrap_or(started_at).to_owned()
        };
        let runs = match self.points.len() {
            1 => "1 run".to_owned(),
            several => format!("{several} runs"),
        };
        let mut text = format!(
            "{plan}: {daemon} at {}, {runs}, {} to {}, on {machine}\n",
            self.level(),
            day(self.points.first()),
            day(self.points.last()),
        );
        let labels = self
            .metrics
            .iter()
            .map(|metric| metric.label.chars().count());
        let width = labels.max().unwrap_or(0);
        for metric in &self.metrics {
            let values = self.points.iter().filter_map(|point| point.value(metric));
            let values: Vec<f64> = values.collect();
            let [first, last] = [values[0], values[values.len() - 1]];
            let (low, high) = range(&values);
            let [first, last, low, high] =
                [first, last, low, high].map(|value| metric.unit.short(value));
            let (label, course) = (&metric.label, course(&values));
            // Writing to a String can't fail.
            let _ = writeln!(
                text,
                "  {label:width$}  {course}  {first} → {last} (lowest {low}, highest {high})"
            );
        }
        let missing = self.missing();
        if !missing.is_empty() {
            let missing = missing.join(", ");
            let _ = writeln!(text, "  not measured in all runs: {missing}");
        }
        text
    }

    /// Returns the names of the metrics that only some points have.
    fn missing(&self) -> Vec<&str> {
        let mut missing = Vec::new();
        for figure in self.points.iter().flat_map(|point| &point.figures) {
            let mut shown = self.metrics.iter();
            let label = figure.label.as_str();
            if !shown.any(|metric| metric.key == figure.key) && !missing.contains(&label) {
                missing.push(label);
            }
        }
        missing
    }
}

fn range(values: &[f64]) -> (f64, f64) {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (low, high)
}

/// Draws the course of values from their lowest to their highest, by the means of neighbours if there are many.
fn course(values: &[f64]) -> String {
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let parts = values.chunks(values.len().div_ceil(LETTERS).max(1));
    let means: Vec<f64> = parts
        .map(|part| part.iter().sum::<f64>() / part.len() as f64)
        .collect();
    let (low, high) = range(&means);
    let height = |mean: &f64| {
        let share = if high > low {
            (mean - low) / (high - low)
        } else {
            0.0
        };
        HEIGHTS[(share * (HEIGHTS.len() - 1) as f64).round() as usize]
    };
    means.iter().map(height).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_reaches_from_the_lowest_to_the_highest_value() {
        assert_eq!(course(&[1.0, 2.0, 3.0, 8.0]), "▁▂▃█");
        assert_eq!(course(&[5.0, 5.0]), "▁▁");
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        let many = course(&many);
        assert!(many.starts_with('▁') && many.ends_with('█'), "{many}");
        assert!(many.chars().count() <= LETTERS, "{many}");
    }
}
