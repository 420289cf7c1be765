//! Tests that the official JavaScript client works with every server of daemons/ that serves `presence`, over all
//! transports, and that each client gets every event of its room once and in order: events of other JavaScript clients,
//! and of the driver, which must have counted the same ones.
//!
//! The client is among the packages of node-presence. A server whose program is missing is reported and skipped, and so
//! are the tests without Node.js and npm; with `DROVER_REQUIRE_ALL=1` they fail.

mod audit;
mod clients;

use anyhow::{Context as _, ensure};
use harness::launcher::Launcher;
use harness_testing::daemons::{on_each, prepared};
use harness_testing::program::Program;

use clients::Clients;

const ROOMS: [&str; 2] = ["room-001", "room-002"];
/// Two of each transport.
const CLIENTS_PER_ROOM: usize = 6;
const UPDATES: usize = 25;
/// The driver's users.
const USERS_PER_ROOM: usize = 2;
const TRANSPORTS: [&str; 3] = ["websocket", "polling", "upgrade"];

#[test]
fn javascript_clients_of_all_transports_see_every_event_of_their_room_once_and_in_order() {
    on_each_server(|url| {
        let mut clients = Clients::start(url, &ROOMS, CLIENTS_PER_ROOM)?;
        let count = ROOMS.len() * CLIENTS_PER_ROOM;
        ensure!(clients.command("join")?["joined"] == count);
        let updated = clients.command(&format!("update {UPDATES}"))?;
        ensure!(updated["updated"] == count * UPDATES, "{updated}");
        let reports = clients.reports()?;
        ensure!(reports.len() == count, "{} reports", reports.len());
        audit::each_client(&reports)?;
        audit::updates_of_all(&reports, UPDATES)
    });
}

#[test]
fn javascript_clients_and_the_driver_see_the_same_events() {
    on_each_server(|url| {
        let mut clients = Clients::start(url, &ROOMS, CLIENTS_PER_ROOM)?;
        clients.command("join")?;
        let mut results = Vec::new();
        for transport in TRANSPORTS {
            let driver = driver(url, transport).start();
            clients.command(&format!("update {UPDATES}"))?;
            let run = driver.end();
            audit::is_faultless(&run.result)
                .with_context(|| format!("the driver over {transport} said: {}", run.stderr))?;
            results.push(run.result);
        }
        let reports = clients.reports()?;
        audit::each_client(&reports)?;
        audit::updates_of_all(&reports, TRANSPORTS.len() * UPDATES)?;
        audit::drivers(&reports, &results, ROOMS.len() * USERS_PER_ROOM)
    });
}

/// Returns a call of the driver, whose users join the rooms of the JavaScript clients for a moment.
fn driver(url: &str, transport: &str) -> Program {
    let (rooms, users) = (ROOMS.len().to_string(), USERS_PER_ROOM.to_string());
    Program::new(env!("CARGO_BIN_EXE_presence-load"))
        .args(["--url", url, "--transport", transport, "--rooms", &rooms])
        .args(["--users-per-room", &users, "--heartbeats-per-sec", "20"])
        .args(["--ramp-up", "100ms", "--duration", "600ms", "--quiet"])
}

/// Performs a check on the URL of every server, and fails with all errors.
fn on_each_server(check: impl Fn(&str) -> anyhow::Result<()>) {
    // Its packages include the client.
    if prepared("node-presence", "presence").is_none() {
        return;
    }
    let launcher = Launcher::new().unwrap();
    on_each("presence", |server| {
        launcher.with(server, &[], |daemon| {
            let url = daemon.endpoint().url.as_deref().context("has no `url`")?;
            check(url).with_context(|| format!("the end of its log:\n{}", daemon.last_lines(20)))
        })?
    });
}
