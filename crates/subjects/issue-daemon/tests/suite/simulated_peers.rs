//! Clients drawn from a seed at the program, by its socket, which is killed and ended in the middle.

#[path = "../../src/connection/simulated_peers/peer.rs"]
mod peer;

use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use test_kit::simulation::simulate;
use test_kit::{scaled, wait_until};

use self::peer::{CLIENTS, Event, Peer, draw};
use crate::support::{Client, Daemon};

/// Worlds of a full run, with a restart and without.
const WORLDS: u64 = 1_000;
/// Bytes by which the memory of a daemon may grow: pages of SQLite, and a heap that was used.
const GROWTH: usize = 48 << 20;

struct World<'a> {
    database: &'a Path,
    daemon: Daemon,
    clients: [Option<Peer>; CLIENTS],
    /// The client that does nothing wrong, so it must always be served.
    neighbour: Client,
    /// The issues that exist, as some client was told.
    known: Vec<String>,
    sessions: u64,
}

impl<'a> World<'a> {
    fn new(database: &'a Path) -> Self {
        let daemon = Daemon::on(database, &[]);
        Self {
            database,
            neighbour: daemon.client(),
            daemon,
            clients: [const { None }; CLIENTS],
            known: Vec::new(),
            sessions: 1,
        }
    }

    fn step(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Connect(client) if self.clients[client].is_none() => {
                let stream = UnixStream::connect(&self.daemon.socket).unwrap();
                stream.set_nonblocking(true).unwrap();
                self.clients[client] = Some(Peer::new(stream, self.sessions));
                self.sessions += 1;
            }
            Event::Leave(client) => {
                let left = self.clients[client].take();
                self.known
                    .extend(left.into_iter().flat_map(|peer| peer.known));
            }
            Event::Turn => self.known.push(self.neighbour.create("t")),
            Event::Restart(gracefully) => self.restart(gracefully)?,
            Event::Send(client, ..)
            | Event::SendHalf(client)
            | Event::Receive(client)
            | Event::HalfClose(client) => {
                if let Some(peer) = &mut self.clients[client] {
                    peer.step(event)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn restart(&mut self, gracefully: bool) -> Result<(), String> {
        self.daemon
            .signal([Signal::SIGKILL, Signal::SIGTERM][usize::from(gracefully)]);
        for peer in self.clients.iter_mut().flatten() {
            // It need not be answered any more.
            peer.is_refused = true;
        }
        let mut problem = Ok(());
        wait_until("the daemon has ended", || {
            let received = self
                .clients
                .iter_mut()
                .flatten()
                .try_for_each(|peer| peer.receive().map(drop));
            problem = problem.clone().and(received);
            self.daemon.has_ended()
        });
        problem?;
        for client in 0..CLIENTS {
            self.step(Event::Receive(client))?;
            self.step(Event::Leave(client))?;
        }
        let ended = self.daemon.wait();
        if gracefully && ended != (Some(0), String::new()) {
            return Err(format!("ended: {ended:?}"));
        }
        self.daemon = Daemon::on(self.database, &[]);
        self.neighbour = self.daemon.client();
        self.sessions += 1;
        Ok(())
    }

    /// Lets all clients get their answers, then leave. Nothing of them may stay, but what they stored.
    fn end(mut self, before: (usize, usize)) -> Result<u64, String> {
        let mut problem = Ok(());
        wait_until("everybody has all answers", || {
            let mut is_waiting = false;
            for peer in self.clients.iter_mut().flatten() {
                problem = problem
                    .clone()
                    .and(peer.send())
                    .and(peer.receive().map(drop));
                is_waiting |= !peer.is_refused && !peer.expected.is_empty();
            }
            problem.is_err() || !is_waiting
        });
        problem?;
        for client in 0..CLIENTS {
            self.step(Event::Leave(client))?;
        }
        wait_until("the others have left, and nothing of them stays", || {
            let (files, memory) = self.daemon.usage();
            self.neighbour.data("status", Value::Null)["connections"] == 1
                && files <= before.0
                && memory <= before.1 + GROWTH
        });
        for id in &self.known {
            if self.neighbour.call("show", json!({"id": id}))["success"] != true {
                return Err(format!("lost: issue {id}, which was created"));
            }
        }
        self.daemon.stop();
        Ok(self.sessions)
    }
}

fn run_all(restarts: bool) {
    let sessions = simulate(
        WORLDS,
        |seed| draw(seed, restarts),
        |steps| {
            let folder = tempfile::tempdir().unwrap();
            let database = folder.path().join("issues.db");
            let mut world = World::new(&database);
            // The first request opens the files of the database.
            world.step(Event::Turn)?;
            let before = world.daemon.usage();
            for step in steps {
                world.step(*step)?;
            }
            world.end(before)
        },
    );
    assert!(sessions > scaled(WORLDS), "{sessions} sessions");
}

#[test]
fn clients_leave_nothing_behind_and_others_are_served() {
    run_all(false);
}

#[test]
fn nothing_created_is_lost_when_the_daemon_ends_in_the_middle() {
    run_all(true);
}
