//! Opens lapin connections, each with a channel for each of its clients.
//!
//! Connections are opened before the workers exist, so the runtime that watches their sockets has its own thread. It
//! wakes the threads of lapin; nothing else runs on it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::lapin::options::{
    BasicQosOptions, ConfirmSelectOptions, QueueBindOptions, QueueDeclareOptions,
};
use ::lapin::tcp::OwnedTLSConfig;
use ::lapin::uri::AMQPUri;
use ::lapin::{Channel, Connection, ConnectionProperties, ErrorKind};
use amq_protocol::frame::{AMQPContentHeader, AMQPFrame};
use tls_client::tls_error;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::connect::{FailedAttempt, Reserved, declare_again};
use crate::engine::wire::FRAME_OVERHEAD;
use crate::layout::Client;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::topology;
use amqp_client::frame::encode;
use amqp_client::session;
use amqp_client::{Broker, SessionError};

/// Time that a broker may take to open a connection and its channels.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Frame sizes to request: the first that holds a body is used, because lapin keeps 64 frames of memory per connection.
const FRAMES: [u32; 3] = [8 << 10, 16 << 10, session::FRAME_MAX];

/// A connection with a channel for each of its clients, in the order of the layout.
#[derive(Debug)]
pub(crate) struct OpenedChannels {
    pub(crate) connection: Connection,
    pub(crate) channels: Vec<Channel>,
}

/// Opens the connections of a run.
#[derive(Debug)]
pub(crate) struct Dialer {
    runtime: Handle,
    config: Arc<DialConfig>,
    pub(super) opened: Reserved<OpenedChannels>,
    /// Dropping it ends the runtime.
    _ends: oneshot::Sender<()>,
}

#[derive(Debug)]
struct DialConfig {
    run: Arc<Shared>,
    /// Failed reconnects.
    failed: AtomicU64,
    frame_max: u32,
    /// CA certificates trusted in addition to this machine's.
    tls: OwnedTLSConfig,
}

impl Dialer {
    /// Opens the connections of the workers of this process.
    pub(crate) fn start(run: &Arc<Shared>) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (ends, ended) = oneshot::channel::<()>();
        std::thread::Builder::new()
            .name("lapin-sockets".to_owned())
            // An error means that the sender is gone, which is the awaited end.
            .spawn(move || runtime.block_on(ended).err())?;
        let config = Arc::new(DialConfig {
            run: Arc::clone(run),
            failed: AtomicU64::new(0),
            frame_max: frame_max(&run.plan.driver, &run.bodies),
            tls: tls(&run.plan.driver)?,
        });
        let mut opened = Vec::new();
        for number in run.connections() {
            let (config, (answer, answered)) = (Arc::clone(&config), std::sync::mpsc::channel());
            handle.spawn(async move {
                // The caller waits for it.
                let _ = answer.send(config.open(number).await);
            });
            let answer = answered.recv().map_err(|_| ended_early())?;
            let node = run.nodes.node(number, 0);
            opened.push((number, answer.map_err(|error| node.explain(&error))?));
        }
        Ok(Self {
            runtime: handle,
            config,
            opened: Reserved::new(opened),
            _ends: ends,
        })
    }

    /// Reopens a connection.
    pub(crate) fn again(&self, number: u64) -> JoinHandle<Result<OpenedChannels, FailedAttempt>> {
        let (config, declares) = (Arc::clone(&self.config), Arc::clone(&self.config));
        self.runtime.spawn(async move {
            let declare = move || declare_again(&declares.run, declares.node(number));
            let declared = tokio::task::spawn_blocking(declare);
            let opened = match declared.await.map_err(|_| ended_early()) {
                Ok(Ok(())) => config.open(number).await,
                Ok(Err(error)) | Err(error) => Err(error),
            };
            opened.map_err(|error| {
                let address = config.node(number).address();
                config.failed.fetch_add(1, Ordering::Relaxed);
                (address, error)
            })
        })
    }
}

impl DialConfig {
    fn node(&self, number: u64) -> &Broker {
        self.run
            .nodes
            .node(number, self.failed.load(Ordering::Relaxed))
    }

    fn uri(&self, number: u64) -> AMQPUri {
        let mut uri = self.node(number).uri.clone();
        let query = &mut uri.query;
        // 0 would mean no limit, and lapin would allocate 64 times that.
        let requested = query.frame_max.filter(|octets| *octets > 0);
        query.frame_max = requested.or(Some(self.frame_max));
        query.heartbeat = self.run.plan.driver.heartbeat.or(query.heartbeat);
        uri
    }

