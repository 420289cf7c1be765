//! Keeps published texts equal to the code: the pages of names in `docs/`, and the schemas of plans and manifests.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use measure::spec::{CounterSpec, ErrorCause, ErrorSpec, SeriesRole, SeriesSpec, Spec};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// The meaning of each name, by the heading of its table and the name. People write it into the last column of the
/// page; everything else is generated.
type Meanings = BTreeMap<(String, String), String>;

/// Checks that the page of a driver's names agrees with its specification and its options (see [`options::rows`]), and
/// that each name is explained. `DROVER_BLESS=1` writes the page, with the explanations that it has.
///
/// # Panics
/// The page differs, or a name has no explanation.
///
/// [`options::rows`]: crate::options::rows
#[track_caller]
pub fn check(spec: &Spec, options: &[[String; 2]]) {
    let path = format!("docs/src/reference/{}.md", spec.driver);
    let old = std::fs::read_to_string(root().join(&path)).unwrap_or_default();
    let page = page(spec, &meanings(&old), options);
    publish(&path, &page);
    let unexplained = page.lines().find(|line| line.ends_with("|  |"));
    assert_eq!(unexplained, None, "{path}: explain it in the last column");
}

/// Checks that `configs/<protocol>/plan.schema.json` is the schema of a driver's plans. `DROVER_BLESS=1` writes it.
///
/// # Panics
/// The schema differs.
#[track_caller]
pub fn check_plan_schema<Plan: JsonSchema>(spec: &Spec) {
    let path = format!("configs/{}/plan.schema.json", spec.protocol);
    check_schema::<Plan>(&path, &format!("A plan for {}", spec.driver));
}

/// Checks that the file at `path`, below the root of the workspace, is the JSON Schema of a type, with this title.
/// `DROVER_BLESS=1` writes it.
///
/// # Panics
/// The schema differs.
#[track_caller]
pub fn check_schema<T: JsonSchema>(path: &str, title: &str) {
    // Editors read draft 7 best.
    let mut schema = SchemaSettings::draft07()
        .into_generator()
        .into_root_schema_for::<T>();
    schema.insert("title".to_owned(), title.into());
    let text = serde_json::to_string_pretty(&schema).unwrap();
    publish(path, &format!("{text}\n"));
}

#[track_caller]
fn publish(path: &str, text: &str) {
    let file = root().join(path);
    if std::env::var_os("DROVER_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&file, text).unwrap();
    }
    let published = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        published == text,
        "{path} does not agree with the code: run this test with DROVER_BLESS=1, and explain new names in the last column"
    );
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."))
}

/// Reads the last column of each table.
fn meanings(page: &str) -> Meanings {
    let (mut heading, mut found) = (String::new(), Meanings::new());
    for line in page.lines() {
        if let Some(text) = line.strip_prefix("## ") {
            text.clone_into(&mut heading);
        }
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if let [name, .., meaning] = cells[..]
            && name.starts_with('`')
        {
            found.insert((heading.clone(), name.to_owned()), meaning.to_owned());
        }
    }
    found
}

fn page(spec: &Spec, meanings: &Meanings, options: &[[String; 2]]) -> String {
    let (driver, protocol) = (&spec.driver, &spec.protocol);
    let mut page = format!(
        "# Names: {driver}\n\n<!-- Generated from the driver's specification, but for the column `meaning`. \
         DROVER_BLESS=1 cargo test -p {driver} --test suite reference -->\n\n\
         Results, [thresholds](thresholds.md) and reports call what `{driver}` measures by these names. Its protocol in \
         manifests and plans is `{protocol}`.\n"
    );
    page.push_str(
        "\n## Options\n\nWhich [fields of a plan](fields.md) each option sets.\n\n| option | fields |\n| --- | --- |\n",
    );
    for [option, fields] in options {
        let _ = writeln!(page, "| {option} | {fields} |");
    }
    let mut table = |heading: &str, columns: &[&str], rows: Vec<Vec<String>>| {
        let meaning = |name: &String| {
            let key = (heading.to_owned(), name.clone());
            meanings.get(&key).cloned().unwrap_or_default()
        };
        let rule = "| --- ".repeat(columns.len() + 1);
        let _ = write!(
            page,
            "\n## {heading}\n\n| {} | meaning |\n{rule}|\n",
            columns.join(" | ")
        );
        for row in rows {
            let _ = writeln!(page, "| {} | {} |", row.join(" | "), meaning(&row[0]));
        }
    };
    let lag = vec!["`lag`".to_owned(), "every report".to_owned()];
    let series = spec.series.iter().map(series_row).chain([lag]);
    table("Series", &["name", "shown in"], series.collect());
    table(
        "Errors",
        &["name", "effect"],
        spec.errors.iter().map(error_row).collect(),
    );
    let columns = ["name", "shown as", "role", "compared with the daemon's"];
    table(
        "Counters",
        &columns,
        spec.counters.iter().map(counter_row).collect(),
    );
    page
}

fn series_row(series: &SeriesSpec) -> Vec<String> {
    let shown = match series.role {
        SeriesRole::Headline => "every report, as its headline",
        SeriesRole::Main => "every report",
        SeriesRole::Detail => "full reports",
    };
    vec![format!("`{}`", series.name), shown.to_owned()]
}

fn error_row(error: &ErrorSpec) -> Vec<String> {
    let effect = match error.cause {
        ErrorCause::Failure => "fails the run",
        ErrorCause::Expected => "none: the plan asks for it",
        ErrorCause::Fault => "fails the run, unless a planned fault explains it",
        ErrorCause::Exhausted => "the result is INVALID",
    };
    vec![format!("`{}`", error.name), effect.to_owned()]
}

fn counter_row(counter: &CounterSpec) -> Vec<String> {
    let role = match serde_json::to_value(counter.role) {
        Ok(Value::String(role)) => role.replace('_', " "),
        other => panic!("{other:?}"),
    };
    let metrics: Vec<String> = counter
        .daemon_metrics
        .iter()
        .map(|metric| format!("`{metric}`"))
        .collect();
    let metrics = if metrics.is_empty() {
        "–".to_owned()
    } else {
        metrics.join(", ")
    };
    vec![
        format!("`{}`", counter.name),
        counter.label.to_string(),
        role,
        metrics,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanations_survive_a_new_page() {
        let old = page(&Spec::UNKNOWN, &Meanings::new(), &[]);
        let explained = old.replace("| every report |  |", "| every report | lateness |");
        let again = page(&Spec::UNKNOWN, &meanings(&explained), &[]);
        assert_ne!(old, explained);
        assert_eq!(again, explained);
    }
}
