//! Settings of a server that cases need.

use clap::ValueEnum;

use crate::script;
use crate::server::Server;
use crate::websocket::WebSocket;

/// A combination of settings. A launched server is started once for each combination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Setup {
    /// The defaults.
    Usual,
    /// The defaults of a server that limits the size of states.
    LimitedStates,
    /// The defaults of a server that stores no binary values.
    TextStates,
    /// Frequent pings.
    ShortPing,
    /// Small payloads.
    SmallPayload,
    /// A short TTL that is checked often.
    ShortTtl,
    /// The same TTL, checked once in ten minutes.
    SlowReaper,
    /// Resume tokens.
    Resume,
    /// The compatibility mode.
    Compat,
    /// The compatibility mode with a short TTL.
    CompatShortTtl,
    /// The echo mode: the server sends events back and has the namespace `/custom`.
    Echo,
    /// Clients must connect to a namespace soon.
    ShortConnect,
    /// Rooms of at most three members.
    SmallRooms,
    /// At most three rooms.
    FewRooms,
    /// At most three members in all rooms.
    FewUsers,
    /// At most three sessions.
    FewConnections,
    /// The pages of one origin may use the server.
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

impl Setup {
    /// Returns the environment variables of a launched server, without `PRESENCE_` before their names.
    pub(crate) fn variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Usual | Self::LimitedStates | Self::TextStates | Self::TwoNodes => &[],
            Self::ShortPing => &[("PING_INTERVAL_MS", "600"), ("PING_TIMEOUT_MS", "1500")],
            Self::SmallPayload => &[("MAX_PAYLOAD", "20000")],
            Self::ShortTtl | Self::TwoNodesShortTtl => {
                &[("TTL_MS", "2000"), ("REAPER_INTERVAL_MS", "200")]
            }
            Self::SlowReaper | Self::TwoNodesSlowReaper => {
                &[("TTL_MS", "2000"), ("REAPER_INTERVAL_MS", "600000")]
            }
            Self::Resume => &[("RESUME_GRACE_MS", "2500")],
            Self::Compat => &[("COMPAT", "true")],
            Self::CompatShortTtl => &[
                ("COMPAT", "true"),
                ("TTL_MS", "2000"),
                ("REAPER_INTERVAL_MS", "200"),
            ],
            Self::Echo => &[("CONFORMANCE_ECHO", "true")],
            Self::ShortConnect => &[("CONNECT_TIMEOUT_MS", "1500")],
            Self::SmallRooms => &[("MAX_ROOM_MEMBERS", "3")],
            Self::FewRooms => &[("MAX_ROOMS", "3")],
            Self::FewUsers => &[("MAX_USERS", "3")],
            Self::FewConnections => &[("MAX_CONNECTIONS", "3")],
            Self::CorsOrigin => &[("CORS_ORIGIN", "https://app.example")],
            Self::CorsAny => &[("CORS_ORIGIN", "*")],
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
    /// a setting does not have the feature: the steps that show it fail.
    ///
    /// # Errors
    /// The server does not answer.
    pub(crate) fn missing(
        self,
        server: &Server,
        is_launched: bool,
    ) -> anyhow::Result<Option<&'static str>> {
        if self.node_count() > 1 && server.other_node().is_none() {
            return Ok(Some(NO_OTHER_NODE));
        }
        if !is_launched && !self.variables().is_empty() {
            return Ok(Some("it needs a server with other settings: use --daemon"));
        }
        let Some((reason, steps)) = self.probe() else {
            return Ok(None);
        };
        WebSocket::session(server)?;
        Ok(script::run(server, steps).is_err().then_some(reason))
    }

    /// Returns the reason to skip cases on a server on which these steps fail.
    fn probe(self) -> Option<(&'static str, &'static [&'static str])> {
        const MANY: [&str; 4] = [
            "a join",
            r#"b join {"roomId":"$room2"}"#,
            r#"c join {"roomId":"$room3"}"#,
            r#"d join {"roomId":"$room4"} == {"ok":false,"code":"$_","error":"$_"}"#,
        ];
        Some(match self {
            Self::LimitedStates => (
                "the server sets no limit on states",
                &[r#"a join {"state":{"a":"$900000x"}} == {"ok":false,"code":"$_","error":"$_"}"#],
            ),
            Self::TextStates => (
                "the server stores binary values",
                &[
                    "a connect",
                    r#"a > 451-9["presence:join",{"roomId":"$room","userId":"a","state":{"a":{"_placeholder":true,"num":0}}}]"#,
                    r"a > binary:\x01",
                    r#"a < 439[{"ok":false}]"#,
                ],
            ),
            Self::ShortPing => (
                "the server ignores PRESENCE_PING_INTERVAL_MS",
                &[r#"a websocket -> {"pingInterval":600}"#],
            ),
            Self::SmallPayload => (
                "the server ignores PRESENCE_MAX_PAYLOAD",
                &[r#"a websocket -> {"maxPayload":20000}"#],
            ),
            Self::Resume => (
                "the server issues no resume tokens",
                &[r#"a join -> {"resume":"$_"}"#],
            ),
            Self::Compat | Self::CompatShortTtl => (
                "the server has no compatibility mode",
                &[r#"a join -> {"seq":"$absent"}"#],
            ),
            Self::Echo => (
                "the server has no echo mode",
                &["a websocket", "a > 40/custom,", "a < 40/custom,{}"],
            ),
            Self::ShortConnect => (
                "the server ignores PRESENCE_CONNECT_TIMEOUT_MS",
                &["a websocket", "a ends"],
            ),
            Self::SmallRooms => (
                "the server ignores PRESENCE_MAX_ROOM_MEMBERS",
                &["a join", "b join", "c join", "d join refused room_full"],
            ),
            Self::FewRooms => ("the server ignores PRESENCE_MAX_ROOMS", &MANY),
            Self::FewUsers => ("the server ignores PRESENCE_MAX_USERS", &MANY),
            Self::FewConnections => (
                "the server ignores PRESENCE_MAX_CONNECTIONS",
                &["a connect", "b connect", "c connect", "GET polling -> 503"],
            ),
            Self::CorsOrigin | Self::CorsAny => (
                "the server ignores PRESENCE_CORS_ORIGIN",
                &["with Origin: https://app.example", "GET polling", "allows"],
            ),
            _ => return None,
        })
    }
}

/// The reason to skip cases about several nodes.
pub(crate) const NO_OTHER_NODE: &str =
    "it needs two nodes: use --daemon with a manifest that has a service, or give --url twice";
