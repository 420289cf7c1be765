//! Reads a plan from a TOML file, and applies settings to it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use measure::similar::similar;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toml::Value;

use super::{Invalid, Plan};
use crate::document::{self, Misread};
use crate::number;
use crate::trust::{self, Untrusted};

/// An error in loading a plan file.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file can't be read.
    #[error("--plan {path}: {problem}: {remedy}")]
    Unreadable {
        /// The file.
        path: String,
        /// The error of the system.
        problem: std::io::Error,
        /// The file to name instead.
        remedy: String,
    },
    /// The file has no content.
    #[error(
        "--plan {0}: the file is empty: `--print-plan` of a driver prints a plan to begin with"
    )]
    Empty(String),
    /// The file is not a plan.
    #[error("--plan {path}: {problem}")]
    Malformed {
        /// The file.
        path: String,
        /// The problem, and its position.
        problem: Misread,
    },
    /// The file sets the environment of daemons, and somebody else may have written it.
    #[error("--plan {0}\n  or copy the plan, and check its `daemon_env` before you run it")]
    Untrusted(#[source] Untrusted),
    /// An argument of `--set` names no field or gives no value.
    #[error("--set {setting}: {problem}")]
    Setting {
        /// The argument.
        setting: String,
        /// The problem with it.
        problem: String,
    },
    /// A field can't be run.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// Reads a plan, without checking whether it can be run.
///
/// # Errors
/// The file can't be read, or a field is unknown, missing or of the wrong type. A `daemon_env` decides what a daemon
/// executes, and is refused in a file that somebody else may have written.
pub fn read<D: DeserializeOwned>(path: &Path) -> Result<Plan<D>, PlanError> {
    let shown = || path.display().to_string();
    let unreadable = |problem: std::io::Error| PlanError::Unreadable {
        path: shown(),
        remedy: remedy(path, &problem),
        problem,
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    if text.trim_start_matches('\u{feff}').trim().is_empty() {
        return Err(PlanError::Empty(shown()));
    }
    // Their absence is explained better when the plan is checked.
    let defaults = toml::toml! {
        groups = []
        timeline = {}
        driver = {}
    };
    let plan = document::parse_with(&text, defaults);
    let plan: Plan<D> = plan.map_err(|problem| PlanError::Malformed {
        path: shown(),
        problem,
    })?;
    // A pipe belongs to the caller.
    if plan.sets_environment() && file.metadata().is_ok_and(|file| file.is_file()) {
        trust::require_open(path, &file).map_err(PlanError::Untrusted)?;
    }
    Ok(plan)
}

/// Reads a plan, applies `path=value` settings to it, and checks it.
///
/// # Errors
/// As [`read`], a wrong setting, or a value that can't be run.
pub fn load<D>(path: &Path, settings: &[String]) -> Result<Plan<D>, PlanError>
where
    D: Serialize + DeserializeOwned,
{
    let mut plan = read(path)?.with_settings(settings)?;
    plan.measure_the_stages();
    plan.validate()?;
    Ok(plan)
}

/// Says what to name instead of a file that can't be read.
fn remedy(path: &Path, problem: &std::io::Error) -> String {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if path.is_dir() {
        return format!(
            "name a plan in it, such as {}",
            path.join("NAME.toml").display()
        );
    }
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let plans: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".toml"))
        .collect();
    if problem.kind() == ErrorKind::InvalidData {
        return "save it as UTF-8".to_owned();
    }
    match similar(name, plans.iter().map(String::as_str)) {
        Some(meant) if problem.kind() == ErrorKind::NotFound => {
            format!("did you mean {}?", folder.join(meant).display())
        }
        _ => "give the path of a plan; `drover list` shows the plans of this project".to_owned(),
    }
}

