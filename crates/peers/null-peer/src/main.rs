//! The command `null-peer`.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fdpass_client::handoff::{DEFAULT_MESSAGES, HandoffEndpoint, SocketType};
use harness::cli::exit_with;
use harness::failure::Failure;
use harness::output;
use load::limits::raise_nofile;
use load::plan::Invalid;
use null_broker::Mode;
use null_peer::Peer;
use peer_kit::options::{DelayOptions, end_at_signal};

/// Serve a protocol as fast as possible, or with planned delays, to measure a driver itself
///
/// At SIGTERM it prints how long it really held the requests, as JSON: from having read a request to having written its
/// answer.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    #[command(subcommand)]
    protocol: Protocol,
    #[command(flatten)]
    delays: DelayOptions,
}

#[derive(Debug, Subcommand)]
enum Protocol {
    /// Serve HTTP/1.1
    Http(Address),
    /// Serve presence rooms over Socket.IO, on WebSocket only
    Presence(Address),
    /// Answer each message on WebSocket with itself
    Echo(Address),
    /// Serve the protocol of the issue daemon, over a list of issues in memory
    Issue(Socket),
    /// Serve as a streaming daemon that sends each stream at once
    Fdpass {
        #[command(flatten)]
        socket: Socket,
        /// Use this type of socket
        #[arg(
            long,
            value_name = "TYPE",
            default_value = "auto",
            env = "DAEMON_SOCKET_TYPE"
        )]
        socket_type: SocketType,
        /// Send this many events on each stream
        #[arg(long, value_name = "N", default_value_t = DEFAULT_MESSAGES, env = "DAEMON_MESSAGE_COUNT")]
        messages: u32,
    },
    /// Hand HTTP/1.1 clients over to a streaming daemon, which answers them; the body of a request is the payload
    Front {
        #[command(flatten)]
        address: Address,
        /// Hand over at this Unix socket, which the daemon listens on
        #[arg(long, value_name = "PATH")]
        socket: PathBuf,
    },
    /// Serve AMQP 0-9-1 with a minimal broker
    Amqp {
        #[command(flatten)]
        address: Address,
        /// Pass messages on through queues (queue), drop them (discard), or send consumers messages without end (stream)
        #[arg(
            long,
            value_name = "MODE",
            default_value = "queue",
            env = "NULL_BROKER_MODE"
        )]
        mode: Mode,
    },
}

#[derive(Debug, clap::Args)]
struct Address {
    /// Listen on this address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

#[derive(Debug, clap::Args)]
struct Socket {
    /// Listen on this Unix socket
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
}

fn main() -> ExitCode {
    exit_with(run(&Options::parse()).map(|()| true))
}

fn run(options: &Options) -> Result<(), Failure> {
    let end = end_at_signal()?;
    raise_nofile()?;
    let peer = options.protocol.listen()?;
    if let Some(address) = peer.address() {
        output::print(&format!("listening on {address}"))?;
    }
    let held = peer.serve(options.delays.delays(), end)?;
    Ok(output::print(&held.to_string())?)
}

impl Protocol {
    fn listen(&self) -> Result<Peer, Invalid> {
        let on = |address: &Address, listening: io::Result<Peer>| {
            listening.map_err(|error| {
                let problem = format!("{error}: if the port is in use, name another one");
                Invalid::new(format!("--listen {}", address.listen), problem)
            })
        };
        let at = |socket: &Socket, listening: io::Result<Peer>| {
            listening.map_err(|error| {
                let problem = format!("{error}: name a file in a folder that exists");
                Invalid::new(format!("--socket {}", socket.socket.display()), problem)
            })
        };
        match self {
            Self::Http(address) => on(address, Peer::http(address.listen)),
            Self::Presence(address) => on(address, Peer::presence(address.listen)),
            Self::Echo(address) => on(address, Peer::echo(address.listen)),
            Self::Amqp { address, mode } => on(address, Peer::amqp(address.listen, *mode)),
            Self::Issue(socket) => at(socket, Peer::issue(&socket.socket)),
            Self::Front { address, socket } => {
                let daemon = HandoffEndpoint::new(socket, SocketType::Auto)?;
                on(address, Peer::front(address.listen, daemon))
            }
            Self::Fdpass {
                socket,
                socket_type,
                messages,
            } => at(
                socket,
                Peer::fdpass(&socket.socket, *socket_type, *messages),
            ),
        }
    }
}
