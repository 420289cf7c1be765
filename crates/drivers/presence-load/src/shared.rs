//! What all workers share: the settings, the servers, and what is derived from them.

use std::net::IpAddr;
use std::sync::Arc;

use load::driver::{Address, Target};
use load::net::dial::Peer;
use load::net::sources;
use load::net::url::ServerUrl;
use load::plan::{Invalid, Plan};
use load::redact;
use load::workers::WorkerRange;
use subject::headroom::require_ports;
use tls_client::TlsClient;

use crate::conversation::Conversation;
use crate::protocol::transport::{Endpoint, Transport};
use crate::roles::population::{Part, Population};
use crate::roles::{Everybody, SenderNames};
use crate::settings::{self, Protocol, Settings};

/// Maximum number of servers: as many as a run may launch.
const MAX_SERVERS: usize = 256;
/// The path of Socket.IO, if a URL names none.
const PATH: &str = "/socket.io/";
/// Maximum number of bytes of a message: above the largest answer to a join that the protocol page names.
const MAX_MESSAGE: usize = 192 << 20;
/// The schemes of URLs, with true for TLS.
const SCHEMES: &[(&str, bool)] = &[
    ("http", false),
    ("ws", false),
    ("https", true),
    ("wss", true),
];
/// The end of every message about a URL.
const REMEDY: &str =
    "write http://host:port, https://…, ws://… or wss://…, with a path if it is not /socket.io/";

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
    /// The conversation of users that do not speak the presence protocol.
    pub(crate) conversation: Option<Conversation>,
    /// The senders of pushes that all users receive, if the conversation has such.
    pub(crate) everybody: Option<Arc<Everybody>>,
    /// The names of senders in pushes, if they are not their users'.
    pub(crate) sender_names: Arc<SenderNames>,
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
        let mut conversation = Conversation::new(settings, plan.seed)?;
        conversation
            .iter_mut()
            .try_for_each(Conversation::check_rows)?;
        Ok(Self {
            conversation,
            everybody: None,
            sender_names: Arc::default(),
            population: settings.population(),
            sources: sources::addresses(named, connections, peers())?,
            is_closed: settings::is_closed(plan),
            plan: plan.clone(),
            servers,
        })
    }

    /// Prepares what these workers share.
    ///
    /// # Errors
    /// Users of other processes would have to be known.
    pub(crate) fn share(&mut self, workers: &WorkerRange) -> Result<(), Invalid> {
        let rule = self
            .conversation
            .as_ref()
            .and_then(|own| own.fan_out.as_ref());
        if !rule.is_some_and(|rule| rule.to.is_everybody()) {
            return Ok(());
        }
        if !workers.is_all() {
            let problem = "is for all users of the run, and a program knows its own only: run it in one program, or use \"room\" or \"others\"";
            return Err(Invalid::new("driver.conversation.fan_out.to", problem));
        }
        self.everybody = Some(Arc::new(Everybody::new(self.population, workers.total)));
        Ok(())
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.plan.driver
    }

    /// Returns true if users speak WebSocket without Socket.IO.
    pub(crate) fn is_plain(&self) -> bool {
        (self.conversation.as_ref()).is_some_and(Conversation::is_plain)
    }

    /// Creates the transport of a connection.
    pub(crate) fn transport(&self) -> Transport {
        if self.is_plain() {
            Transport::plain()
        } else {
            Transport::new(self.settings().transport)
        }
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

/// A server of the run, as its clients reach it.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// The address to connect to.
    pub(crate) peer: Peer,
    pub(crate) tls: Option<TlsClient>,
    pub(crate) endpoint: Endpoint,
    /// The URL without secrets, for messages.
    pub(crate) shown: String,
}

impl Server {
    /// Returns the server of an address, as clients with these settings reach it.
    ///
    /// # Errors
    /// An invalid URL, another scheme, a host that can't be resolved, unusable certificates, or credentials that can't be
    /// sent.
    pub(crate) fn new(address: &Address, settings: &Settings) -> Result<Self, Invalid> {
        let url = match address {
            Address::Url(url) => url,
            Address::Socket(path) => {
                let field = format!("the socket {}", path.display());
                let problem = format!("presence servers listen on TCP: {REMEDY}");
                return Err(Invalid::new(field, problem));
            }
        };
        let parsed = ServerUrl::parse(url, SCHEMES, REMEDY)?;
        let (path, query) = parsed.path.split_once('?').unwrap_or((&parsed.path, ""));
        let is_plain = (settings.conversation.as_ref())
            .is_some_and(|conversation| conversation.protocol == Protocol::WebSocket);
        let default_path = if is_plain { "/" } else { PATH };
        let tls = || TlsClient::new(&parsed.host, &settings.tls(), &[b"http/1.1"]);
        Ok(Self {
            tls: parsed.tls.then(tls).transpose()?,
            endpoint: Endpoint {
                path: if path == "/" { default_path } else { path }.to_owned(),
                query: query.to_owned(),
                host: parsed.authority,
                max_message: MAX_MESSAGE,
                access: settings.access()?,
            },
            peer: parsed.peer,
            shown: redact::uri(url).into_owned(),
        })
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

    #[test]
    fn the_largest_answer_of_the_protocol_fits_the_limit() {
        let protocol = include_str!("../../../subjects/presence-daemon/PROTOCOL.md");
        let largest = protocol.split("an answer to a join has at most ").nth(1);
        let largest = largest.and_then(|rest| rest.split_once(" bytes"));
        let largest = largest.expect("the page names it").0.replace(',', "");
        assert!(largest.parse::<usize>().unwrap() <= MAX_MESSAGE);
    }

    #[test]
    fn a_url_says_where_and_how() {
        let parse = |url: &str, tls_insecure| {
            let settings = Settings {
                tls_insecure,
                ..Settings::default()
            };
            Server::new(&Address::Url(url.to_owned()), &settings).unwrap()
        };
        for (url, host, path, query) in [
            ("http://127.0.0.1:3000", "127.0.0.1:3000", "/socket.io/", ""),
            (
                "ws://[::1]:80/chat/?token=1",
                "[::1]:80",
                "/chat/",
                "token=1",
            ),
        ] {
            let Server { endpoint, tls, .. } = parse(url, false);
            assert!(tls.is_none());
            assert_eq!(
                (
                    endpoint.host.as_str(),
                    endpoint.path.as_str(),
                    endpoint.query.as_str()
                ),
                (host, path, query)
            );
        }
        let server = parse("wss://127.0.0.1", true);
        assert_eq!(server.peer, Peer::Tcp("127.0.0.1:443".parse().unwrap()));
        assert!(server.tls.is_some());
    }
}