impl<D: Serialize + DeserializeOwned> Plan<D> {
    /// Applies `path=value` settings. A value may be written as an option takes it: `10k`, or `10` for 10 seconds.
    ///
    /// # Errors
    /// The first setting that names no field, or whose value its field can't take.
    pub fn with_settings(self, settings: &[String]) -> Result<Self, PlanError> {
        if settings.is_empty() {
            return Ok(self);
        }
        let check = |table: toml::Table| document::from_table::<Self>(table).map(drop);
        let table = with_settings(&self.to_table()?, settings, &check)?;
        document::from_table(table).map_err(|error| {
            // Each alone may be right.
            wrong(&settings.join(" --set "), &error)
        })
    }
}

impl<D: Serialize> Plan<D> {
    /// Returns the plan as a table, with its fields in their order.
    ///
    /// # Errors
    /// A number that no table can hold.
    pub fn to_table(&self) -> Result<toml::Table, Invalid> {
        toml::Table::try_from(self).map_err(|error| unwritable(&error))
    }

    /// Returns the plan as it is stored in a result.
    ///
    /// # Errors
    /// See [`to_table`](Self::to_table).
    ///
    /// # Panics
    /// Never: all values of a table are values of JSON.
    pub fn to_json(&self) -> Result<serde_json::Value, Invalid> {
        let table = self.to_table()?;
        Ok(serde_json::to_value(table).expect("a table is text, numbers, lists and tables"))
    }

    /// Returns the plan as the text of a plan file.
    ///
    /// # Errors
    /// See [`to_table`](Self::to_table).
    pub fn to_toml(&self) -> Result<String, Invalid> {
        toml::to_string(&self.to_table()?).map_err(|error| unwritable(&error))
    }
}

fn unwritable(problem: &toml::ser::Error) -> Invalid {
    let problem = format!("{problem}: use whole numbers below 2^63 (9223372036854775808)");
    Invalid::new("the plan", problem)
}

fn wrong(setting: &str, problem: &impl ToString) -> PlanError {
    PlanError::Setting {
        setting: setting.to_owned(),
        problem: problem.to_string(),
    }
}

/// Applies settings to a plan. `check` says whether a table is a plan of the driver.
fn with_settings(
    plain: &toml::Table,
    settings: &[String],
    check: &dyn Fn(toml::Table) -> Result<(), Misread>,
) -> Result<toml::Table, PlanError> {
    let mut table = plain.clone();
    for setting in settings {
        let readings = readings(setting).map_err(|problem| wrong(setting, &problem))?;
        let mut first_problem = None;
        let mut chosen = None;
        for value in &readings {
            // Alone, because two settings may be right only together.
            let mut alone = plain.clone();
            set(&mut alone, setting, value).map_err(|problem| wrong(setting, &problem))?;
            match check(alone) {
                Ok(()) => {
                    chosen = Some(value);
                    break;
                }
                Err(error) => {
                    first_problem.get_or_insert(error);
                }
            }
        }
        let is_only = settings.len() == 1;
        let value = match (chosen, first_problem) {
            (None, Some(problem)) if is_only => return Err(wrong(setting, &problem)),
            (chosen, _) => chosen.unwrap_or(&readings[0]),
        };
        set(&mut table, setting, value).map_err(|problem| wrong(setting, &problem))?;
    }
    Ok(table)
}

/// Returns the values that a setting may mean, the likeliest first: TOML or a plain text, and then what an option would
/// make of it.
fn readings(setting: &str) -> Result<Vec<Value>, String> {
    let (_, text) = setting
        .split_once('=')
        .ok_or("write it as path=value, such as timeline.measure=10s")?;
    let written = toml::from_str::<toml::Table>(&format!("value = {text}"))
        .ok()
        .and_then(|mut table| table.remove("value"));
    let typed = match &written {
        Some(Value::Integer(_) | Value::Float(_)) => Some(Value::String(format!("{text}s"))),
        Some(_) => None,
        None => number::decimal(text).ok().map(|number| {
            if number.fract() == 0.0 {
                Value::Integer(number as i64)
            } else {
                Value::Float(number)
            }
        }),
    };
    let first = written.unwrap_or_else(|| Value::String(text.to_owned()));
    Ok([Some(first), typed].into_iter().flatten().collect())
}

