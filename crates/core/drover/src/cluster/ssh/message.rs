//! Messages between this program and the copy of it on a host, over the two pipes of an ssh connection: a line of JSON, and
//! the content of a file after it.

use std::io::{self, BufRead, Read as _, Write};
use std::net::IpAddr;

use harness::live::LiveSecond;
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
    /// A file, at a path below the folder of the host; it can be executed if it is a program.
    File { path: String, is_program: bool },
    /// The needs of what the host will launch: daemons, and one shard.
    Check {
        daemons: Vec<Needs>,
        shards: Vec<Needs>,
    },
    /// A program of the folder is to run as a part of the run. Its result will be in this folder of the run.
    Start {
        part: String,
        program: String,
        arguments: Vec<String>,
    },
    /// All parts are asked to end.
    Interrupt,
    /// Another run begins: the files of the last one are removed.
    Clear,
}

/// A message from a host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromHost {
    /// Unix time in nanoseconds.
    Pong { unix_ns: u64 },
    /// The state of the host.
    Checked(Box<HostState>),
    /// A file of the run, new or changed.
    File { path: String },
    /// A second of a shard's load.
    Second { part: String, second: LiveSecond },
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
    fn messages_and_files_are_received_as_they_were_sent() {
        let mut pipe = Vec::new();
        let file = ToHost::File {
            path: "a b\n'c'".to_owned(),
            is_program: true,
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
