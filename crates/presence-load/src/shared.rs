//! What all workers share: the settings, the servers, and what is derived from them.

use std::net::IpAddr;

use load::driver::Target;
use load::net::sources;
use load::plan::{Invalid, Plan};
use subject::headroom::require_ports;

use crate::population::{Names, Part, Population};
use crate::settings::{self, Settings};
use crate::target::Server;

/// Maximum number of servers: as many as a run may launch.
const MAX_SERVERS: usize = 256;

/// A prepared run.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) plan: Plan<Settings>,
    pub(crate) population: Population,
    /// The servers, at most 256; users are assigned to them in turn.
    pub(crate) servers: Vec<Server>,
    /// The addresses that connections come from; empty if the kernel chooses.
    pub(crate) sources: Vec<IpAddr>,
    /// True if each user waits for its acknowledgement before it sends the next heartbeat.
    pub(crate) is_closed: bool,
}

impl Shared {
    pub(crate) fn new(plan: &Plan<Settings>, target: &Target) -> anyhow::Result<Self> {
        let settings = &plan.driver;
        let tls = settings.tls();
        let servers = target.addresses.iter();
        let servers: Vec<Server> = servers
            .map(|address| Server::new(address, &tls))
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
            let mut names = Names::default();
            part.write_names(user, &mut names);
            harness::output::note(&format!("debug: {}: {text}", names.user));
        }
    }

    /// Returns the index of the server of a user, counted over the whole run.
    pub(crate) fn server_of(&self, user: u64) -> usize {
        (user % self.servers.len() as u64) as usize
    }
}
