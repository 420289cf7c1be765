//! Histories as files of Apache Otava 0.8 (<https://otava.apache.org>): a CSV file each, and a configuration for its CSV
//! importer. Otava finds change points by E-divisive means with t-tests.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use harness::store;
use measure::metrics::Better;
use measure::report::{Figure, csv};
use measure::units::Unit;
use serde_json::{Map, Value, json};

use super::{History, Key};

/// Name of the configuration.
const CONFIG: &str = "otava.yaml";
/// The column with the time of the start.
const TIME: &str = "time";
/// Columns that Otava shows beside each change point.
const ATTRIBUTES: [&str; 3] = ["commit", "program", "run"];
/// The group of all histories.
const GROUP: &str = "drover";

/// Writes the files into a folder; returns the path of the configuration.
///
/// # Errors
/// The folder can't be written.
pub(super) fn write(folder: &Path, histories: &[History]) -> anyhow::Result<PathBuf> {
    let remedy = || {
        format!(
            "--out-csv {}: name a folder that can be written",
            folder.display()
        )
    };
    fs::create_dir_all(folder).with_context(remedy)?;
    let folder = folder.canonicalize().with_context(remedy)?;
    let (mut tests, mut names) = (Map::new(), Vec::new());
    for history in histories {
        let mut name = name(history);
        // Characters that a name can't have may have told two histories apart.
        while tests.contains_key(&name) {
            name.push('_');
        }
        let file = folder.join(format!("{name}.csv"));
        store::write_whole(&file, table(history).as_bytes())?;
        let metrics = history.metrics.iter().map(|metric| {
            let direction = if metric.better == Better::Lower {
                -1
            } else {
                1
            };
            (column(metric), json!({ "direction": direction }))
        });
        let test = json!({
            "type": "csv",
            "file": file,
            "time_column": TIME,
            "attributes": ATTRIBUTES,
            "metrics": metrics.collect::<Map<String, Value>>(),
        });
        names.push(name.clone());
        tests.insert(name, test);
    }
    let config = json!({ "tests": tests, "test_groups": { GROUP: names } });
    let path = folder.join(CONFIG);
    // JSON is YAML too.
    let text = serde_json::to_string_pretty(&config)? + "\n";
    store::write_whole(&path, text.as_bytes())?;
    Ok(path)
}

/// Names a history as a file: `compare-nginx.nginx.100.2-x-Intel-Xeon-8-GiB-release-build`.
fn name(history: &History) -> String {
    let Key {
        plan,
        daemon,
        machine,
        ..
    } = &history.key;
    let plain = |part: &str| {
        let is_kept = |letter: char| letter.is_alphanumeric() || "-_@".contains(letter);
        let words = part.split(|letter| !is_kept(letter));
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        words.join("-")
    };
    let parts = [plan, daemon, history.level(), machine];
    parts.map(plain).join(".")
}

/// Names the column of a metric, with its unit: `response.p50_ns`.
fn column(metric: &Figure) -> String {
    let unit = match metric.unit {
        Unit::Nanoseconds => "_ns",
        Unit::Bytes => "_bytes",
        Unit::Percent => "_pct",
        Unit::PerSecond | Unit::Count => "",
    };
    format!("{}{unit}", metric.key)
}

fn table(history: &History) -> String {
    let head = [TIME].into_iter().chain(ATTRIBUTES).map(str::to_owned);
    let head: Vec<String> = head.chain(history.metrics.iter().map(column)).collect();
    let mut text = csv::line(&head);
    for point in &history.points {
        let facts = [
            &point.started_at,
            &point.commit,
            &point.program,
            &point.run_id,
        ];
        text += csv::line(&facts.map(Clone::clone)).trim_end();
        let values = history
            .metrics
            .iter()
            .filter_map(|metric| point.value(metric));
        values.for_each(|value| text += &format!(",{value}"));
        text.push('\n');
    }
    text
}
