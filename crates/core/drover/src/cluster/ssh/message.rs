//! Messages between this program and the copy of it on a host, over the two pipes of an ssh connection: a line of JSON, and
//! the content of a file after it.

use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, Read as _, Write};
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, ensure};
use harness::store;
use measure::machine::Machine;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::doctor::{Finding, Needs};

/// The first line of the copy: what a shell has printed before it is ignored.
pub(super) const READY: &str = "drover-host-is-ready";

/// A message to a host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToHost {
    /// The clock is asked for. Without a message for a while the host ends what it runs.
    Ping,
    /// A file, at a path below the folder of the host.
    File { path: String, kind: FileKind },
    /// The needs of what the host will launch: daemons, and one shard.
    Check {
        daemons: Vec<Needs>,
        shards: Vec<Needs>,
    },
    /// A program of the folder is to run as a part of the run. Its result will be in this folder of the run, with the
    /// command line of the suite.
    Start {
        part: String,
        suite: String,
        program: String,
        arguments: Vec<String>,
    },
    /// All parts are asked to end.
    Interrupt,
    /// Another run begins: the files of the last one are removed.
    Clear,
}

/// The way in which a file is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FileKind {
    /// The file replaces the one that is there.
    Whole,
    /// The same, and it can be executed.
    Program,
    /// The content is the next piece of a file that grows.
    Piece,
}

impl FileKind {
    /// Stores a file, with the folders above it.
    ///
    /// # Errors
    /// The path is not below the folder, or cannot be written.
    pub(super) fn store(
        self,
        folder: &Path,
        path: &str,
        content: &[u8],
    ) -> anyhow::Result<PathBuf> {
        ensure!(is_below(path), "the file {path} is not below the folder");
        let file = folder.join(path);
        let writing = || format!("writing {}", file.display());
        fs::create_dir_all(file.parent().unwrap_or(folder)).with_context(writing)?;
        match self {
            Self::Whole => store::write_whole(&file, content)?,
            Self::Program => {
                store::write_whole(&file, content)?;
                fs::set_permissions(&file, Permissions::from_mode(0o755)).with_context(writing)?;
            }
            Self::Piece => {
                let grown = File::options().create(true).append(true).open(&file);
                grown
                    .and_then(|mut it| it.write_all(content))
                    .with_context(writing)?;
            }
        }
        Ok(file)
    }
}

/// Returns true if a path from the other side of a connection stays below the folder that it is for.
fn is_below(path: &str) -> bool {
    let mut parts = Path::new(path).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// A message from a host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromHost {
    /// Unix time in nanoseconds.
    Pong { unix_ns: u64 },
    /// The state of the host.
    Checked(Box<HostState>),
    /// A file of the run, new or changed.
    File { path: String, kind: FileKind },
    /// A part has ended, and all of its files were sent.
    Ended {
        part: String,
        code: Option<i32>,
        problem: String,
    },
}

/// The state of a host before the start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct HostState {
    pub(super) machine: Machine,
    /// Free space for results, bytes.
    pub(super) free_bytes: u64,
    /// The address at which ssh has reached the host.
    pub(super) address: Option<IpAddr>,
    pub(super) findings: Vec<Finding>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Frame<M> {
    message: M,
    /// Size of the content.
    bytes: u64,
}

/// Sends a message with the content of its file.
///
/// # Errors
/// The error of the pipe.
pub(super) fn send(
    to: &mut impl Write,
    message: &impl Serialize,
    content: &[u8],
) -> io::Result<()> {
    let bytes = content.len() as u64;
    serde_json::to_writer(&mut *to, &Frame { message, bytes })?;
    to.write_all(b"\n")?;
    to.write_all(content)?;
    to.flush()
}

/// Receives the next message, with the content of its file; `None` at the end.
///
/// # Errors
/// The error of the pipe, a message that is cut off, or something else than a message.
pub(super) fn receive<M: DeserializeOwned>(
    from: &mut impl BufRead,
) -> io::Result<Option<(M, Vec<u8>)>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let Frame { message, bytes } = serde_json::from_str(&line)?;
    let mut content = Vec::new();
    if from.take(bytes).read_to_end(&mut content)? as u64 != bytes {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some((message, content)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_other_side_stay_below_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let store = |path: &str, kind: FileKind| kind.store(folder.path(), path, b"a\n");
        for path in ["", "/etc/x", "../x", "run/../../x", "."] {
            assert!(store(path, FileKind::Whole).is_err(), "{path}");
        }
        for kind in [FileKind::Whole, FileKind::Piece] {
            store("run/shard-0/live.jsonl", kind).unwrap();
        }
        let program = store("run/x", FileKind::Program).unwrap();
        let text = fs::read_to_string(program.with_file_name("shard-0/live.jsonl")).unwrap();
        assert_eq!(text, "a\na\n");
        assert_eq!(
            fs::metadata(program).unwrap().permissions().mode() & 0o111,
            0o111
        );
    }

    #[test]
    fn messages_and_files_are_received_as_they_were_sent() {
        let mut pipe = Vec::new();
        let file = ToHost::File {
            path: "a b\n'c'".to_owned(),
            kind: FileKind::Program,
        };
        send(&mut pipe, &file, b"{\n\0").unwrap();
        send(&mut pipe, &ToHost::Ping, b"").unwrap();
        let mut from = pipe.as_slice();
        let Some((ToHost::File { path, .. }, content)) = receive(&mut from).unwrap() else {
            panic!("it was a file");
        };
        assert_eq!(
            (path.as_str(), content.as_slice()),
            ("a b\n'c'", &b"{\n\0"[..])
        );
        assert!(matches!(receive(&mut from), Ok(Some((ToHost::Ping, _)))));
        assert!(matches!(receive::<ToHost>(&mut from), Ok(None)));
        let cut = &pipe[..pipe.iter().position(|byte| *byte == b'\n').unwrap() + 2];
        assert!(receive::<ToHost>(&mut &*cut).is_err());
    }
}
