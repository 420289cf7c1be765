//! The settings of a presence daemon: flags and their variables.

use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU64, NonZeroUsize};
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Parser};
use daemon_kit::cli::{CommonOptions, DaemonOptions, value_or_file};
use socketio_server::ServerConfig;

use crate::application::Config;
use crate::node::ClusterSettings;
use crate::presence::Settings;

const VARIABLES: &str =
    "Each option has an environment variable: for --ttl-ms it is PRESENCE_TTL_MS, for --port \
PORT, and for --redis REDIS_URL.

Exit codes: 0 stopped by a signal, 1 serving failed, 2 invalid options.";

/// Serve presence over Socket.IO: who is in a room right now, in memory or over Redis
#[derive(Debug, Clone, Parser)]
#[command(version, max_term_width = 100, after_help = VARIABLES)]
#[command(mut_arg("metrics_addr", |address| {
    address.help("Serve /metrics and /healthz on this address [default: not served]")
}))]
pub struct Options {
    /// Listen on this address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    bind: IpAddr,

    /// Listen on this port; 0 takes a free one
    #[arg(long, value_name = "PORT", env = "PORT", default_value_t = 3000)]
    port: u16,

    /// Store the rooms in this Redis, which other nodes share, such as redis://127.0.0.1:6379. @FILE reads it from a
    /// file, for a secret [default: none]
    #[arg(long, value_name = "URL", env = "REDIS_URL", value_parser = value_or_file)]
    redis: Option<String>,

    /// Declare a node dead that has not reached Redis for this many milliseconds
    #[arg(long, value_name = "MS", default_value = "6000")]
    node_lease_ms: NonZeroU64,

    /// Wait this many milliseconds for an answer of Redis; then the node goes on alone
    #[arg(long, value_name = "MS", default_value = "1000")]
    redis_timeout_ms: NonZeroU64,

    /// Expect a heartbeat of each member within this many milliseconds; a member without leaves its room
    #[arg(long, value_name = "MS", default_value = "30000")]
    ttl_ms: NonZeroU64,

    /// Check for silent members at this interval, in milliseconds
    #[arg(long, value_name = "MS", default_value = "3000")]
    reaper_interval_ms: NonZeroU64,

    /// Keep the membership of a broken connection for this many milliseconds; 0 issues no resume tokens
    #[arg(long, value_name = "MS", default_value_t = 0)]
    resume_grace_ms: u64,

    /// Limit the rooms to this number
    #[arg(long, value_name = "NUMBER", default_value_t = Settings::default().max_rooms)]
    max_rooms: usize,

    /// Limit the members of a room to this number
    #[arg(long, value_name = "NUMBER", default_value_t = Settings::default().max_room_members)]
    max_room_members: usize,

    /// Limit the members of all rooms of this node to this number
    #[arg(long, value_name = "NUMBER", default_value_t = Settings::default().max_users)]
    max_users: usize,

    /// Limit the state of a member to this many bytes of JSON
    #[arg(long, value_name = "BYTES", default_value_t = Settings::default().max_state_bytes)]
    max_state_bytes: usize,

    /// Limit the open connections to this number; further ones are answered with 503 [default: none]
    #[arg(long, value_name = "NUMBER")]
    max_connections: Option<u64>,

    /// Limit a message to this many bytes
    #[arg(long, value_name = "BYTES", default_value_t = ServerConfig::default().max_payload)]
    max_payload: usize,

    /// Limit the bytes that wait for a client, without the answer to a join; one for which more would wait is disconnected
    #[arg(long, value_name = "BYTES", default_value_t = ServerConfig::default().outbound_limit)]
    outbound_limit: usize,

    /// Send pings at this interval, in milliseconds
    #[arg(long, value_name = "MS", default_value = "25000")]
    ping_interval_ms: NonZeroU64,

    /// Wait this many milliseconds for the answer to a ping; a client without is disconnected
    #[arg(long, value_name = "MS", default_value = "20000")]
    ping_timeout_ms: NonZeroU64,

    /// Close a connection that has not sent the head of a request within this many milliseconds
    #[arg(long, value_name = "MS", default_value = "10000")]
    head_timeout_ms: NonZeroU64,

    /// Wait this many milliseconds for a WebSocket to take over from long-polling; then polling goes on
    #[arg(long, value_name = "MS", default_value = "10000")]
    upgrade_timeout_ms: NonZeroU64,

    /// Disconnect a client that has joined no namespace after this many milliseconds
    #[arg(long, value_name = "MS", default_value = "45000")]
    connect_timeout_ms: NonZeroU64,

    /// Allow pages of this origin, or of all with * [default: only of the server's own]
    #[arg(long, value_name = "ORIGIN")]
    cors_origin: Option<String>,

    /// Serve with this many threads [default: the number of cores]
    #[arg(long, value_name = "NUMBER")]
    workers: Option<NonZeroUsize>,

    /// Follow the answers of the server that the protocol was modelled on
    #[arg(long, action = ArgAction::SetTrue, value_parser = BoolishValueParser::new())]
    compat: bool,

