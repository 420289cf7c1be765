//! The options that shape a load, and the fields of a plan that each sets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use amqp_perftest::driver::Perftest;
use clap::Arg;
use fdpass_gen::driver::FdPass;
use harness::cli::{DriverCli, command, job};
use http_load::HttpLoad;
use issue_stress::IssueStress;
use presence_load::PresenceLoad;
use tempfile::NamedTempFile;

/// Options on which the defaults of other fields depend where no plan is given.
const DEFAULTS: [(&str, &[&str]); 5] = [
    ("fdpass-gen", &["rate", "stream-timeout"]),
    ("amqp-perftest", &["churn"]),
    (
        "http-load",
        &["connections", "keep-open", "stage", "rate-stage", "timeout"],
    ),
    ("presence-load", &["mode", "ack-timeout"]),
    ("issue-stress", &["scenario", "duration", "rate"]),
];

/// An option, and the fields of a plan that it changes, as the page has them.
type Row = (String, String);

/// Checks that each option changes a plan of a file as it changes the default one, and that the page lists all. Its text
/// is written by hand; `DROVER_BLESS=1` writes the table below it.
#[test]
fn an_option_changes_a_plan_of_a_file_as_it_changes_the_default_one_and_is_listed() {
    let drivers = [
        rows::<FdPass>(),
        rows::<Perftest>(),
        rows::<HttpLoad>(),
        rows::<PresenceLoad>(),
        rows::<IssueStress>(),
    ];
    let mut table: BTreeMap<Row, Vec<&str>> = BTreeMap::new();
    for (driver, rows) in DEFAULTS.iter().map(|(driver, _)| driver).zip(drivers) {
        for row in rows {
            table.entry(row).or_default().push(driver);
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/src/reference/fields.md");
    let published = std::fs::read_to_string(&path).unwrap();
    let text = published.split("| option").next().unwrap();
    let mut page = format!("{text}| option | fields | drivers |\n| --- | --- | --- |\n");
    for ((option, fields), drivers) in table {
        let drivers = match drivers.len() {
            5 => "all".to_owned(),
            _ => drivers.join(", "),
        };
        page.push_str(&format!("| {option} | {fields} | {drivers} |\n"));
    }
    if std::env::var_os("DROVER_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &page).unwrap();
    } else {
        assert!(
            published == page,
            "the table differs: run with DROVER_BLESS=1"
        );
    }
}

#[track_caller]
fn rows<D: DriverCli>() -> Vec<Row> {
    let name = &*D::SPEC.driver;
    let depended = DEFAULTS.iter().find(|(driver, _)| *driver == name);
    let (_, depended) = depended.unwrap();
    let mut default = plan::<D>(&[]);
    // These are chosen for the target where a plan leaves them open.
    let settings = default["driver"].as_table_mut().unwrap();
    settings.retain(|field, _| !["engine", "path"].contains(&field));
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), default.to_string()).unwrap();
    let file = format!("--plan={}", file.path().display());
    let command = command::<D>();
    let options = command.get_opts().filter(|option| shapes_a_load(option));
    let row = |option: &Arg| {
        let words = typed(option);
        let of_file = plan::<D>(&[std::slice::from_ref(&file), &words].concat());
        let is_same = of_file == plan::<D>(&words);
        let depends = depended.contains(&option.get_long().unwrap());
        assert_eq!(is_same, !depends, "{name}: {words:?} on a plan: {of_file}");
        // What an option requires is not listed with it.
        let required = words[1..].iter().filter(|word| *word == "--http2");
        let before: Vec<String> = [&file].into_iter().chain(required).cloned().collect();
        let [before, after] = [plan::<D>(&before), of_file].map(|plan| fields(&plan));
        let changed = before.symmetric_difference(&after);
        let changed: BTreeSet<String> = changed.map(|(path, _)| format!("`{path}`")).collect();
        assert!(!changed.is_empty(), "{name}: {words:?} changes nothing");
        let shorts = option.get_short_and_visible_aliases().unwrap_or_default();
        let longs = option.get_long_and_visible_aliases().unwrap();
        let shorts = shorts.iter().map(|letter| format!("`-{letter}`"));
        let spellings: Vec<String> = longs
            .iter()
            .map(|long| format!("`--{long}`"))
            .chain(shorts)
            .collect();
        (spellings.join(", "), Vec::from_iter(changed).join(", "))
    };
    options.map(row).collect()
}

/// Returns the values of a plan by their paths, as `--set` writes them.
fn fields(plan: &toml::Table) -> BTreeSet<(String, String)> {
    fn add(path: &str, value: &toml::Value, fields: &mut BTreeSet<(String, String)>) {
        let below = |key: &str| format!("{path}.{key}").trim_start_matches('.').to_owned();
        match value {
            toml::Value::Table(table) => {
                table
                    .iter()
                    .for_each(|(key, value)| add(&below(key), value, fields));
            }
            toml::Value::Array(groups) if path == "groups" => {
                groups
                    .iter()
                    .for_each(|group| add("groups.N", group, fields));
            }
            value => drop(fields.insert((path.to_owned(), value.to_string()))),
        }
    }
    let mut fields = BTreeSet::new();
    add("", &toml::Value::Table(plan.clone()), &mut fields);
    fields
}

/// Returns true if an option says what the load is, and not what is measured, where, and how it is reported.
fn shapes_a_load(option: &Arg) -> bool {
    let others = ["Common options", "One run on several machines"];
    let heading = option.get_help_heading();
    let is_other = heading.is_none_or(|heading| others.contains(&heading));
    // wrk's option is accepted and changes nothing.
    !is_other && option.get_long() != Some("latency")
}

/// Returns an option with a value that differs from its default, and with the option that it requires.
fn typed(option: &Arg) -> Vec<String> {
    let long = option.get_long().unwrap();
    let values = option.get_possible_values();
    let is_default = |name: &str| {
        option
            .get_default_values()
            .iter()
            .any(|value| value == name)
    };
    let mut names = values
        .iter()
        .map(clap::builder::PossibleValue::get_name)
        .rev();
    let value = match names.find(|name| !is_default(name)) {
        Some(name) => name,
        None => sample(option),
    };
    let word = if option.get_action().takes_values() {
        format!("--{long}={value}")
    } else {
        format!("--{long}")
    };
    let required = match long {
        "queue-pattern" => Some("--queue-pattern-to=7"),
        "queue-pattern-to" => Some("--queue-pattern=q%d"),
        "streams" => Some("--http2"),
        _ => None,
    };
    [word]
        .into_iter()
        .chain(required.map(str::to_owned))
        .collect()
}

/// Returns a value of the form that an option takes.
fn sample(option: &Arg) -> &'static str {
    let names = option.get_value_names().unwrap_or_default();
    let name = names.first().map_or("", |name| name.as_str());
    match name.split('[').next().unwrap() {
        "BYTES:SECONDS" | "RATE:SECONDS" => "7:7",
        "DURATION:USERS" | "DURATION:PER_SECOND" => "7s:7",
        "KEY=VALUE" => "KEY=7",
        "BOOL" => "false",
        "DURATION" => "7s",
        "FILE" => concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        "SHARE" => "0.7",
        _ => "7",
    }
}

/// Returns the plan of a call.
#[track_caller]
fn plan<D: DriverCli>(words: &[String]) -> toml::Table {
    let name = D::SPEC.driver.clone().into_owned();
    let typed = command::<D>().try_get_matches_from([&[name], words].concat());
    let job = job::<D>(typed.unwrap()).map_err(|failure| format!("{words:?}: {failure}"));
    job.unwrap().plan.to_table().unwrap()
}
