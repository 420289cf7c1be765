//! The database of a call.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use issue_rpc::database_identity;

use crate::failure::Failure;

/// The database of a folder, and of all folders in it.
const DATABASE: &str = ".issues/issues.db";

/// Returns the identity of the database that was given, or else of the nearest one in this folder and those above it.
pub(crate) fn find(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = match given {
        Some(path) => path.to_owned(),
        None => nearest()?,
    };
    if !path.exists() {
        return Err(Failure::Usage(format!(
            "the database {0} does not exist: correct --db, or create it with `issue init --db {0}`",
            path.display()
        )));
    }
    identity(&path)
}

/// Returns the identity of a database that is to be created, whose folder is created for this user alone.
pub(crate) fn prepare(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = given.unwrap_or(Path::new(DATABASE));
    if path.exists() {
        return Err(Failure::Usage(format!(
            "{} exists already: use it, or give another path with --db",
            path.display()
        )));
    }
    if let Some(folder) = path.parent() {
        let created = std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder);
        created.map_err(|error| {
            Failure::Usage(format!("cannot create {}: {error}", folder.display()))
        })?;
    }
    identity(path)
}

fn identity(path: &Path) -> Result<PathBuf, Failure> {
    database_identity(path)
        .map_err(|error| Failure::Usage(format!("cannot use {}: {error}", path.display())))
}

fn nearest() -> Result<PathBuf, Failure> {
    let here = std::env::current_dir()
        .map_err(|error| Failure::Usage(format!("cannot read the working folder: {error}")))?;
    let candidates = here.ancestors().map(|folder| folder.join(DATABASE));
    let found = candidates.into_iter().find(|path| path.exists());
    found.ok_or_else(|| {
        Failure::Usage(format!(
            "no {DATABASE} is in {} or above it: run `issue init`, or give a database with --db or ISSUE_DB",
            here.display()
        ))
    })
}
