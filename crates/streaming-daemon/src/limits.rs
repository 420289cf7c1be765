//! The limit of open files.

use anyhow::Context;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard one and returns it.
///
/// # Errors
/// When the system refuses, which it does not within the hard limit.
pub fn raise_open_files() -> anyhow::Result<u64> {
    let (soft, hard) = open_files()?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
            .context("raising the limit of open files to the hard limit")?;
    }
    Ok(hard)
}

/// The soft and the hard limit of open files.
pub(crate) fn open_files() -> anyhow::Result<(u64, u64)> {
    getrlimit(Resource::RLIMIT_NOFILE).context("reading the limit of open files")
}
