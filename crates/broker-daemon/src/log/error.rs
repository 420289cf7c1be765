//! What can go wrong with a log: each names the file, and what to do where something can be done.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::format::VERSION;

/// Why a log can't be opened, or can't go on.
#[derive(Debug, Error)]
pub enum Error {
    /// Another process has the folder open.
    #[error("{}: another broker uses this folder: stop it, or choose another folder", dir.display())]
    Locked {
        /// The folder.
        dir: PathBuf,
    },
    /// A file that this version can't read.
    #[error("{}: written in format {found}, and this broker reads format {VERSION}: use the broker that wrote it", file.display())]
    Version {
        /// The segment.
        file: PathBuf,
        /// Its version of the format.
        found: u32,
    },
    /// A file with the name of a segment and the content of something else.
    #[error("{}: not a segment of a log: move it out of the folder, or start with --salvage, which does", file.display())]
    NotALog {
        /// The file.
        file: PathBuf,
    },
    /// Bytes that were on disk have changed since, or are gone.
    #[error("{}: damaged at byte {offset} ({what}): restore the folder from a backup, or keep what is readable with --salvage", file.display())]
    Corrupt {
        /// The segment.
        file: PathBuf,
        /// Where its sound part ends, in bytes.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// A file is gone from between two others.
    #[error("{}: missing, though older segments are there: restore the folder from a backup, or keep what is readable with --salvage", file.display())]
    Missing {
        /// The segment.
        file: PathBuf,
    },
    /// The system refused.
    #[error("{}: {doing}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}
