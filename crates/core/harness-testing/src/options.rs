//! The options of a driver that shape a load, and the fields of a plan that each sets.

use std::collections::BTreeSet;

use clap::builder::PossibleValue;
use clap::{Arg, ArgMatches, Command};
use tempfile::NamedTempFile;
use toml::{Table, Value};

/// The conditions under which options can be tried.
#[derive(Debug, Clone, Copy)]
pub struct Needs<'a> {
    /// Options on which the defaults of other fields depend where no plan is given.
    pub defaults: &'a [&'a str],
    /// Options that need another one, each with that.
    pub others: &'a [(&'a str, &'a str)],
}

/// Tries each option of a driver that shapes a load: it changes a plan of a file as it changes the default one. Returns
/// the spellings of each, and the fields that it sets, for the page of the driver. `plan` returns the plan of a call.
///
/// # Panics
/// An option is refused, or a plan of a file becomes another one.
#[track_caller]
pub fn rows<E: ToString>(
    command: &Command,
    needs: Needs<'_>,
    plan: impl Fn(ArgMatches) -> Result<Table, E>,
) -> Vec<[String; 2]> {
    let plan = |words: &[&str]| {
        let words = [&[command.get_name()], words].concat();
        let typed = command.clone().try_get_matches_from(words);
        plan(typed.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
    };
    let mut default = plan(&[]).expect("a call without options is accepted");
    // What is chosen for the target where a plan leaves it open stays open.
    default["driver"] = Value::Table(Table::new());
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), default.to_string()).unwrap();
    let file = format!("--plan={}", file.path().display());
    let row = |option: &Arg| {
        let long = option.get_long().unwrap();
        let word = typed(option);
        let other = needs.others.iter().find(|(name, _)| *name == long);
        let other = other.map(|(_, other)| *other);
        let words: Vec<&str> = [&*word].into_iter().chain(other).collect();
        let of_file = plan(&[&[&*file], &*words].concat());
        let of_file = of_file.unwrap_or_else(|error| panic!("{words:?}: {error}"));
        let is_same = Ok(&of_file) == plan(&words).as_ref();
        let depends = needs.defaults.contains(&long);
        assert_eq!(is_same, !depends, "{words:?} on a plan: {of_file}");
        // What an option needs is not listed with it, if that can stand alone.
        let alone = other.and_then(|other| plan(&[&file, other]).ok());
        let before = alone.unwrap_or_else(|| plan(&[&file]).unwrap());
        let [before, after] = [before, of_file].map(|plan| fields(&plan));
        let changed = before.symmetric_difference(&after);
        let changed: BTreeSet<String> = changed.map(|(path, _)| format!("`{path}`")).collect();
        let changed = match changed.len() {
            0 => "none: it is accepted and ignored".to_owned(),
            _ => Vec::from_iter(changed).join(", "),
        };
        let shorts = option.get_short_and_visible_aliases().unwrap_or_default();
        let longs = option.get_long_and_visible_aliases().unwrap();
        let longs = longs.iter().map(|long| format!("`--{long}`"));
        let shorts = shorts.iter().map(|letter| format!("`-{letter}`"));
        [longs.chain(shorts).collect::<Vec<_>>().join(", "), changed]
    };
    let options = command.get_opts().filter(|option| shapes_a_load(option));
    let mut rows: Vec<[String; 2]> = options.map(row).collect();
    rows.sort();
    rows
}

/// Returns the values of a plan by their paths, as `--set` writes them.
fn fields(plan: &Table) -> BTreeSet<(String, String)> {
    fn add(path: &str, value: &Value, fields: &mut BTreeSet<(String, String)>) {
        let below = |key: &str| format!("{path}.{key}").trim_start_matches('.').to_owned();
        match value {
            Value::Table(table) => {
                table
                    .iter()
                    .for_each(|(key, value)| add(&below(key), value, fields));
            }
            Value::Array(groups) if path == "groups" => {
                groups
                    .iter()
                    .for_each(|group| add("groups.N", group, fields));
            }
            value => drop(fields.insert((path.to_owned(), value.to_string()))),
        }
    }
    let mut fields = BTreeSet::new();
    add("", &Value::Table(plan.clone()), &mut fields);
    fields
}

/// Returns true if an option says what the load is, and not what is measured, where, and how it is reported.
fn shapes_a_load(option: &Arg) -> bool {
    let others = ["Common options", "Isolation", "One run on several machines"];
    let heading = option.get_help_heading();
    heading.is_some_and(|heading| !others.contains(&heading))
}

/// Returns an option with a value that differs from its default.
fn typed(option: &Arg) -> String {
    let long = option.get_long().unwrap();
    if !option.get_action().takes_values() {
        return format!("--{long}");
    }
    let values = option.get_possible_values();
    let defaults = option.get_default_values();
    let is_default = |name: &&str| defaults.iter().any(|value| value == name);
    let mut names = values.iter().map(PossibleValue::get_name).rev();
    let value = names
        .find(|name| !is_default(name))
        .unwrap_or_else(|| sample(option));
    format!("--{long}={value}")
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
        "DISTRIBUTION" => "poisson",
        "FILE" => concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
        "LOG" => concat!(env!("CARGO_MANIFEST_DIR"), "/src/options/access.txt"),
        "SHARE" => "0.7",
        _ => "7",
    }
}
