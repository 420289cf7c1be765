//! The check before a run, and the command `check`: two users join a room, and every answer and event is verified.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use harness::cli::lines_of_files;
use harness::failure::Failure;
use harness::verify::check::{self, Finding};
use load::driver::Address;
use subject::daemon::Endpoint;

use crate::protocol::presence::{EventType, Stamp};
use crate::protocol::transport::{Kind, Transport};
use crate::settings::Settings;
use crate::shared::{Server, Shared};
use crate::spec::SPEC;

mod client;
mod conversation;

use client::{Client, JoinedRoom};

/// Maximum time for each step.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The options of a run that say how users reach a server.
const REACHING: [&str; 5] = ["transport", "auth", "headers", "namespace", "subprotocols"];

/// Options of the `check` subcommand.
#[derive(Debug, Args)]
pub struct CheckOptions {
    #[command(flatten)]
    options: check::DaemonsToCheck,
    /// Check servers that are already running
    #[arg(value_name = "URL", conflicts_with = "daemon")]
    urls: Vec<String>,
    #[command(flatten)]
    reaching: Reaching,
}

/// The settings of a check, which takes some of the options of a run.
#[derive(Debug)]
struct Reaching(Settings);

impl Args for Reaching {
    fn augment_args(command: Command) -> Command {
        let run = Settings::augment_args(Command::new("run"));
        let shared = run.get_arguments();
        command.args(shared.filter(|it| REACHING.contains(&it.get_id().as_str())))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Reaching {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let text = |name| matches.get_one::<String>(name).cloned();
        let texts = |name| matches.get_many::<String>(name).unwrap_or_default();
        let transport = matches.get_one::<Kind>("transport");
        Ok(Self(Settings {
            // Only the answers are checked; the daemons use self-signed certificates.
            tls_insecure: true,
            transport: transport.copied().unwrap_or_default(),
            auth: text("auth"),
            headers: texts("headers").cloned().collect(),
            namespace: text("namespace"),
            subprotocols: texts("subprotocols").cloned().collect(),
            ..Settings::default()
        }))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Checks the named servers. Returns true if each answered correctly.
pub(crate) fn run(typed: &CheckOptions) -> Result<bool, Failure> {
    let mut settings = typed.reaching.0.clone();
    settings.read_secrets()?;
    let settings = settings;
    if typed.urls.is_empty() {
        return check::check_daemons(&SPEC.protocol, &typed.options, |name, endpoint| {
            vec![Finding {
                name: name.to_owned(),
                found: check_daemon(endpoint, &settings),
            }]
        });
    }
    let mut all_right = true;
    for url in lines_of_files("URL", typed.urls.clone())? {
        let server = Server::new(&Address::Url(url.clone()), &settings)?;
        let found = verify(&server, &settings);
        all_right &= check::print(&[Finding { name: url, found }])?;
    }
    Ok(all_right)
}

fn check_daemon(endpoint: &Endpoint, settings: &Settings) -> anyhow::Result<String> {
    let url = endpoint.url.clone();
    let url = url.context("its manifest has no `url`")?;
    verify(&Server::new(&Address::Url(url), settings)?, settings)
}

/// Checks a server before a run.
///
/// # Errors
/// As [`verify`], or the field of the plan that does not fit the application.
pub(crate) fn before_run(server: &Server, shared: &Shared) -> anyhow::Result<()> {
    match shared.conversation {
        Some(_) => conversation::verify(server, shared),
        None => verify(server, shared.settings()).map(drop),
    }
}

/// Joins a room of its own with two users: a heartbeat of one must reach both, and its leave the other. Returns what
/// was found.
///
/// # Errors
/// No connection, no Socket.IO server, or a wrong answer or event, with the remedy.
pub(crate) fn verify(server: &Server, settings: &Settings) -> anyhow::Result<String> {
    let room = format!("drover-check-{:016x}", rand::random::<u64>());
    let mut first = connect(server, settings)?;
    let joined = first.join(&room, "check-1", Some(stamp(1)))?;
    ensure!(
        shows(&joined, &first, "check-1", stamp(1)),
        "the snapshot of the first join does not show the joined member in its state: {:?}",
        joined.members
    );
    let mut second = connect(server, settings)?;
    let joined = second.join(&room, "check-2", Some(stamp(2)))?;
    ensure!(
        shows(&joined, &first, "check-1", stamp(1)) && joined.members.len() == 2,
        "the snapshot of the second join does not show both members: {:?}",
        joined.members
    );
    let seen = first.expect_event(EventType::Join, "check-2")?;
    ensure!(
        (seen.room.as_str(), seen.connection.as_str(), seen.stamp)
            == (room.as_str(), second.connection(), Some(stamp(2))),
        "the first member sees another join than the second's: {seen:?}"
    );
    first.heartbeat(stamp(3), settings.padding as usize)?;
    for client in [&mut first, &mut second] {
        let seen = client.expect_event(EventType::Update, "check-1")?;
        ensure!(
            seen.stamp == Some(stamp(3)) && seen.room == room,
            "the update does not show the state of the heartbeat: {seen:?}"
        );
    }
    second.leave()?;
    let seen = first.expect_event(EventType::Leave, "check-2")?;
    ensure!(
        seen.connection == second.connection() && seen.stamp.is_none(),
        "the leave is not the second member's: {seen:?}"
    );
    first.leave()?;
    let sequence = match joined.seq {
        Some(_) => "events are numbered",
        None => "events are not numbered, so that lost joins and leaves are not seen",
    };
    Ok(format!("join, heartbeat, update and leave; {sequence}"))
}

fn connect<'a>(server: &'a Server, settings: &Settings) -> anyhow::Result<Client<'a>> {
    Client::connect_over(
        server,
        server.endpoint.clone(),
        Transport::new(settings.transport),
        (settings, false),
    )
}

fn stamp(n: u64) -> Stamp {
    Stamp { n, t: 1_000 + n }
}

fn shows(joined: &JoinedRoom, client: &Client, user: &str, stamp: Stamp) -> bool {
    let shown = (client.connection().to_owned(), user.to_owned(), Some(stamp));
    joined.members.contains(&shown)
}
