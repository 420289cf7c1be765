//! Settings of a server that cases need.

use std::time::Duration;

use anyhow::ensure;
use serde_json::json;

use crate::engine::Engine;
use crate::handshake::{Handshake, POLLING};
use crate::http;
use crate::member::Member;
use crate::packet::Kind;
use crate::server::Server;
use crate::socket::WebSocketClient;

/// A combination of settings. A launched server is started once for each combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Setup {
    /// The defaults.
    Usual,
    /// Pings after [`PING_INTERVAL_MS`], and a connection without a pong ends after [`PING_TIMEOUT_MS`] more.
    ShortPing,
    /// Payloads of at most [`MAX_PAYLOAD`] bytes.
    SmallPayload,
    /// A TTL of [`TTL_MS`], checked every [`REAPER_MS`].
    ShortTtl,
    /// The same TTL, checked once in ten minutes.
    SlowReaper,
    /// Resume tokens with a grace time of [`GRACE_MS`].
    Resume,
    /// The compatibility mode.
    Compat,
    /// The compatibility mode with a short TTL.
    CompatShortTtl,
    /// The echo mode: the server sends events back and has the namespace `/custom`.
    Echo,
    /// Clients must connect to a namespace within [`CONNECT_MS`].
    ShortConnect,
    /// Rooms of at most [`MOST`] members.
    SmallRooms,
    /// At most [`MOST`] rooms.
    FewRooms,
    /// At most [`MOST`] members in all rooms.
    FewUsers,
    /// At most [`MOST`] sessions.
    FewConnections,
    /// Pages of [`ORIGIN`] may use the server.
    CorsOrigin,
    /// Pages of all origins may use the server.
    CorsAny,
    /// Two nodes that share their rooms.
    TwoNodes,
    /// Two nodes with the settings of [`Setup::ShortTtl`].
    TwoNodesShortTtl,
    /// Two nodes with the settings of [`Setup::SlowReaper`].
    TwoNodesSlowReaper,
}

pub(crate) const PING_INTERVAL_MS: u64 = 600;
pub(crate) const PING_TIMEOUT_MS: u64 = 1_500;
pub(crate) const MAX_PAYLOAD: u64 = 20_000;
pub(crate) const TTL_MS: u64 = 2_000;
pub(crate) const REAPER_MS: u64 = 200;
pub(crate) const GRACE_MS: u64 = 2_500;
pub(crate) const CONNECT_MS: u64 = 1_500;
pub(crate) const MOST: usize = 3;
pub(crate) const ORIGIN: &str = "https://app.example";
/// The time after [`CONNECT_MS`] in which a server that heeds it has disconnected a client.
const CONNECT_SLACK: Duration = Duration::from_secs(5);

impl Setup {
    /// Returns the environment variables of a launched server.
    pub(crate) fn variables(self) -> Vec<(&'static str, String)> {
        let times = |ttl_ms: u64, reaper_ms: u64| {
            vec![
                ("PRESENCE_TTL_MS", ttl_ms.to_string()),
                ("PRESENCE_REAPER_INTERVAL_MS", reaper_ms.to_string()),
            ]
        };
        let compat = ("PRESENCE_COMPAT", "true".to_owned());
        match self {
            Self::Usual | Self::TwoNodes => Vec::new(),
            Self::ShortPing => vec![
                ("PRESENCE_PING_INTERVAL_MS", PING_INTERVAL_MS.to_string()),
                ("PRESENCE_PING_TIMEOUT_MS", PING_TIMEOUT_MS.to_string()),
            ],
            Self::SmallPayload => vec![("PRESENCE_MAX_PAYLOAD", MAX_PAYLOAD.to_string())],
            Self::ShortTtl | Self::TwoNodesShortTtl => times(TTL_MS, REAPER_MS),
            Self::SlowReaper | Self::TwoNodesSlowReaper => times(TTL_MS, 600_000),
            Self::Resume => vec![("PRESENCE_RESUME_GRACE_MS", GRACE_MS.to_string())],
            Self::Compat => vec![compat],
            Self::CompatShortTtl => [vec![compat], times(TTL_MS, REAPER_MS)].concat(),
            Self::Echo => vec![("PRESENCE_CONFORMANCE_ECHO", "true".to_owned())],
            Self::ShortConnect => {
                vec![("PRESENCE_CONNECT_TIMEOUT_MS", CONNECT_MS.to_string())]
            }
            Self::SmallRooms => vec![("PRESENCE_MAX_ROOM_MEMBERS", MOST.to_string())],
            Self::FewRooms => vec![("PRESENCE_MAX_ROOMS", MOST.to_string())],
            Self::FewUsers => vec![("PRESENCE_MAX_USERS", MOST.to_string())],
            Self::FewConnections => vec![("PRESENCE_MAX_CONNECTIONS", MOST.to_string())],
            Self::CorsOrigin => vec![("PRESENCE_CORS_ORIGIN", ORIGIN.to_owned())],
            Self::CorsAny => vec![("PRESENCE_CORS_ORIGIN", "*".to_owned())],
        }
    }

