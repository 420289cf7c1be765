//! `drover cluster ssh`: runs suites on several hosts, which this program reaches by ssh. Each run is a divided run: the
//! hosts have no folder in common, so this program passes the files of the run on from each to the others.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::ensure;
use clap::Args;
use harness::drivers::entries;
use harness::failure::Failure;
use harness::launcher;
use serde::{Deserialize, Serialize};

use crate::run::{self, SuiteOptions};

mod agent;
mod check;
mod divided;
mod hosts;
mod message;
mod session;

pub(crate) use hosts::Hosts;

/// The folder of the run, and of the project, below the folder of a host.
const RUN: &str = "run";
const PROJECT: &str = "project";
/// Most shards of a host.
const MOST_SHARDS: u64 = 1_000;

/// Options of the command.
#[derive(Debug, Args)]
pub(crate) struct SshOptions {
    #[command(flatten)]
    placement: Placement,
    #[command(flatten)]
    suite: SuiteOptions,
}

/// The hosts of a suite, as the call named them. They are a part of its definition: figures of other hosts are not
/// comparable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Args)]
pub(crate) struct Placement {
    /// Run on these hosts, as ssh knows them, such as a,b,me@c*2. The first launches the daemon, and each other drives a
    /// share of the load, or as many as follow its `*`
    #[arg(value_name = "HOST[*N],…")]
    hosts: HostList,
    /// Launch the daemon on this host; all hosts of the list drive the load
    #[arg(long, value_name = "HOST", value_parser = parse_host)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    daemon_host: Option<String>,
    /// Let the daemon listen on this address of its host [default: the address at which ssh reaches the host]
    #[arg(long, value_name = "ADDRESS", value_parser = harness::cli::ip_address)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    listen: Option<IpAddr>,
    /// Add this option of ssh, such as --ssh=-Fconfig or --ssh=-oPort=2222. Repeat it for more
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ssh: Vec<String>,
}

impl Placement {
    /// Returns the options of the command line that repeat it.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = vec![self.hosts.to_string()];
        words.extend(
            self.daemon_host
                .iter()
                .map(|host| format!("--daemon-host={host}")),
        );
        words.extend(
            self.listen
                .iter()
                .map(|address| format!("--listen={address}")),
        );
        words.extend(self.ssh.iter().map(|option| format!("--ssh={option}")));
        words
    }
}

/// Hosts, each with its number of shards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct HostList(Vec<(String, u64)>);

impl FromStr for HostList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut hosts: Vec<(String, u64)> = Vec::new();
        for word in text.split(',') {
            let (host, shards) = word.split_once('*').unwrap_or((word, "1"));
            let host = parse_host(host)?;
            let shards = shards
                .parse()
                .ok()
                .filter(|it| (1..=MOST_SHARDS).contains(it));
            let shards = shards.ok_or_else(|| {
                format!("`{word}` must end with the number of its shards, from 1 to {MOST_SHARDS}, such as {host}*2")
            })?;
            if hosts.iter().any(|(known, _)| *known == host) {
                return Err(format!(
                    "`{host}` is named twice: write {host}*2 for two shards"
                ));
            }
            hosts.push((host, shards));
        }
        Ok(Self(hosts))
    }
}

impl TryFrom<String> for HostList {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<HostList> for String {
    fn from(hosts: HostList) -> Self {
        hosts.to_string()
    }
}

impl Display for HostList {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        for (index, (host, shards)) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(to, "{comma}{host}")?;
            if *shards > 1 {
                write!(to, "*{shards}")?;
            }
        }
        Ok(())
    }
}

/// Reads the name of a host. ssh takes a name that begins with `-` for an option, and its configuration may hand the name
/// to a shell.
fn parse_host(text: &str) -> Result<String, String> {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "._-:@[]+".contains(letter);
    let begins_well = |part: &str| !part.is_empty() && !part.starts_with('-');
    if text.chars().all(is_allowed) && text.split('@').all(begins_well) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "`{text}` must be a host as `ssh HOST` takes it: letters, digits and ._-:@[]+, and no `-` at its begin; a Host entry in ~/.ssh/config gives any other a name"
        ))
    }
}

/// Returns all files below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = entries(folder).into_iter();
    let files = entries.flat_map(|path| {
        if path.is_dir() {
            files_below(&path)
        } else {
            vec![path]
        }
    });
    files.collect()
}

/// Runs the suites.
///
/// # Errors
/// A wrong call, a host that cannot be used, or a problem that keeps a suite from beginning.
pub(super) fn run(options: &SshOptions) -> Result<u8, Failure> {
    if options.suite.metrics_addr.is_some() {
        return Err(Failure::Call(anyhow::anyhow!(
            "--metrics-addr: each shard has metrics of its own, and serves none here: leave it out"
        )));
    }
    let runtime = launcher::runtime()?;
    runtime.block_on(run::run(&options.suite, Some(&options.placement)))
}