    async fn open(&self, number: u64) -> Result<OpenedChannels, SessionError> {
        let silent = |_| SessionError::Io(io::ErrorKind::TimedOut.into());
        tokio::time::timeout(REPLY_TIMEOUT, self.dial(number))
            .await
            .map_err(silent)?
            .map_err(|error| explained(&error))
    }

    async fn dial(&self, number: u64) -> ::lapin::Result<OpenedChannels> {
        let properties = ConnectionProperties::default()
            .with_client_property("product".into(), "amqp-perftest".into())
            .with_client_property("version".into(), env!("CARGO_PKG_VERSION").into());
        let (uri, tls) = (self.uri(number), self.tls.clone());
        let runtime = ::lapin::runtime::default_runtime()?;
        let connection = Connection::connect_uri_with_config(uri, properties, tls, runtime).await?;
        let mut channels = Vec::new();
        for client in self.run.layout.clients(number) {
            let channel = connection.create_channel().await?;
            self.prepare(client, &channel).await?;
            channels.push(channel);
        }
        Ok(OpenedChannels {
            connection,
            channels,
        })
    }

    async fn prepare(&self, client: Client, channel: &Channel) -> ::lapin::Result<()> {
        let settings = &self.run.plan.driver;
        match client {
            Client::Producer(_) if settings.confirms.is_some() => {
                channel
                    .confirm_select(ConfirmSelectOptions::default())
                    .await
            }
            Client::Consumer(index) => {
                if settings.exclusive {
                    declare_own(settings, index, channel).await?;
                }
                if settings.prefetch == 0 || settings.auto_ack {
                    return Ok(());
                }
                let global = settings.global_qos;
                channel
                    .basic_qos(settings.prefetch, BasicQosOptions { global })
                    .await
            }
            Client::Producer(_) => Ok(()),
        }
    }
}

fn tls(settings: &Settings) -> io::Result<OwnedTLSConfig> {
    let certificates = settings.tls_ca.as_ref().map(std::fs::read_to_string);
    Ok(OwnedTLSConfig {
        identity: None,
        cert_chain: certificates.transpose()?,
    })
}

/// Declares the exclusive queue of consumer `index` on its own connection.
async fn declare_own(settings: &Settings, index: u32, channel: &Channel) -> ::lapin::Result<()> {
    let name = settings.queue_of(u64::from(index));
    let declare = topology::declaration(settings, &name);
    let options = QueueDeclareOptions {
        durable: declare.durable,
        exclusive: declare.exclusive,
        auto_delete: declare.auto_delete,
        ..QueueDeclareOptions::default()
    };
    channel
        .queue_declare(declare.queue, options, declare.arguments)
        .await?;
    let Some(bind) = topology::binding(settings, &name) else {
        return Ok(());
    };
    let options = QueueBindOptions::default();
    channel
        .queue_bind(
            bind.queue,
            bind.exchange,
            bind.routing_key,
            options,
            bind.arguments,
        )
        .await
}

/// Returns the smallest frame size that holds whole bodies and their content header.
fn frame_max(settings: &Settings, bodies: &[Vec<u8>]) -> u32 {
    let header = AMQPContentHeader {
        class_id: 60,
        body_size: 0,
        properties: topology::properties(settings),
    };
    let header = encode(&AMQPFrame::Header(1, header)).len();
    let bodies = bodies.iter().map(|body| body.len() + FRAME_OVERHEAD);
    let largest = bodies.fold(header, usize::max);
    let fits = FRAMES.into_iter().find(|size| *size as usize >= largest);
    fits.unwrap_or(session::FRAME_MAX)
}

fn ended_early() -> SessionError {
    SessionError::Protocol("the thread that opens connections has ended".to_owned())
}

/// Converts an error of lapin to the error type that both engines share.
fn explained(error: &::lapin::Error) -> SessionError {
    match error.kind() {
        ErrorKind::IOError(error) => SessionError::Io(match tls_error(error) {
            Some(refusal) => io::Error::new(error.kind(), refusal.clone()),
            None => io::Error::new(error.kind(), error.to_string()),
        }),
        ErrorKind::ProtocolError(error) => SessionError::Closed {
            code: error.get_id(),
            text: error.get_message().to_string(),
        },
        ErrorKind::ChannelsLimitReached => SessionError::ChannelLimit,
        _ => SessionError::Protocol(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_as_small_as_the_bodies_allow() {
        let settings = Settings::default();
        for (octets, size) in [(28, 8192), (8184, 8192), (8185, 16_384), (1 << 20, 131_072)] {
            assert_eq!(frame_max(&settings, &[vec![0; octets]]), size, "{octets}");
        }
    }
}
