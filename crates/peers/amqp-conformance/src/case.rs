//! A case: its name and its body.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use amqp_client::Broker;

use super::channel::Channel;
use super::connection::Connection;

/// The body of a case: fails with a description of the violation.
type CaseFn = Box<dyn Fn(&Scope<'_>) -> anyhow::Result<()> + Send + Sync>;

/// A rule that a broker must follow.
pub(super) struct Case {
    /// The method or the section of AMQP 0-9-1, a colon, and a few words; unique.
    pub(super) name: String,
    pub(super) run: CaseFn,
}

/// A case that has only its name so far. Each of the methods completes it and adds it to the list; the value of a body
/// does not matter.
pub(super) struct Named<'a> {
    pub(super) name: String,
    pub(super) list: &'a RefCell<Vec<Case>>,
}

impl Named<'_> {
    /// Adds a body that opens its own connections.
    pub(super) fn on_broker<T>(
        self,
        run: impl Fn(&Scope<'_>) -> anyhow::Result<T> + Send + Sync + 'static,
    ) {
        self.list.borrow_mut().push(Case {
            name: self.name,
            run: Box::new(move |scope| run(scope).map(drop)),
        });
    }

    /// Adds a body on one channel, which must still be open afterwards.
    pub(super) fn on_channel<T>(
        self,
        run: impl Fn(&Channel<'_>) -> anyhow::Result<T> + Send + Sync + 'static,
    ) {
        self.on_broker(move |scope| {
            let connection = scope.connect()?;
            let channel = connection.channel()?;
            run(&channel)?;
            channel.close()?;
            connection.close()
        });
    }
}

/// The broker of a case, and names that no other case uses.
#[derive(Debug)]
pub(super) struct Scope<'a> {
    pub(super) broker: &'a Broker,
    names: RefCell<BTreeMap<String, String>>,
    /// The names that are deleted after the case.
    created: RefCell<Vec<String>>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(broker: &'a Broker) -> Self {
        Self {
            broker,
            names: RefCell::default(),
            created: RefCell::default(),
        }
    }

    /// Connects with the settings that the broker suggests.
    pub(super) fn connect(&self) -> anyhow::Result<Connection<'_>> {
        Connection::open_with(self, |_| {})
    }

    /// Returns the meaning of a name in the case. A name without one becomes a new name for an exchange or a queue, which
    /// is deleted after the case.
    pub(super) fn name(&self, word: &str) -> String {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mut names = self.names.borrow_mut();
        let name = names.entry(word.to_owned()).or_insert_with(|| {
            let next = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("conformance-{}-{next}", std::process::id());
            self.created.borrow_mut().push(name.clone());
            name
        });
        name.clone()
    }

    pub(super) fn is_known(&self, word: &str) -> bool {
        self.names.borrow().contains_key(word)
    }

    pub(super) fn define(&self, word: &str, meaning: &str) {
        self.names
            .borrow_mut()
            .insert(word.to_owned(), meaning.to_owned());
    }

    /// Deletes the exchanges and queues with these names, as far as the broker lets it.
    pub(super) fn clean(&self) {
        let names = self.created.take();
        if names.is_empty() {
            return;
        }
        let Ok(connection) = self.connect() else {
            return;
        };
        for name in names {
            let delete = || {
                let channel = connection.channel()?;
                channel.run(&format!("queue.delete {name}; exchange.delete {name}"))?;
                channel.close()
            };
            let _: anyhow::Result<()> = delete();
        }
        let _ = connection.close();
    }
}