/// Serves the program that has started this one, on a host.
///
/// # Errors
/// The connection is lost.
pub(super) fn serve() -> Result<(), Failure> {
    agent::serve().map_err(Failure::Run)
}

/// A host with its parts of every run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PlacedHost {
    name: String,
    /// True if it launches the daemon that all shards drive.
    has_daemon: bool,
    /// The indexes of its shards.
    shards: std::ops::Range<u64>,
}

impl Placement {
    /// Places the parts of a run: the daemon's on its host, and the shards in the order of the list. With `own_daemons`
    /// each shard launches a daemon of its own.
    ///
    /// # Errors
    /// No host is left for a part, or one has no part to play.
    fn parts(&self, own_daemons: bool) -> anyhow::Result<Vec<PlacedHost>> {
        let hosts = &self.hosts.0;
        let (first, first_shards) = &hosts[0];
        let daemon_host = match (&self.daemon_host, own_daemons) {
            (Some(_), true) => anyhow::bail!(
                "--daemon-host: the daemon of the plan can be reached on its own machine only, so every host launches one: leave it out"
            ),
            (None, true) => None,
            (Some(host), false) => Some(host),
            (None, false) => {
                ensure!(
                    hosts.len() > 1,
                    "{first}: launches the daemon, and no other host drives the load: name more hosts, or let it do both with --daemon-host {first}"
                );
                ensure!(
                    *first_shards == 1,
                    "{first}*{first_shards}: launches the daemon and drives no share: leave *{first_shards} out, or let it do both with --daemon-host {first}"
                );
                Some(first)
            }
        };
        let drives = |host: &String| self.daemon_host.is_some() || daemon_host != Some(host);
        let mut next = 0;
        let mut placed: Vec<PlacedHost> = hosts
            .iter()
            .map(|(host, shards)| {
                let begin = next;
                next += if drives(host) { *shards } else { 0 };
                PlacedHost {
                    name: host.clone(),
                    has_daemon: daemon_host == Some(host),
                    shards: begin..next,
                }
            })
            .collect();
        if let Some(host) = daemon_host.filter(|_| !placed.iter().any(|host| host.has_daemon)) {
            placed.push(PlacedHost {
                name: host.clone(),
                has_daemon: true,
                shards: next..next,
            });
        }
        Ok(placed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placement(hosts: &str, daemon_host: Option<&str>) -> Placement {
        Placement {
            hosts: hosts.parse().unwrap(),
            daemon_host: daemon_host.map(str::to_owned),
            listen: None,
            ssh: Vec::new(),
        }
    }

    fn placed(hosts: &str, daemon_host: Option<&str>, own: bool) -> Result<String, String> {
        let placed = placement(hosts, daemon_host).parts(own);
        let show = |host: &PlacedHost| {
            let daemon = if host.has_daemon { "+" } else { "" };
            format!("{}{daemon}{:?}", host.name, host.shards)
        };
        let all = |hosts: Vec<PlacedHost>| hosts.iter().map(show).collect::<Vec<_>>().join(" ");
        placed.map(all).map_err(|error| error.to_string())
    }

    #[test]
    fn weights_are_shards_and_the_first_host_has_the_daemon() {
        for (hosts, daemon_host, own, expected) in [
            ("a,b*2,me@c", None, false, "a+0..0 b0..2 me@c2..3"),
            ("a*3,b", Some("a"), false, "a+0..3 b3..4"),
            ("a,b", Some("d"), false, "a0..1 b1..2 d+2..2"),
            ("a*2,b", None, true, "a0..2 b2..3"),
        ] {
            assert_eq!(
                placed(hosts, daemon_host, own).unwrap(),
                expected,
                "{hosts}"
            );
        }
        for (hosts, daemon_host, own, words) in [
            ("a", None, false, "--daemon-host a"),
            ("a*2,b", None, false, "leave *2 out"),
            ("a,b", Some("a"), true, "--daemon-host"),
        ] {
            let error = placed(hosts, daemon_host, own).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn names_that_ssh_or_a_shell_could_take_for_something_else_are_refused() {
        for text in ["a", "a*2,b", "me@10.0.0.1,[::1]", "fe80::1,lab_7.example"] {
            assert_eq!(text.parse::<HostList>().unwrap().to_string(), text);
        }
        for (text, words) in [
            ("-oProxyCommand=x", "no `-` at its begin"),
            ("me@-oProxyCommand=x", "no `-` at its begin"),
            ("a,-F", "no `-` at its begin"),
            ("a;reboot", "letters, digits"),
            ("$(reboot)", "letters, digits"),
            ("a b", "letters, digits"),
            ("a,", "must be a host"),
            ("a*0", "from 1"),
            ("a*x", "from 1"),
            ("a,b,a", "named twice"),
        ] {
            let error = text.parse::<HostList>().unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
