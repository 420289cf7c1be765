//! What all workers share: the settings, the servers, and what is derived from them.

use std::net::IpAddr;

use load::driver::Target;
use load::net::sources;
use load::plan::{Invalid, Plan};
use subject::headroom::require_ports;

use crate::roles::population::{Part, Population};
use crate::settings::{self, Settings};
use crate::target::Server;

/// Maximum number of servers: as many as a run may launch.
const MAX_SERVERS: usize = 256;

/// A prepared run.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) plan: Plan<Settings>,
    pub(crate) population: Population,
    /// The servers, at most 256; rooms are assigned to them in turn, or users with `spread_rooms`.
    pub(crate) servers: Vec<Server>,
    /// The addresses that connections come from; empty if the kernel chooses.
    pub(crate) sources: Vec<IpAddr>,
    /// True if each user waits for its acknowledgement before it sends the next heartbeat.
    pub(crate) is_closed: bool,
}

impl Shared {
    pub(crate) fn new(plan: &Plan<Settings>, target: &Target) -> anyhow::Result<Self> {
        let settings = &plan.driver;
        let servers = target.addresses.iter();
        let servers: Vec<Server> = servers
            .map(|address| Server::new(address, settings))
            .collect::<Result<_, _>>()?;
        if servers.len() > MAX_SERVERS {
            let problem = format!(
                "{} URLs are more than {MAX_SERVERS}: give fewer",
                servers.len()
            );
            return Err(Invalid::new("URL", problem).into());
        }
        let peers = || servers.iter().map(|server| &server.peer);
        let connections = settings.connections();
        let named = &settings.source_addresses;
        let ports = sources::server_ports(peers());
        sources::check_ports(named, connections, ports)?;
        if let (Some(ports), true) = (ports, named.is_empty()) {
            require_ports(connections, ports)?;
        }
        Ok(Self {
            population: settings.population(),
            sources: sources::addresses(named, connections, peers())?,
            is_closed: settings::is_closed(plan),
            plan: plan.clone(),
            servers,
        })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.plan.driver
    }

    /// Prints a line about a user, with `--debug`.
    pub(crate) fn debug(&self, part: Part, user: u32, text: &str) {
        if self.settings().debug {
            let name = part.names(user).user;
            harness::output::note(&format!("debug: {name}: {text}"));
        }
    }

    /// Returns the index of the server for a user, counted over the whole run, after this many failed attempts.
    pub(crate) fn server_of(&self, user: u64, attempts: u64) -> usize {
        let turn = if self.settings().spread_rooms {
            // The user's own node may not come back, and the next one serves its room as well.
            user + attempts
        } else {
            // The nodes need not know each other: a room on two of them would be two rooms.
            user / self.population.users_per_room
        };
        (turn % self.servers.len() as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use load::plan::{Group, Timeline};

    use super::*;

    /// Returns 6 rooms of 4 users on 3 servers.
    fn shared(spread_rooms: bool) -> Shared {
        let driver = Settings {
            rooms: 6,
            users_per_room: 4,
            spread_rooms,
            ..Settings::default()
        };
        let timeline = Timeline::new(Duration::from_secs(1), driver.drain());
        let group = Group {
            rate: Some(1.0),
            ..Group::new("heartbeats", 0)
        };
        let plan = Plan::new("test", timeline, vec![group], driver);
        let urls = (1..=3).map(|port| format!("http://127.0.0.1:{port}"));
        Shared::new(&plan, &Target::of_urls(urls.collect())).unwrap()
    }

    #[test]
    fn a_room_is_on_one_server_and_stays_there() {
        let shared = shared(false);
        for room in 0..6 {
            let users = room * 4..room * 4 + 4;
            let servers = users.flat_map(|user| (0..5).map(move |attempts| (user, attempts)));
            let servers: BTreeSet<usize> = servers
                .map(|(user, attempts)| shared.server_of(user, attempts))
                .collect();
            assert_eq!(servers, BTreeSet::from([room as usize % 3]));
        }
    }

    #[test]
    fn a_room_that_is_spread_is_on_all_servers_and_users_go_to_the_next_after_a_failure() {
        let shared = shared(true);
        for room in 0..6 {
            let users = room * 4..room * 4 + 4;
            let servers = users.map(|user| shared.server_of(user, 0));
            assert_eq!(servers.collect::<BTreeSet<_>>().len(), 3);
        }
        assert_eq!(
            [0, 1, 2, 3].map(|attempts| shared.server_of(7, attempts)),
            [1, 2, 0, 1]
        );
    }
}