/// Applies a value to `path.to.key`; a number in the path is an index into a list.
fn set(table: &mut toml::Table, setting: &str, value: &Value) -> Result<(), String> {
    let wrong = |problem: &str| problem.to_owned();
    let path = setting.split('=').next().unwrap_or_default();
    let mut keys = path.split('.');
    let last = keys
        .next_back()
        .filter(|key| !key.is_empty())
        .ok_or_else(|| wrong("names no field"))?;
    let mut current = table;
    while let Some(key) = keys.next() {
        let entry = current
            .entry(key)
            .or_insert_with(|| Value::Table(toml::Table::new()));
        current = match entry {
            Value::Array(list) => {
                let index = keys
                    .next()
                    .and_then(|index| index.parse::<usize>().ok())
                    .ok_or_else(|| {
                        wrong("is a list: name an index in it, such as groups.0.rate")
                    })?;
                list.get_mut(index)
                    .and_then(Value::as_table_mut)
                    .ok_or_else(|| wrong("has no entry with that index"))?
            }
            Value::Table(table) => table,
            _ => return Err(wrong("goes through a field that is not a table")),
        };
    }
    // An older name of the field.
    let last = match (path.starts_with("groups."), last) {
        (true, "workers") => "clients",
        (_, last) => last,
    };
    if last == "clients" {
        current.remove("workers");
    }
    current.insert(last.to_owned(), value.clone());
    Ok(())
}

#[cfg(test)]
mod tests {
    use test_kit::{assert_contains, rows};

    use super::*;