    /// Returns the number of nodes of a launched server.
    pub(crate) fn node_count(self) -> usize {
        match self {
            Self::TwoNodes | Self::TwoNodesShortTtl | Self::TwoNodesSlowReaper => 2,
            _ => 1,
        }
    }

    /// Returns the reason to skip the cases of this setup on a server, or `None` if they can run. A server that ignores
    /// a setting does not have the feature.
    ///
    /// # Errors
    /// The server does not answer.
    pub(crate) fn missing(
        self,
        server: &Server,
        is_launched: bool,
    ) -> anyhow::Result<Option<&'static str>> {
        let announced = |fits: fn(&Handshake) -> bool, reason| -> anyhow::Result<_> {
            let handshake = Engine::open(server)?.handshake;
            Ok((!fits(&handshake)).then_some(reason))
        };
        match self {
            Self::Usual => Ok(None),
            _ if self.node_count() > 1 && server.other_node().is_none() => Ok(Some(NO_OTHER_NODE)),
            Self::TwoNodes => Ok(None),
            _ if !is_launched => Ok(Some("it needs a server with other settings: use --daemon")),
            Self::ShortTtl
            | Self::SlowReaper
            | Self::TwoNodesShortTtl
            | Self::TwoNodesSlowReaper => Ok(None),
            Self::ShortPing => announced(
                |handshake| handshake.ping_interval.as_millis() == u128::from(PING_INTERVAL_MS),
                "the server ignores PRESENCE_PING_INTERVAL_MS",
            ),
            Self::SmallPayload => announced(
                |handshake| handshake.max_payload == MAX_PAYLOAD,
                "the server ignores PRESENCE_MAX_PAYLOAD",
            ),
            Self::Resume => {
                let answer = joined(server)?;
                let is_missing = answer.get("resume").is_none();
                Ok(is_missing.then_some("the server issues no resume tokens"))
            }
            Self::Compat | Self::CompatShortTtl => {
                let answer = joined(server)?;
                let is_missing = answer.get("seq").is_some();
                Ok(is_missing.then_some("the server has no compatibility mode"))
            }
            Self::Echo => {
                let mut socket = WebSocketClient::open(server)?;
                socket.send("0/custom,")?;
                let is_missing = socket.packet()?.kind != Kind::Connect;
                Ok(is_missing.then_some("the server has no echo mode"))
            }
            Self::ShortConnect => {
                let limit = Duration::from_millis(CONNECT_MS) + CONNECT_SLACK;
                let is_missing = !Engine::open(server)?.socket.ends_within(limit)?;
                Ok(is_missing.then_some("the server ignores PRESENCE_CONNECT_TIMEOUT_MS"))
            }
            Self::SmallRooms => {
                let room = server.name("room");
                let is_missing = takes_more_than_most(server, || room.clone())?;
                Ok(is_missing.then_some("the server ignores PRESENCE_MAX_ROOM_MEMBERS"))
            }
            Self::FewRooms => {
                let is_missing = takes_more_than_most(server, || server.name("room"))?;
                Ok(is_missing.then_some("the server ignores PRESENCE_MAX_ROOMS"))
            }
            Self::FewUsers => {
                let is_missing = takes_more_than_most(server, || server.name("room"))?;
                Ok(is_missing.then_some("the server ignores PRESENCE_MAX_USERS"))
            }
            Self::FewConnections => {
                let open = || Engine::open(server);
                let _sessions: Vec<Engine> = (0..MOST).map(|_| open()).collect::<Result<_, _>>()?;
                let response = http::get(server, &server.target(POLLING))?.response()?;
                let is_missing = response.status == 200;
                Ok(is_missing.then_some("the server ignores PRESENCE_MAX_CONNECTIONS"))
            }
            Self::CorsOrigin | Self::CorsAny => {
                let headers = [("Origin", ORIGIN)];
                let target = server.target(POLLING);
                let response = http::request_with(server, "GET", &target, &headers, b"")?;
                let is_missing = response
                    .response()?
                    .header("access-control-allow-origin")
                    .is_none();
                Ok(is_missing.then_some("the server ignores PRESENCE_CORS_ORIGIN"))
            }
        }
    }
}

/// The reason to skip cases about several nodes.
pub(crate) const NO_OTHER_NODE: &str =
    "it needs two nodes: use --daemon with a manifest that has a service, or give --url twice";

/// Returns true if the server takes more than [`MOST`] members in these rooms.
fn takes_more_than_most(server: &Server, room: impl Fn() -> String) -> anyhow::Result<bool> {
    let mut members = Vec::new();
    let mut is_taken = true;
    for _ in 0..=MOST {
        let mut member = Member::open(server)?;
        is_taken = member.ask_to_join(&room(), "someone")?["ok"] == true;
        members.push(member);
    }
    for member in &mut members {
        ensure!(member.leave()?["ok"] == true, "a leave was refused");
    }
    Ok(is_taken)
}

/// Returns the answer to a join.
fn joined(server: &Server) -> anyhow::Result<serde_json::Value> {
    let mut member = Member::open(server)?;
    let request = json!({"roomId": server.name("room"), "userId": "someone"});
    let answer = member.joins(&request)?;
    ensure!(member.leave()?["ok"] == true, "a leave was refused");
    Ok(answer)
}
