//! Redis over its Unix socket: a create is one `MULTI` … `EXEC`.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::Path;

use ::redis::aio::MultiplexedConnection;
use anyhow::{Context as _, ensure};

use super::NewIssue;

/// A connection to Redis.
pub struct RedisConnection(MultiplexedConnection);

impl fmt::Debug for RedisConnection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("RedisConnection")
    }
}

impl RedisConnection {
    pub(super) async fn open(socket: &Path) -> anyhow::Result<Self> {
        let url = format!("redis+unix://{}", socket.display());
        let client = ::redis::Client::open(url)?;
        // The caller has the deadlines.
        let settings = ::redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let connection = client
            .get_multiplexed_async_connection_with_config(&settings)
            .await;
        // The library's error repeats the system's, and hides its type.
        let connection = connection
            .map_err(|error| io::Error::new(ErrorKind::ConnectionRefused, error.to_string()));
        let connection =
            connection.with_context(|| format!("connecting to {}", socket.display()))?;
        Ok(Self(connection))
    }

    pub(super) async fn create(&mut self, issue: &NewIssue<'_>) -> anyhow::Result<()> {
        let fields = [
            ("title", issue.title),
            ("description", issue.description),
            ("status", "open"),
            ("priority", "2"),
            ("created_at", &issue.at_us.to_string()),
        ];
        let event = format!("{} created {} {}", issue.id, issue.actor, issue.at_us);
        let mut create = ::redis::pipe();
        create
            .atomic()
            .hset_multiple(format!("issue:{}", issue.id), &fields)
            .sadd(format!("label:{}", issue.label), issue.id)
            .rpush("events", event)
            .hincr("counters", "open", 1);
        let changed: (String, u64, u64, u64) = create
            .query_async(&mut self.0)
            .await
            .context("creating an issue")?;
        ensure!(changed.1 == 1, "the id {} was used before", issue.id);
        Ok(())
    }

    pub(super) async fn ping(&mut self) -> anyhow::Result<()> {
        let _: String = ::redis::cmd("PING").query_async(&mut self.0).await?;
        Ok(())
    }
}