    #[derive(Debug, Default, Clone, Serialize, serde::Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Settings {
        path: String,
        #[serde(with = "crate::duration")]
        timeout: std::time::Duration,
    }

    fn plan() -> Plan<Settings> {
        let text = "name = 'p'\n[timeline]\nmeasure = '1s'\ndrain = '1s'\n[[groups]]\nname = 'g'\nclients = 3\n[driver]\n";
        document::parse(text).expect("the text is a plan")
    }

    #[test]
    fn a_setting_takes_what_an_option_takes() {
        let set = |settings: &[&str]| {
            let settings: Vec<String> = settings.iter().map(|&text| text.to_owned()).collect();
            plan().with_settings(&settings).expect("the settings fit")
        };
        let plan = set(&[
            "groups.0.clients=10k",
            "timeline.measure=2m",
            "timeline.drain=30",
            "driver.timeout=1.5",
            "driver.path=10k",
        ]);
        assert_eq!(plan.groups[0].clients, 10_000);
        assert_eq!(plan.timeline.measure.as_secs(), 120);
        assert_eq!(plan.timeline.drain.as_secs(), 30);
        assert_eq!(plan.driver.timeout.as_millis(), 1_500);
        assert_eq!(plan.driver.path, "10k");
        assert_eq!(set(&["groups.0.rate=1.5m"]).groups[0].rate, Some(1.5e6));
    }

    #[test]
    fn a_setting_that_does_not_fit_is_named_with_the_remedy() {
        let table = "
            timeline.measure => write it as path=value … 10s
            timeline.measre=10s => `measre` … did you mean `measure`?
            group.0.clients=1 => `group` … did you mean `groups`?
            groups.clients=1 => is a list … groups.0.rate
            groups.7.clients=1 => no entry with that index … groups.7
            groups.0.clients=many => groups[0].clients … without quotes
            driver.pth=/x => `pth` … did you mean `path`?
            driver.timeout=soon => driver.timeout … such as 1m30s
        ";
        for (setting, parts) in rows(table) {
            let settings = [setting.to_owned()];
            let error = plan()
                .with_settings(&settings)
                .expect_err("it does not fit");
            let error = error.to_string();
            assert_contains(&error, &parts);
            assert!(error.starts_with("--set "), "{error}");
        }
    }

    #[test]
    fn errors_in_a_plan_are_named_with_their_line_also_in_the_settings_of_the_driver() {
        let begin =
            "name = 'p'\n[timeline]\nmeasure = '1s'\ndrain = '1s'\n[[groups]]\nname = 'g'\n";
        let table = r#"
            clients = '3'\n[driver]\n => line 7: groups[0].clients: must be a whole number, without quotes, not the text "3"
            clients = 3\n[driver]\npath = 'x'\npth = 'x'\n => line 10: driver: unknown field `pth`: did you mean `path`?
            clients = 3\n[driver]\npath = 5\n => line 9: driver.path: must be a text in quotes, not the number 5
            clients = 3\n[driver]\n\n[tmeline]\nwarmup = '1s'\n => line 10: unknown field `tmeline`: did you mean `timeline`?
        "#;
        for (end, expected) in rows(table) {
            let end = end.replace(r"\n", "\n");
            let error = document::parse::<Plan<Settings>>(&format!("{begin}{end}"))
                .expect_err("it is wrong");
            assert_eq!(error.to_string(), expected[0]);
        }
    }

    #[test]
    fn the_older_name_of_clients_is_read_in_files_and_settings() {
        let text = |field: &str| {
            format!(
                "name = 'p'\n[timeline]\nmeasure = '1s'\ndrain = '1s'\n[[groups]]\nname = 'g'\n{field} = 3\n[driver]\n"
            )
        };
        for (field, settings, expected) in [
            ("clients", vec![], 3),
            ("workers", vec![], 3),
            ("workers", vec!["groups.0.clients=5".to_owned()], 5),
            ("clients", vec!["groups.0.workers=5".to_owned()], 5),
        ] {
            let folder = tempfile::tempdir().expect("a folder for temporary files");
            let path = folder.path().join("plan.toml");
            std::fs::write(&path, text(field)).expect("the folder is writable");
            let plan: Plan<toml::Table> = load(&path, &settings).expect("the plan can be run");
            assert_eq!(plan.groups[0].clients, expected, "{field} {settings:?}");
            let stored = toml::to_string(&plan).expect("a plan can be stored");
            assert!(stored.contains("clients = ") && !stored.contains("workers"));
        }
    }

    #[test]
    fn a_plan_that_is_not_text_is_to_be_saved_as_utf_8() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let path = folder.path().join("plan.toml");
        std::fs::write(&path, b"name = '\xff'").expect("the folder is writable");
        let error = read::<toml::Table>(&path).expect_err("it is not UTF-8");
        assert!(error.to_string().ends_with("save it as UTF-8"), "{error}");
    }

    const TEXT: &str = "name = 'p'\nseed = 7\n[timeline]\nmeasure = '1500ms'\ndrain = '1s'\n[[groups]]\nname = 'g'\nrate = 0.1\n[[faults]]\nsignal = 'STOP'\nat = '1s'\nback_after = '10ms'\n[driver]\nz = 1\na = [{ deep = true }]\n";

    #[test]
    fn a_plan_comes_back_from_its_text_with_its_fields_in_their_order() {
        let plan: Plan<toml::Table> = document::parse(TEXT).expect("the text is a plan");
        let text = plan.to_toml().expect("a plan that was read can be written");
        assert_eq!(document::parse(&text), Ok(plan.clone()));
        let position = |part: &str| text.find(part).expect("the field is written");
        assert!(position("name = ") < position("[timeline]"), "{text}");
        assert!(position("z = 1") < position("deep = true"), "{text}");
        let stored = plan.to_json().expect("a plan that was read can be stored");
        assert_eq!(stored["seed"], 7);
        assert_eq!(stored["groups"][0]["rate"], 0.1);
        assert_eq!(stored["driver"]["a"][0]["deep"], true);
    }

    #[test]
    fn a_number_that_no_plan_file_holds_is_refused() {
        let mut plan: Plan<toml::Table> = document::parse(TEXT).expect("the text is a plan");
        plan.seed = u64::MAX;
        let problem = plan.to_json().expect_err("the seed is too large");
        assert!(problem.to_string().contains("2^63"), "{problem}");
    }
}
