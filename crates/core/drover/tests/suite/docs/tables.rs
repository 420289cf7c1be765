//! Tables of the pages have every entry that the code has.

use std::process::Command;

use measure::report::FORMATS;
use serde_json::Value;

use crate::docs::markdown::{Page, read, root};
use crate::docs::programs;

/// Checks that a page names all of these, as code.
#[track_caller]
fn names_all(page: &str, names: &[String]) {
    let page = Page::of_book(page);
    let text = page.text.as_str();
    let missing: Vec<&String> = names.iter().filter(|name| !mentions(text, name)).collect();
    assert!(
        missing.is_empty(),
        "{} does not mention {missing:?}",
        page.name()
    );
}

/// Returns true if the text has the name as a whole word.
fn mentions(text: &str, name: &str) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(name).any(|(at, _)| {
        !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part)
    })
}

/// Returns the names of the public fields of a struct.
fn fields(file: &str, of: &str) -> Vec<String> {
    let source = read(&root().join(file));
    let from = source
        .find(&format!("pub struct {of}"))
        .unwrap_or_else(|| panic!("{file}: {of}"));
    let lines = source[from..].lines().take_while(|line| *line != "}");
    let names = lines.filter_map(|line| line.strip_prefix("    pub ")?.split(':').next());
    names.map(str::to_owned).collect()
}

#[test]
fn every_kind_of_warning_is_explained() {
    let schema = read(&root().join("bench-results/result.schema.json"));
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let kinds = schema["$defs"]["Kind"]["oneOf"].as_array().unwrap();
    let kinds: Vec<String> = kinds
        .iter()
        .map(|kind| kind["const"].as_str().unwrap().to_owned())
        .collect();
    assert!(kinds.len() > 20, "{kinds:?}");
    names_all("verdicts.md", &kinds);
}

#[test]
fn every_format_of_reports_is_listed() {
    names_all(
        "report.md",
        &FORMATS
            .iter()
            .map(|format| format.name.to_owned())
            .collect::<Vec<_>>(),
    );
}

#[test]
fn every_key_of_a_plan_is_listed() {
    for (file, of) in [
        ("crates/core/load/src/plan.rs", "Plan"),
        ("crates/core/load/src/plan.rs", "Timeline"),
        ("crates/core/load/src/plan/group.rs", "Group"),
        ("crates/core/load/src/plan/fault.rs", "Fault"),
        ("crates/core/load/src/plan/suite.rs", "Suite"),
        ("crates/core/load/src/plan/suite.rs", "Capacity"),
    ] {
        names_all("reference/plans.md", &fields(file, of));
    }
}

#[test]
fn every_key_of_a_manifest_is_listed() {
    let keys = fields("crates/core/subject/src/manifest.rs", "Manifest");
    assert!(keys.len() > 10, "{keys:?}");
    names_all("manifest.md", &keys);
}

#[test]
fn every_subcommand_of_the_suite_program_is_listed() {
    let help = Command::new(env!("CARGO_BIN_EXE_drover"))
        .arg("--help")
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| {
        line.strip_prefix("  ")?
            .split(' ')
            .next()
            .filter(|name| !name.is_empty())
    });
    let names: Vec<String> = names
        .filter(|name| *name != "help")
        .map(|name| format!("drover {name}"))
        .collect();
    assert!(names.len() > 5, "{help}");
    names_all("reference/drover.md", &names);
}

#[test]
fn every_option_of_a_suite_is_listed() {
    let help = Command::new(env!("CARGO_BIN_EXE_drover"))
        .args(["run", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let lines = help.lines().map(str::trim_start);
    let options = lines.filter(|line| line.starts_with("--"));
    let names: Vec<String> = options
        .filter_map(|line| line.split(' ').next())
        .map(|name| format!("`{name}"))
        .collect();
    assert!(names.len() > 8, "{help}");
    names_all("reference/drover.md", &names);
}

#[test]
fn every_option_that_the_drivers_share_is_listed() {
    let options = fields("crates/core/harness/src/cli/common.rs", "Common");
    let of_isolation = fields(
        "crates/core/harness/src/cli/isolation.rs",
        "IsolationOptions",
    );
    let of_shards = fields("crates/core/harness/src/cli/shards.rs", "ShardOptions");
    let flattened = |name: &String| ["isolation", "shards"].contains(&&**name);
    let options: Vec<String> = options
        .into_iter()
        .filter(|name| !flattened(name))
        .chain(of_isolation)
        .chain(of_shards)
        .collect();
    assert!(options.len() > 20, "{options:?}");
    let names = options.iter().map(|name| name.replace('_', "-"));
    let names: Vec<String> = names.map(|name| format!("`--{name}")).collect();
    names_all("reference/options.md", &names);
}

#[test]
fn every_variable_of_the_programs_is_listed() {
    let mut names: Vec<String> = Vec::new();
    for file in [
        "harness/src/launcher.rs",
        "load/src/trust.rs",
        "subject/src/manifest/roots.rs",
    ] {
        let source = read(&root().join("crates/core").join(file));
        let quoted = source
            .split('"')
            .filter(|text| text.starts_with("DROVER_") && !text.contains(' '));
        names.extend(quoted.map(|name| name.trim_end_matches("=1").to_owned()));
    }
    assert!(names.len() >= 3, "{names:?}");
    names_all("reference/environment.md", &names);
}

#[test]
fn every_threshold_of_the_table_is_understood() {
    if !programs::are_built(&["fdpass-gen"]) {
        return;
    }
    let rows = Page::of_book("reference/thresholds.md").table("A missed threshold");
    assert!(rows.len() > 10, "{rows:?}");
    let mut command = Command::new(programs::path("fdpass-gen"));
    // Goodput is counted only with one.
    command.args(["--objective", "first_byte < 1s"]);
    for row in rows {
        let code = |cell: &str| cell.split('`').nth(1).unwrap().to_owned();
        let (figure, bound) = (code(&row[0]), code(&row[1]));
        let operator = if figure == "verdict" { "==" } else { "<=" };
        command
            .arg("--threshold")
            .arg(format!("{figure} {operator} {bound}"));
    }
    let output = command.arg("--print-plan").output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
