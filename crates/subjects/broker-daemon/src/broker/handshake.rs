//! Negotiation from the protocol header to connection.open-ok (connection class, AMQP 0-9-1, 2.2.4).

use std::net::SocketAddr;

use amq_protocol::protocol::{AMQPClass, connection};
use amq_protocol::types::parsing::{parse_long_string, parse_short_string, parse_type};
use amq_protocol::types::{AMQPType, AMQPValue, FieldTable};

use daemon_kit::quote;

use super::Broker;
use super::methods::parse;
use crate::connection::Phase;
use crate::failure::{
    Result, access_refused, channel_error, command_invalid, not_allowed, syntax_error,
    unexpected_frame,
};
use crate::frame::{Frame, HEARTBEAT, METHOD};
use crate::options::Config;
use crate::queue::ConnectionId;

const PROTOCOL_HEADER: &[u8; 8] = b"AMQP\x00\x00\x09\x01";
/// The smallest frame size that both sides must accept (AMQP 0-9-1, 4.2.3; RabbitMQ has 8192 since 4.0).
pub(super) const LEAST_FRAME: u32 = 4096;

impl Broker {
    /// Reads the protocol header. Returns how many bytes it took; 0 if more are needed.
    pub(super) fn protocol_header(&mut self, id: ConnectionId, input: &[u8]) -> usize {
        let length = input.len().min(PROTOCOL_HEADER.len());
        if input[..length] != PROTOCOL_HEADER[..length] {
            let outbox = &mut self.connections[id].outbox;
            outbox.of_channel(0).raw(PROTOCOL_HEADER);
            self.close_when_written(id);
            return input.len();
        }
        if length < PROTOCOL_HEADER.len() {
            return 0;
        }
        self.connections[id].enter(Phase::Start, self.now);
        let start = connection::AMQPMethod::Start(connection::Start {
            version_major: 0,
            version_minor: 9,
            server_properties: server_properties(),
            mechanisms: "PLAIN AMQPLAIN".into(),
            locales: "en_US".into(),
        });
        self.send_connection(id, start);
        length
    }

    /// Handles a frame of a connection that is not open, or no longer open.
    pub(super) fn negotiate(&mut self, id: ConnectionId, frame: Frame<'_>) -> Result {
        let phase = self.connections[id].phase();
        if phase == Phase::Closing {
            // Only connection.close and close-ok matter.
            match (frame.kind, frame.channel, frame.payload) {
                (METHOD, 0, [0, 10, 0, 51, ..]) => self.close_when_written(id),
                (METHOD, 0, [0, 10, 0, 50, ..]) => self.client_closes(id),
                _ => {}
            }
            return Ok(());
        }
        match frame.kind {
            HEARTBEAT => return Ok(()),
            METHOD if frame.channel == 0 => {}
            _ => return Err(unexpected_frame("the connection is not open")),
        }
        let AMQPClass::Connection(method) = parse(frame.payload)? else {
            return Err(channel_error("the connection is not open"));
        };
        match (phase, method) {
            (Phase::Start, connection::AMQPMethod::StartOk(ok)) => self.start_ok(id, &ok),
            (Phase::Tune, connection::AMQPMethod::TuneOk(ok)) => self.tune_ok(id, &ok),
            (Phase::Open, connection::AMQPMethod::Open(open)) => {
                self.open(id, open.virtual_host.as_str())
            }
            (_, connection::AMQPMethod::Close(_)) => {
                self.client_closes(id);
                Ok(())
            }
            _ => Err(channel_error(
                "unexpected method while the connection is negotiated",
            )),
        }
    }

    /// Answers connection.close. The client closes the socket, as with RabbitMQ: one that closes from several threads
    /// sends several requests, and would otherwise read the end of the stream before its answer.
    pub(super) fn client_closes(&mut self, id: ConnectionId) {
        let connection = &mut self.connections[id];
        if connection.phase() != Phase::Closing {
            connection.enter(Phase::Closing, self.now);
        }
        self.release(id);
        if self.connections[id].outbox.must_leave_later() {
            return;
        }
        let ok = connection::AMQPMethod::CloseOk(connection::CloseOk {});
        self.send_connection(id, ok);
    }

    fn start_ok(&mut self, id: ConnectionId, ok: &connection::StartOk) -> Result {
        let mechanism = ok.mechanism.as_str();
        let connection = &mut self.connections[id];
        connection.introduce(&ok.client_properties);
        let response = ok.response.as_bytes();
        let login = match mechanism {
            "PLAIN" => plain(response),
            "AMQPLAIN" => amqplain(response),
            other => {
                return Err(command_invalid(format_args!(
                    "unknown authentication mechanism '{other}'"
                )));
            }
        };
        let login =
            login.ok_or_else(|| syntax_error(format_args!("malformed {mechanism} response")))?;
        let peer = connection.peer();
        if let Err(reason) = check_login(&self.config, &login, peer) {
            self.counts.logins_refused += 1;
            let (peer, user) = (show_peer(peer), quote(&login.0));
            let line = format_args!("refused user {user}{peer}: {reason}");
            self.operator_log.warn(line);
            return Err(access_refused(format_args!(
                "Login was refused using authentication mechanism {mechanism}. For details see the broker logfile."
            )));
        }
        connection.user = login.0.into();
        connection.enter(Phase::Tune, self.now);
        let tune = connection::AMQPMethod::Tune(connection::Tune {
            channel_max: self.config.channel_max,
            frame_max: self.config.frame_max,
            heartbeat: self.config.heartbeat,
        });
        self.send_connection(id, tune);
        Ok(())
    }

