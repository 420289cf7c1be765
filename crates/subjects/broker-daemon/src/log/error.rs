//! Errors of a log. Each names the file, and the remedy if there is one.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::format::VERSION;

/// A reason why a log cannot be opened, or cannot continue.
#[derive(Debug, Error)]
pub enum Error {
    /// Another process has the folder open.
    #[error("{}: in use by another broker: stop it, or choose another folder", dir.display())]
    Locked {
        /// The folder.
        dir: PathBuf,
    },
    /// A file in a format that this version cannot read.
    #[error("{}: written in format {found}, but this broker reads format {VERSION}: use the broker version that wrote it", file.display())]
    Version {
        /// The segment.
        file: PathBuf,
        /// Its version of the format.
        found: u32,
    },
    /// A file that is named like a segment but has other content.
    #[error("{}: not a segment of a log: move it out of the folder, or start with --salvage, which moves it", file.display())]
    NotALog {
        /// The file.
        file: PathBuf,
    },
    /// Bytes that were on disk have changed since, or are missing.
    #[error("{}: damaged at byte {offset} ({what}): restore the folder from a backup, or keep the readable part with --salvage", file.display())]
    Corrupt {
        /// The segment.
        file: PathBuf,
        /// The end of its intact part, in bytes.
        offset: u64,
        /// Description of the damage.
        what: &'static str,
    },
    /// A missing file between two others.
    #[error("{}: missing, though older segments exist: restore the folder from a backup, or keep the readable part with --salvage", file.display())]
    Missing {
        /// The segment.
        file: PathBuf,
    },
    /// A failed system call.
    #[error("{}: {doing}", path.display())]
    Io {
        /// The action that failed.
        doing: &'static str,
        /// The file or folder that it concerned.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}
