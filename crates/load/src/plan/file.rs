//! Reads a plan from a TOML file, and applies settings to it.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{Invalid, Plan};
use crate::trust::{self, Untrusted};

/// An error in loading a plan file.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The file can't be read.
    #[error("--plan {path}: {problem}: give the path of a plan, such as one of configs/")]
    Unreadable {
        /// The file.
        path: String,
        /// The error of the system.
        problem: std::io::Error,
    },
    /// The file is not a plan.
    #[error("--plan {path}: {problem}")]
    Malformed {
        /// The file.
        path: String,
        /// The problem, and its position.
        problem: String,
    },
    /// The plan is for another driver.
    #[error(
        "--plan {path}: this plan is for another driver, of `{protocol}`: run it with the driver of `{protocol}` (drover list names it), or take a plan of `{wanted}`"
    )]
    OtherProtocol {
        /// The file.
        path: String,
        /// The protocol of the plan.
        protocol: String,
        /// The protocol of the driver that was called.
        wanted: String,
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

/// Reads a plan, applies `path=value` settings to it, and checks it.
///
/// # Errors
/// The file can't be read, a key is unknown or missing (named with its line), or a value can't be run. A `daemon_env`
/// decides what a daemon executes, and is refused in a file that somebody else may have written.
pub fn load<D: DeserializeOwned>(path: &Path, settings: &[String]) -> Result<Plan<D>, PlanError> {
    read(path, settings, None)
}

/// Reads a plan as [`load`] does, for the driver of a protocol. A plan that names another one is refused before its
/// other fields are looked at: the settings of another driver would be reported as unknown.
///
/// # Errors
/// As those of [`load`], and a plan for another driver.
pub fn load_for<D: DeserializeOwned>(
    path: &Path,
    settings: &[String],
    protocol: &str,
) -> Result<Plan<D>, PlanError> {
    read(path, settings, Some(protocol))
}

/// The field that decides which driver reads the others.
#[derive(Deserialize)]
struct Addressed {
    protocol: Option<String>,
}

fn read<D: DeserializeOwned>(
    path: &Path,
    settings: &[String],
    wanted: Option<&str>,
) -> Result<Plan<D>, PlanError> {
    let shown = path.display().to_string();
    let malformed = |problem: String| PlanError::Malformed {
        path: shown.clone(),
        problem,
    };
    let unreadable = |problem| PlanError::Unreadable {
        path: shown.clone(),
        problem,
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(unreadable)?;
    let addressed = toml::from_str(&text).ok();
    let addressed = addressed.and_then(|Addressed { protocol }| protocol);
    if let (Some(protocol), Some(wanted)) = (addressed, wanted)
        && protocol != wanted
    {
        return Err(PlanError::OtherProtocol {
            path: shown,
            protocol,
            wanted: wanted.to_owned(),
        });
    }
    let mut plan: Plan<D> = if settings.is_empty() {
        toml::from_str(&text).map_err(|error| malformed(error.to_string()))?
    } else {
        let mut table: toml::Table =
            toml::from_str(&text).map_err(|error| malformed(error.to_string()))?;
        settings
            .iter()
            .try_for_each(|setting| set(&mut table, setting))?;
        let settings = settings.join(" --set ");
        table.try_into().map_err(|error: toml::de::Error| {
            malformed(format!("with --set {settings}: {}", error.message()))
        })?
    };
    // A pipe belongs to the caller.
    if plan.sets_environment() && file.metadata().is_ok_and(|file| file.is_file()) {
        trust::require_open(path, &file).map_err(PlanError::Untrusted)?;
    }
    plan.measure_the_stages();
    plan.validate()?;
    Ok(plan)
}

/// Applies `path.to.key=value`; a number in the path is an index into a list. The value is TOML, or else a plain
/// string.
fn set(table: &mut toml::Table, setting: &str) -> Result<(), PlanError> {
    let wrong = |problem: &str| PlanError::Setting {
        setting: setting.to_owned(),
        problem: problem.to_owned(),
    };
    let (path, value) = setting
        .split_once('=')
        .ok_or_else(|| wrong("write it as path=value, such as timeline.measure=10s"))?;
    let value = toml::from_str::<toml::Table>(&format!("value = {value}"))
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| toml::Value::String(value.to_owned()));
    let mut keys = path.split('.');
    let last = keys
        .next_back()
        .filter(|key| !key.is_empty())
        .ok_or_else(|| wrong("names no field"))?;
    let mut current = table;
    while let Some(key) = keys.next() {
        let entry = current
            .entry(key)
            .or_insert_with(|| toml::Value::Table(toml::Table::new()));
        current = match entry {
            toml::Value::Array(list) => {
                let index = keys
                    .next()
                    .and_then(|index| index.parse::<usize>().ok())
                    .ok_or_else(|| {
                        wrong("is a list: name an index in it, such as groups.0.rate")
                    })?;
                list.get_mut(index)
                    .and_then(toml::Value::as_table_mut)
                    .ok_or_else(|| wrong("has no entry with that index"))?
            }
            toml::Value::Table(table) => table,
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
    current.insert(last.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_of_another_driver_is_refused_before_its_settings_are_read() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let path = folder.path().join("plan.toml");
        let text = "name = 'p'\nprotocol = 'http'\n[timeline]\nmeasure = '1s'\ndrain = '1s'\n[[groups]]\nname = 'g'\nclients = 3\n[driver]\nof_http = 1\n";
        std::fs::write(&path, text).expect("the folder is writable");
        let error = load_for::<toml::Table>(&path, &[], "amqp").unwrap_err();
        let PlanError::OtherProtocol {
            protocol, wanted, ..
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!((protocol.as_str(), wanted.as_str()), ("http", "amqp"));
        let plan = load_for::<toml::Table>(&path, &[], "http").expect("the driver is right");
        assert!(
            toml::to_string(&plan)
                .expect("a plan is TOML")
                .contains("protocol = \"http\"")
        );
        load::<toml::Table>(&path, &[]).expect("a suite takes the plans of all drivers");
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
}