    fn tune_ok(&mut self, id: ConnectionId, ok: &connection::TuneOk) -> Result {
        let config = &self.config;
        if ok.frame_max != 0 && ok.frame_max < LEAST_FRAME {
            return Err(not_allowed(format_args!(
                "negotiated frame_max = {} is lower than the minimum allowed value ({LEAST_FRAME})",
                ok.frame_max
            )));
        }
        for (name, asked, most) in [
            ("frame_max", ok.frame_max, config.frame_max),
            (
                "channel_max",
                ok.channel_max.into(),
                config.channel_max.into(),
            ),
        ] {
            // 0 requests no limit, which exceeds any.
            if asked == 0 || asked > most {
                return Err(not_allowed(format_args!(
                    "negotiated {name} = {asked} is higher than the maximum allowed value ({most})"
                )));
            }
        }
        self.connections[id].tune(ok);
        Ok(())
    }

    fn open(&mut self, id: ConnectionId, name: &str) -> Result {
        let vhost = self.topology.vhost_index(name);
        let connection = &mut self.connections[id];
        let Some(vhost) = vhost else {
            self.counts.vhosts_refused += 1;
            let peer = show_peer(connection.peer());
            let (user, vhost) = (quote(&connection.user), quote(name));
            let line = format_args!("refused user {user}{peer}: unknown vhost {vhost}");
            self.operator_log.warn(line);
            return Err(not_allowed(format_args!("vhost {name} not found")));
        };
        connection.vhost = vhost;
        connection.enter(Phase::Running, self.now);
        let ok = connection::AMQPMethod::OpenOk(connection::OpenOk {});
        self.send_connection(id, ok);
        Ok(())
    }
}

/// Checks if a user may log in. The error is the reason for the refusal.
pub(super) fn check_login(
    config: &Config,
    login: &(String, String),
    peer: Option<SocketAddr>,
) -> std::result::Result<(), &'static str> {
    let Config {
        users,
        loopback_users,
        ..
    } = config;
    match users.iter().find(|(name, _)| *name == login.0) {
        None => Err("unknown user"),
        Some(_) if !users.contains(login) => Err("wrong password"),
        // The password of `guest` is public (as RabbitMQ's `loopback_users`).
        Some(_) if loopback_users.contains(&login.0) && peer.is_some_and(is_remote) => Err(
            "this user may log in only from this machine: set another user with --user or BROKER_USER, or allow it with --loopback-user none",
        ),
        Some(_) => Ok(()),
    }
}

fn is_remote(peer: SocketAddr) -> bool {
    !peer.ip().to_canonical().is_loopback()
}

fn show_peer(peer: Option<SocketAddr>) -> String {
    peer.map(|peer| format!(" at {peer}")).unwrap_or_default()
}

/// Returns user and password of a PLAIN response (RFC 4616): authorisation, user and password, separated by NUL.
fn plain(response: &[u8]) -> Option<(String, String)> {
    let parts: Vec<&[u8]> = response.split(|byte| *byte == 0).collect();
    let [_, user, password] = parts[..] else {
        return None;
    };
    Some((text(user)?, text(password)?))
}

/// Returns user and password of an AMQPLAIN response: a table without its length, with LOGIN and PASSWORD.
fn amqplain(mut response: &[u8]) -> Option<(String, String)> {
    let (mut user, mut password) = (None, None);
    while !response.is_empty() {
        let (rest, name) = parse_short_string(response).ok()?;
        let (rest, kind) = parse_type(rest).ok()?;
        if kind != AMQPType::LongString {
            return None;
        }
        let (rest, value) = parse_long_string(rest).ok()?;
        match name.as_str() {
            "LOGIN" => user = text(value.as_bytes()),
            "PASSWORD" => password = text(value.as_bytes()),
            _ => {}
        }
        response = rest;
    }
    Some((user?, password?))
}

fn text(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

fn server_properties() -> FieldTable {
    let mut capabilities = FieldTable::default();
    for name in [
        "publisher_confirms",
        "exchange_exchange_bindings",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "authentication_failure_close",
        "per_consumer_qos",
        "consumer_priorities",
        "direct_reply_to",
    ] {
        capabilities.insert(name.into(), AMQPValue::Boolean(true));
    }
    let mut properties = FieldTable::default();
    for (name, value) in [
        ("product", env!("CARGO_PKG_NAME")),
        ("version", env!("CARGO_PKG_VERSION")),
        ("platform", "Rust"),
    ] {
        properties.insert(name.into(), AMQPValue::LongString(value.into()));
    }
    properties.insert("capabilities".into(), AMQPValue::FieldTable(capabilities));
    properties
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_logs_in_from_this_machine_alone() {
        let pair = |name: &str, password: &str| (name.to_owned(), password.to_owned());
        let mut config = Config {
            users: vec![pair("guest", "guest"), pair("app", "secret")],
            ..Config::default()
        };
        let check_with = |config: &Config, name, password, peer: &str| {
            let peer = SocketAddr::new(peer.parse().unwrap(), 1);
            check_login(config, &pair(name, password), Some(peer)).is_ok()
        };
        let check = |name, password, peer| check_with(&config, name, password, peer);
        assert!(check("guest", "guest", "127.0.0.1"));
        assert!(check("guest", "guest", "::1"));
        assert!(check("guest", "guest", "::ffff:127.0.0.1"));
        assert!(!check("guest", "guest", "10.0.0.7"));
        assert!(!check("guest", "guest", "::ffff:10.0.0.7"));
        assert!(check("app", "secret", "10.0.0.7"));
        assert!(!check("app", "guest", "127.0.0.1"));
        assert!(!check("nobody", "guest", "127.0.0.1"));
        config.loopback_users = vec!["none".to_owned()];
        assert!(check_with(&config, "guest", "guest", "10.0.0.7"));
    }
}
