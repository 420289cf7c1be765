//! A case: its name and its body.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use amq_protocol::protocol::{exchange, queue};

use super::channel::Channel;
use super::connection::Connection;
use amqp_client::Broker;

/// The body of a case: fails with a description of the violation.
type CaseFn = Box<dyn Fn(&Scope<'_>) -> anyhow::Result<()> + Send + Sync>;

/// A rule that a broker must follow.
pub(super) struct Case {
    /// The method or the section of AMQP 0-9-1, a colon, and a few words; unique.
    pub(super) name: String,
    pub(super) run: CaseFn,
}

impl fmt::Debug for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

/// Makes a case that opens its own connections.
pub(super) fn case(
    name: impl Into<String>,
    run: impl Fn(&Scope<'_>) -> anyhow::Result<()> + Send + Sync + 'static,
) -> Case {
    Case {
        name: name.into(),
        run: Box::new(run),
    }
}

/// Makes a case on one connection, which must still be open afterwards.
pub(super) fn on_connection(
    name: impl Into<String>,
    run: impl Fn(&Connection<'_>) -> anyhow::Result<()> + Send + Sync + 'static,
) -> Case {
    case(name, move |scope| {
        let connection = scope.connect()?;
        run(&connection)?;
        connection.close()
    })
}

/// Makes a case on one channel, which must still be open afterwards.
pub(super) fn on_channel(
    name: impl Into<String>,
    run: impl Fn(&Channel<'_>) -> anyhow::Result<()> + Send + Sync + 'static,
) -> Case {
    on_connection(name, move |connection| {
        let channel = connection.channel()?;
        run(&channel)?;
        channel.close()
    })
}

/// The broker of a case, and names that no other case uses.
#[derive(Debug)]
pub(super) struct Scope<'a> {
    broker: &'a Broker,
    names: RefCell<Vec<String>>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(broker: &'a Broker) -> Self {
        Self {
            broker,
            names: RefCell::default(),
        }
    }

    /// Returns the broker's address, `host:port`.
    pub(super) fn address(&self) -> String {
        let authority = &self.broker.uri.authority;
        format!("{}:{}", authority.host, authority.port)
    }

    pub(super) fn user(&self) -> &str {
        &self.broker.uri.authority.userinfo.username
    }

    pub(super) fn password(&self) -> &str {
        &self.broker.uri.authority.userinfo.password
    }

    pub(super) fn vhost(&self) -> &str {
        &self.broker.uri.vhost
    }

    /// Connects with the settings that the broker suggests.
    pub(super) fn connect(&self) -> anyhow::Result<Connection<'_>> {
        Connection::open(self)
    }

    /// Returns a new name for an exchange or a queue, which is deleted after the case.
    pub(super) fn name(&self) -> String {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("conformance-{}-{next}", std::process::id());
        self.names.borrow_mut().push(name.clone());
        name
    }

    /// Deletes the exchanges and queues with these names, as far as the broker lets it.
    pub(super) fn clean(&self) {
        let names = self.names.take();
        if names.is_empty() {
            return;
        }
        let Ok(connection) = self.connect() else {
            return;
        };
        for name in names {
            let delete = || {
                let channel = connection.channel()?;
                channel.call::<queue::DeleteOk>(queue::Delete {
                    queue: name.as_str().into(),
                    ..queue::Delete::default()
                })?;
                channel.call::<exchange::DeleteOk>(exchange::Delete {
                    exchange: name.as_str().into(),
                    ..exchange::Delete::default()
                })?;
                channel.close()
            };
            let _: anyhow::Result<()> = delete();
        }
        let _ = connection.close();
    }
}
