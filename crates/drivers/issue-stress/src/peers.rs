//! Databases that store the same issue as the issue daemon, for comparison.
//!
//! A create stores four rows in one transaction and one round trip: the issue, its label, the event of its creation,
//! and a counter of open issues. Each database answers when the transaction is on disk; the manifests below `daemons/`
//! set that up.
//!
//! One difference favours the peers: the daemon's counter is one row. In PostgreSQL, each transaction would then wait
//! for the commit of the one before it, and no two could share a sync. By default every agent therefore counts in a row
//! of its own, to be added up by readers; `?counter=one` in the URL makes it one row. etcd has no increment, so an
//! agent stores its own count in either case. Redis has one thread and needs no such care.

mod etcd;
mod postgresql;
mod redis;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use etcd::EtcdConnection;
use postgresql::PostgresqlConnection;
use redis::RedisConnection;

/// A database, by the scheme of its URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// `postgresql:SOCKET`, with `?counter=one` if all agents count in one row.
    Postgresql {
        /// The path of its Unix socket.
        socket: PathBuf,
        /// True if all agents count in the same row.
        has_one_counter: bool,
    },
    /// `redis:SOCKET`.
    Redis {
        /// The path of its Unix socket.
        socket: PathBuf,
    },
    /// `etcd://HOST:PORT`.
    Etcd {
        /// The address of its clients' port.
        address: String,
    },
}

/// An issue to be created. Ids are made by the agent, which must not use one twice.
#[derive(Debug, Clone, Copy)]
pub struct NewIssue<'a> {
    /// The id, which no other issue has.
    pub id: &'a str,
    /// The title.
    pub title: &'a str,
    /// The description; may be empty.
    pub description: &'a str,
    /// The label.
    pub label: &'a str,
    /// The agent's name, for the event.
    pub actor: &'a str,
    /// The time of the creation, Unix time in microseconds.
    pub at_us: u64,
}

/// A connection of one agent. It has one request in flight at a time; a future that is dropped before its answer leaves
/// the connection unusable.
#[derive(Debug)]
pub enum Connection {
    /// To PostgreSQL.
    Postgresql(PostgresqlConnection),
    /// To Redis.
    Redis(RedisConnection),
    /// To etcd.
    Etcd(EtcdConnection),
}

impl Peer {
    /// Parses a URL. Returns `None` if its scheme names no database.
    ///
    /// # Errors
    /// The scheme is known, and the rest is wrong.
    pub fn parse(url: &str) -> anyhow::Result<Option<Self>> {
        let Some((scheme, rest)) = url.split_once(':') else {
            return Ok(None);
        };
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !["postgresql", "redis", "etcd"].contains(&scheme) {
            return Ok(None);
        }
        if scheme != "etcd" && path.starts_with("//") {
            bail!(
                "`{url}`: only its Unix socket is used; write {scheme}:SOCKET, such as {scheme}:/run/{scheme}.sock"
            );
        }
        let has_one_counter = scheme == "postgresql" && query == "counter=one";
        if !query.is_empty() && !has_one_counter {
            bail!("`{url}`: unknown option `{query}`; only postgresql: has one, `counter=one`");
        }
        Ok(Some(match scheme {
            "postgresql" => Self::Postgresql {
                socket: PathBuf::from(path),
                has_one_counter,
            },
            "redis" => Self::Redis {
                socket: PathBuf::from(path),
            },
            _ => {
                let address = path.strip_prefix("//").filter(|rest| rest.contains(':'));
                let wanted = || format!("`{url}`: the address is missing; write etcd://HOST:PORT");
                Self::Etcd {
                    address: address.with_context(wanted)?.to_owned(),
                }
            }
        }))
    }

    /// Returns the path of its Unix socket, if it listens on one.
    pub fn socket(&self) -> Option<&Path> {
        match self {
            Self::Postgresql { socket, .. } | Self::Redis { socket } => Some(socket),
            Self::Etcd { .. } => None,
        }
    }

    /// Makes the tables, and waits for one answer. Done once, before the first agent connects.
    ///
    /// # Errors
    /// The database can't be reached or refuses.
    pub async fn prepare(&self) -> anyhow::Result<()> {
        // The tables of the others exist once a key does.
        if let Self::Postgresql { socket, .. } = self {
            postgresql::prepare(socket).await?;
        }
        self.connect(0).await?.ping().await
    }

    /// Connects an agent. Two agents at once must not have the same number.
    ///
    /// # Errors
    /// The database can't be reached or refuses.
    pub async fn connect(&self, agent: u32) -> anyhow::Result<Connection> {
        Ok(match self {
            Self::Postgresql {
                socket,
                has_one_counter,
            } => {
                let counter = if *has_one_counter { 0 } else { agent };
                Connection::Postgresql(PostgresqlConnection::open(socket, counter).await?)
            }
            Self::Redis { socket } => Connection::Redis(RedisConnection::open(socket).await?),
            Self::Etcd { address } => Connection::Etcd(EtcdConnection::open(address, agent).await?),
        })
    }
}

impl Connection {
    /// Creates an issue: four rows in one transaction, which is on disk when this returns.
    ///
    /// # Errors
    /// The database refuses, or the connection breaks; in the latter case the issue may exist.
    pub async fn create(&mut self, issue: &NewIssue<'_>) -> anyhow::Result<()> {
        match self {
            Self::Postgresql(connection) => connection.create(issue).await,
            Self::Redis(connection) => connection.create(issue).await,
            Self::Etcd(connection) => connection.create(issue).await,
        }
    }

    /// Makes the shortest round trip that the database offers.
    ///
    /// # Errors
    /// The connection is broken.
    pub async fn ping(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Postgresql(connection) => connection.ping().await,
            Self::Redis(connection) => connection.ping().await,
            Self::Etcd(connection) => connection.ping().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_the_database() {
        let parse = |url: &str| Peer::parse(url).unwrap();
        let socket = PathBuf::from("/run/a.sock");
        let postgresql = |has_one_counter| Peer::Postgresql {
            socket: socket.clone(),
            has_one_counter,
        };
        assert_eq!(parse("postgresql:/run/a.sock"), Some(postgresql(false)));
        assert_eq!(
            parse("postgresql:/run/a.sock?counter=one"),
            Some(postgresql(true))
        );
        let redis = Peer::Redis {
            socket: socket.clone(),
        };
        assert_eq!(parse("redis:/run/a.sock"), Some(redis));
        let address = "127.0.0.1:2379".to_owned();
        assert_eq!(parse("etcd://127.0.0.1:2379"), Some(Peer::Etcd { address }));
        assert_eq!(parse("/run/issues.sock"), None);
        assert_eq!(parse("unix:/run/issues.sock"), None);
        for url in [
            "etcd:",
            "redis:/a?counter=one",
            "postgresql:/a?counter=two",
            "redis://127.0.0.1:6379",
        ] {
            assert!(Peer::parse(url).is_err(), "{url}");
        }
    }
}
