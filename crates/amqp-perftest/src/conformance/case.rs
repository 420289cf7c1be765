//! One case: its name, and the function that looks.

use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use amq_protocol::protocol::{exchange, queue};

use super::channel::Channel;
use super::connection::Connection;
use crate::session::Broker;

/// What a case does and looks at.
type Look = Box<dyn Fn(&Scope<'_>) -> anyhow::Result<()> + Send + Sync>;

/// Something that a broker must do.
pub(super) struct Case {
    /// The method or the section of AMQP 0-9-1, a colon, and a few words: different from all others.
    pub(super) name: String,
    /// Passes, or fails with what was seen.
    pub(super) look: Look,
}

impl fmt::Debug for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

/// A case that makes its connections itself.
pub(super) fn case(
    name: impl Into<String>,
    look: impl Fn(&Scope<'_>) -> anyhow::Result<()> + Send + Sync + 'static,
) -> Case {
    Case {
        name: name.into(),
        look: Box::new(look),
    }
}

/// A case on one connection, which must be in order afterwards.
pub(super) fn on_connection(
    name: impl Into<String>,
    look: impl Fn(&Connection<'_>) -> anyhow::Result<()> + Send + Sync + 'static,
) -> Case {
    case(name, move |scope| {
        let connection = scope.connect()?;
        look(&connection)?;
        connection.close()
    })
}

/// A case on one channel, which must be in order afterwards.
pub(super) fn on_channel(
    name: impl Into<String>,
    look: impl Fn(&Channel<'_>) -> anyhow::Result<()> + Send + Sync + 'static,
) -> Case {
    on_connection(name, move |connection| {
        let channel = connection.channel()?;
        look(&channel)?;
        channel.close()
    })
}

/// What a case has for itself: the way to the broker, and names that nobody else uses.
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

    /// `host:port`.
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

    /// A connection with the settings that the broker suggests.
    pub(super) fn connect(&self) -> anyhow::Result<Connection<'_>> {
        Connection::open(self)
    }

    /// A name for an exchange or a queue, which is deleted after the case.
    pub(super) fn name(&self) -> String {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("conformance-{}-{next}", std::process::id());
        self.names.borrow_mut().push(name.clone());
        name
    }

    /// Deletes what bears one of the names. What is gone, or what the broker will not give back, is no concern.
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
