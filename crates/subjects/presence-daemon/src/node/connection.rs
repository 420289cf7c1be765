//! The connection to Redis.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, IntoConnectionInfo as _, ProtocolVersion,
    PushInfo,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::scripts::{RENEW_LEASE, WRITE};

/// The settings of a node.
#[derive(Debug, Clone)]
pub struct ClusterSettings {
    /// The address of Redis: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`.
    pub url: String,
    /// Time after which a node that does not extend its lease is dead.
    pub lease: Duration,
    /// Time for Redis to answer.
    pub timeout: Duration,
}

/// A connection on which a node's messages arrive too, in their order.
pub(crate) struct Connection {
    pub(crate) commands: MultiplexedConnection,
    pub(crate) messages: UnboundedReceiver<PushInfo>,
    /// The digests of the scripts.
    pub(crate) write: String,
    pub(crate) renew_lease: String,
    /// The random value of this Redis.
    pub(crate) store: String,
}

/// Checks the address of Redis.
///
/// # Errors
/// The address is not understood.
pub(crate) fn parse_url(url: &str) -> redis::RedisResult<ConnectionInfo> {
    let info = url.into_connection_info()?;
    let settings = info
        .redis_settings()
        .clone()
        .set_protocol(ProtocolVersion::RESP3);
    Ok(info.set_redis_settings(settings))
}

impl Connection {
    /// Connects, loads the scripts, and subscribes to the node's messages.
    pub(crate) async fn open(settings: &ClusterSettings, node: &str) -> redis::RedisResult<Self> {
        let (sender, messages) = unbounded_channel();
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(settings.timeout))
            .set_response_timeout(Some(settings.timeout))
            .set_push_sender(sender);
        let client = Client::open(parse_url(&settings.url)?)?;
        let mut commands = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let load = |script| {
            let mut command = redis::cmd("SCRIPT");
            command.arg("LOAD").arg(script);
            command
        };
        let write = load(WRITE).query_async(&mut commands).await?;
        let renew_lease = load(RENEW_LEASE).query_async(&mut commands).await?;
        let key = "presence:store";
        let proposed = format!("{:032x}", rand::random::<u128>());
        let mut propose = redis::cmd("SETNX");
        propose
            .arg(key)
            .arg(proposed)
            .exec_async(&mut commands)
            .await?;
        let store = redis::cmd("GET")
            .arg(key)
            .query_async(&mut commands)
            .await?;
        commands.subscribe(format!("presence:node:{node}")).await?;
        Ok(Self {
            commands,
            messages,
            write,
            renew_lease,
            store,
        })
    }
}

/// Returns the pause before the next attempt to connect: it doubles up to 2 s, and differs between nodes.
pub(crate) fn backoff(attempt: u32) -> Duration {
    let longest = Duration::from_millis(50 << attempt.min(5)).min(Duration::from_secs(2));
    longest.mul_f64(0.5 + 0.5 * rand::random::<f64>())
}
