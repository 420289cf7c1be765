//! The daemons of the workspace, for tests that launch them.

use std::fmt::Display;

use subject::daemon::{Daemon, DaemonError, Prepared};
use subject::manifest;
use test_kit::skip;

/// Prepares a daemon that serves a protocol. Returns `None`, and reports the test as skipped, if a tool that the daemon
/// needs is missing.
///
/// # Panics
/// The daemon is unknown or serves other protocols, its manifest is wrong, or its build fails.
#[must_use]
#[track_caller]
pub fn prepared(name: &str, serves: &str) -> Option<Prepared> {
    try_prepared(name, serves).unwrap_or_else(|error| panic!("{error}"))
}

#[track_caller]
fn try_prepared(name: &str, serves: &str) -> Result<Option<Prepared>, DaemonError> {
    let root = manifest::find_root().unwrap();
    match Daemon::prepare(&root, name, serves, &mut |_| {}) {
        Err(DaemonError::ToolMissing { tool, .. }) => {
            skip(format_args!("{tool}, for {name}"));
            Ok(None)
        }
        prepared => prepared.map(Some),
    }
}

/// Performs a check on every daemon that serves a protocol. Null peers are left out: they support only the requests of the
/// drivers. A daemon whose tools are missing is reported as skipped.
///
/// # Panics
/// A check failed, or there is no such daemon. The message has the errors of all daemons.
#[track_caller]
pub fn on_each<E: Display>(serves: &str, check: impl Fn(&Prepared) -> Result<(), E>) {
    let all = manifest::list(manifest::find_root().unwrap()).unwrap();
    let names: Vec<String> = all
        .into_iter()
        .filter(|(_, manifest)| manifest.serves.iter().any(|served| served == serves))
        .filter(|(_, manifest)| manifest.program.as_deref() != Some("null-peer"))
        .map(|(name, _)| name)
        .collect();
    assert!(!names.is_empty(), "no daemon serves {serves}");
    let mut failures = Vec::new();
    for name in names {
        let checked = match try_prepared(&name, serves) {
            Ok(Some(prepared)) => check(&prepared).map_err(|error| format!("{error:#}")),
            Ok(None) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = checked {
            failures.push(format!("{name}: {error}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
