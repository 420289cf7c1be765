//! Null peers: servers that do next to nothing, one for each protocol of a driver. They show the maximum rate of the driver
//! and of the machine. With planned delays ([`peer_kit::delays`]) they show whether its percentiles are right.
//!
//! They are instruments and not subjects: one thread, no limits, and only the requests that the drivers send. The broker
//! of AMQP is a crate of its own, [`null_broker`].
//!
//! One serves nothing itself: the front, through which clients of HTTP reach a streaming daemon.

mod connections;
mod echo;
mod fdpass;
mod front;
mod http;
mod issue;
mod listener;
mod presence;
mod server;
mod websocket;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use fdpass_client::handoff::{HandoffEndpoint, SocketType};
use load::driver::Cancellation;
use null_broker::{Mode, Script};
pub use peer_kit::delays::{Delays, Stall};
pub use peer_kit::held::Held;

use listener::Listener;
use server::{Protocol, Server};

/// A peer that listens and does not serve yet.
pub struct Peer {
    serve: Box<dyn FnOnce(Delays, Arc<Cancellation>) -> io::Result<Held> + Send>,
    address: Option<SocketAddr>,
}

impl std::fmt::Debug for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Peer")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Peer {
    /// Listens for HTTP/1.1.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn http(address: SocketAddr) -> io::Result<Self> {
        Self::with(Listener::tcp(address)?, http::Http::new())
    }

    /// Listens for users of presence rooms.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn presence(address: SocketAddr) -> io::Result<Self> {
        Self::with(Listener::tcp(address)?, presence::Presence::default())
    }

    /// Listens for WebSocket clients, whose messages are answered with themselves.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn echo(address: SocketAddr) -> io::Result<Self> {
        Self::with(Listener::tcp(address)?, echo::Echo::default())
    }

    /// Listens for clients of the issue daemon.
    ///
    /// # Errors
    /// The path cannot be listened on.
    pub fn issue(path: &Path) -> io::Result<Self> {
        let listener = Listener::unix(path, rustix::net::SocketType::STREAM)?;
        Self::with(listener, issue::Issues::default())
    }

    /// Listens for handoffs. Each stream has this many events.
    ///
    /// # Errors
    /// The path cannot be listened on.
    pub fn fdpass(path: &Path, kind: SocketType, events: u32) -> io::Result<Self> {
        let kind = match kind {
            SocketType::Stream => rustix::net::SocketType::STREAM,
            SocketType::Auto | SocketType::Seqpacket => rustix::net::SocketType::SEQPACKET,
        };
        Self::with(Listener::unix(path, kind)?, fdpass::Fdpass::new(events))
    }

    /// Listens for HTTP clients, and hands them over to a streaming daemon.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn front(address: SocketAddr, daemon: HandoffEndpoint) -> io::Result<Self> {
        Self::with(Listener::tcp(address)?, front::Front::new(daemon))
    }

    /// Listens for clients of AMQP.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub fn amqp(address: SocketAddr, mode: Mode) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        Ok(Self {
            address: Some(listener.local_addr()?),
            serve: Box::new(move |delays, end| {
                let script = Script {
                    mode,
                    delays,
                    ..Script::default()
                };
                null_broker::serve(listener, script, end)
            }),
        })
    }

    fn with<P: Protocol + Send + 'static>(listener: Listener, protocol: P) -> io::Result<Self> {
        Ok(Self {
            address: listener.address()?,
            serve: Box::new(|delays, end| Server::new(protocol, listener, delays, end)?.run()),
        })
    }

    /// Returns the address, if the peer listens on TCP.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Serves until the end is requested. Returns the record of its requests.
    ///
    /// # Errors
    /// A failed system call, such as for lack of descriptors.
    pub fn serve(self, delays: Delays, end: Arc<Cancellation>) -> io::Result<Held> {
        (self.serve)(delays, end)
    }

    /// Serves on a thread of its own.
    ///
    /// # Errors
    /// A failed system call.
    pub fn start(self, delays: Delays) -> io::Result<Serving> {
        let end = Arc::new(Cancellation::new()?);
        let requested = Arc::clone(&end);
        let thread = std::thread::Builder::new()
            .name("null-peer".to_owned())
            .spawn(move || self.serve(delays, requested))?;
        Ok(Serving {
            end,
            thread: Some(thread),
        })
    }
}

/// A peer on its own thread, which ends when this handle is dropped.
#[derive(Debug)]
pub struct Serving {
    end: Arc<Cancellation>,
    thread: Option<JoinHandle<io::Result<Held>>>,
}

impl Serving {
    /// Ends the peer. Returns the record of its requests.
    ///
    /// # Errors
    /// The system call that failed while it served.
    ///
    /// # Panics
    /// The peer panicked.
    pub fn stop(mut self) -> io::Result<Held> {
        self.end.request(0);
        let thread = self.thread.take().expect("only this method takes it");
        thread.join().expect("the peer did not panic")
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end.request(0);
        if let Some(thread) = self.thread.take() {
            // An error of its thread cannot be reported anywhere.
            let _ = thread.join();
        }
    }
}