    /// Serve an echo for the public test suites of the protocols instead of presence
    #[arg(long, action = ArgAction::SetTrue, value_parser = BoolishValueParser::new())]
    conformance_echo: bool,

    #[command(flatten)]
    common: CommonOptions,
}

impl DaemonOptions for Options {
    const VARIABLE_PREFIX: &'static str = "PRESENCE";
}

impl Options {
    /// Converts the options to the configuration.
    #[must_use]
    pub fn config(&self) -> Config {
        let ms = |number: NonZeroU64| Duration::from_millis(number.get());
        let cluster = self.redis.as_ref().map(|url| ClusterSettings {
            url: url.clone(),
            lease: ms(self.node_lease_ms),
            timeout: ms(self.redis_timeout_ms),
        });
        Config {
            server: self.server(),
            listen: SocketAddr::new(self.bind, self.port),
            metrics_addr: self.common.metrics_addr,
            presence: Settings {
                ttl: ms(self.ttl_ms),
                resume_grace: Duration::from_millis(self.resume_grace_ms),
                max_rooms: self.max_rooms,
                max_room_members: self.max_room_members,
                max_users: self.max_users,
                max_state_bytes: self.max_state_bytes,
                is_compatible: self.compat,
            },
            reaper_interval: ms(self.reaper_interval_ms),
            cluster,
            serves_echo: self.conformance_echo,
        }
    }

    fn server(&self) -> ServerConfig {
        let default = ServerConfig::default();
        ServerConfig {
            workers: self.workers.unwrap_or(default.workers),
            ping_interval: Duration::from_millis(self.ping_interval_ms.get()),
            ping_timeout: Duration::from_millis(self.ping_timeout_ms.get()),
            head_timeout: Duration::from_millis(self.head_timeout_ms.get()),
            upgrade_timeout: Duration::from_millis(self.upgrade_timeout_ms.get()),
            connect_timeout: Duration::from_millis(self.connect_timeout_ms.get()),
            max_payload: self.max_payload,
            max_connections: self.max_connections.unwrap_or(default.max_connections),
            outbound_limit: self.outbound_limit,
            cors_origin: self.cors_origin.clone(),
            shutdown_grace: self.common.shutdown_grace,
            serves_engine_echo: self.conformance_echo,
            ..default
        }
    }
}

#[cfg(test)]
mod tests {
    use daemon_kit::cli::name_variable;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<Config, String> {
        let all = ["presence-daemon"].iter().chain(arguments);
        let options =
            Options::parse_with_variables(all).map_err(|error| name_variable::<Options>(&error))?;
        Ok(options.config())
    }

    #[test]
    fn the_defaults_are_those_of_the_protocol_and_bind_to_this_machine() {
        let config = parse(&[]).unwrap();
        assert_eq!(config.listen, SocketAddr::from(([127, 0, 0, 1], 3000)));
        assert_eq!(config.presence.ttl, Duration::from_secs(30));
        assert_eq!(config.reaper_interval, Duration::from_secs(3));
        assert_eq!(config.presence.resume_grace, Duration::ZERO);
        assert_eq!(config.server.ping_interval, Duration::from_secs(25));
        assert!(config.cluster.is_none() && config.metrics_addr.is_none());
    }

    #[test]
    fn the_timeouts_of_a_server_are_options_whose_defaults_are_those_of_its_configuration() {
        let timeouts = |server: &ServerConfig| {
            [
                server.head_timeout,
                server.upgrade_timeout,
                server.connect_timeout,
            ]
        };
        let default = parse(&[]).unwrap().server;
        assert_eq!(timeouts(&default), timeouts(&ServerConfig::default()));
        let changed = parse(&[
            "--head-timeout-ms",
            "1",
            "--upgrade-timeout-ms",
            "2",
            "--connect-timeout-ms",
            "3",
        ]);
        let expected = [1, 2, 3].map(Duration::from_millis);
        assert_eq!(timeouts(&changed.unwrap().server), expected);
    }

    #[test]
    fn variables_have_the_names_that_the_model_uses() {
        let command = Options::with_variables();
        let variables: Vec<_> = command
            .get_arguments()
            .filter_map(|argument| argument.get_env()?.to_str())
            .collect();
        for name in [
            "PORT",
            "REDIS_URL",
            "PRESENCE_TTL_MS",
            "PRESENCE_REAPER_INTERVAL_MS",
            "PRESENCE_HEAD_TIMEOUT_MS",
            "PRESENCE_UPGRADE_TIMEOUT_MS",
        ] {
            assert!(variables.contains(&name), "{name}: {variables:?}");
        }
    }

    #[test]
    fn wrong_variables_are_named() {
        for (arguments, variable) in [
            (["--port", "70000"], "PORT"),
            (["--ttl-ms", "0"], "PRESENCE_TTL_MS"),
            (["--bind", "here"], "PRESENCE_BIND"),
            (["--head-timeout-ms", "0"], "PRESENCE_HEAD_TIMEOUT_MS"),
            (["--upgrade-timeout-ms", "x"], "PRESENCE_UPGRADE_TIMEOUT_MS"),
        ] {
            let complaint = parse(&arguments).unwrap_err();
            assert!(complaint.contains(variable), "{complaint}");
        }
    }
}
