//! Exchanges, queues, bindings and consumers, which refer to each other.

use std::collections::HashMap;
use std::rc::Rc;

use crate::arena::Arena;
use crate::channel::ChannelId;
use crate::definitions::{Definition, End, Object};
use crate::exchange::{Binding, Destination, Exchange, Name, QueueId, remove_first};
use crate::queue::{Consumer, ConsumerId, Limits, Queue};
use crate::vhost::Vhost;

/// All objects that clients declare, and their consumers.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    vhosts: Vec<Vhost>,
    queues: Arena<'q', Queue>,
    consumers: Arena<'u', Consumer>,
    /// The exchanges that each queue or exchange of a virtual host is bound to, with repetitions.
    sources: HashMap<(usize, Destination), Vec<Name>>,
    /// Channels that consume direct replies, by their reply address.
    pub(super) replies: HashMap<Name, ChannelId>,
    /// Counts changes of exchanges, queues and bindings.
    version: u64,
}

impl Topology {
    pub(super) fn new(vhosts: &[String]) -> Self {
        Self {
            vhosts: vhosts.iter().map(|name| Vhost::new(name)).collect(),
            // A new channel has no route for any version.
            version: 1,
            ..Self::default()
        }
    }

    #[inline]
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// Adds an object of an earlier run. A virtual host that is no longer among the options keeps its content.
    pub(super) fn restore(&mut self, definition: Definition) {
        let index = self.vhost_index(&definition.vhost).unwrap_or_else(|| {
            self.vhosts.push(Vhost::new(&definition.vhost));
            self.vhosts.len() - 1
        });
        match definition.object {
            Object::Exchange(name, settings) => {
                self.add_exchange(index, &name, Exchange::new(settings));
            }
            Object::Queue(name, serial, settings) => {
                let limits = Limits::read(&settings.arguments, &name).unwrap_or_default();
                let name: Name = name.into();
                let queue = Queue::new(Rc::clone(&name), index, settings, limits);
                let id = self.queues.insert_as(serial, queue);
                self.vhosts[index].queues.insert(name, id);
            }
            Object::Binding(source, to, binding) => {
                let to = match to {
                    End::Queue(name) => self.vhosts[index].queue(&name).map(Destination::Queue),
                    End::Exchange(name) => Some(Destination::Exchange(name.into())),
                };
                if let Some(to) = to {
                    self.bind(index, &source, &to, &binding);
                }
            }
        }
    }

    pub(super) fn vhosts(&self) -> &[Vhost] {
        &self.vhosts
    }

    #[inline]
    pub(super) fn vhost(&self, index: usize) -> &Vhost {
        &self.vhosts[index]
    }

    pub(crate) fn vhost_index(&self, name: &str) -> Option<usize> {
        self.vhosts.iter().position(|vhost| &*vhost.name == name)
    }

    pub(super) fn add_exchange(&mut self, vhost: usize, name: &str, exchange: Exchange) {
        self.version += 1;
        self.vhosts[vhost].exchanges.insert(name.into(), exchange);
    }

    pub(super) fn remove_exchange(&mut self, vhost: usize, name: &str) -> Option<Exchange> {
        self.version += 1;
        self.vhosts[vhost].exchanges.remove(name)
    }

    /// Adds a binding if both ends exist. Returns true if it is new.
    pub(super) fn bind(
        &mut self,
        vhost: usize,
        source: &str,
        to: &Destination,
        binding: &Binding,
    ) -> bool {
        let exchange = self.vhosts[vhost].exchanges.get_mut(source);
        if !exchange.is_some_and(|exchange| exchange.bind(to, binding)) {
            return false;
        }
        self.version += 1;
        let sources = self.sources.entry((vhost, to.clone())).or_default();
        sources.push(source.into());
        true
    }

    /// Removes a binding. Returns true if it existed.
    pub(super) fn unbind(
        &mut self,
        vhost: usize,
        source: &str,
        to: &Destination,
        binding: &Binding,
    ) -> bool {
        let exchange = self.vhosts[vhost].exchanges.get_mut(source);
        let is_bound = exchange.is_some_and(|exchange| exchange.unbind(to, binding));
        if is_bound {
            self.version += 1;
            self.forget_source(vhost, to, source);
        }
        is_bound
    }

    /// Removes all bindings of an exchange to a deleted destination, and returns them.
    pub(super) fn forget_destination(
        &mut self,
        vhost: usize,
        source: &str,
        to: &Destination,
    ) -> Vec<Binding> {
        let exchange = self.vhosts[vhost].exchanges.get_mut(source);
        let bindings = exchange.map(|exchange| exchange.forget(to));
        bindings.unwrap_or_default()
    }

    /// Removes one entry from the sources of a destination.
    pub(super) fn forget_source(&mut self, vhost: usize, to: &Destination, source: &str) {
        if let Some(sources) = self.sources.get_mut(&(vhost, to.clone())) {
            remove_first(sources, |other| **other == *source);
        }
    }

    /// Takes the exchanges that a deleted queue or exchange was bound to, with repetitions.
    pub(super) fn take_sources(&mut self, vhost: usize, to: &Destination) -> Vec<Name> {
        let sources = self.sources.remove(&(vhost, to.clone()));
        sources.unwrap_or_default()
    }

    /// Returns true if a binding is durable, which means that both of its ends are.
    pub(super) fn is_durable(&self, vhost: usize, source: &str, to: &Destination) -> bool {
        let is_durable = |name: &str| {
            let exchange = self.vhosts[vhost].exchanges.get(name);
            exchange.is_none_or(|exchange| exchange.settings.durable)
        };
        is_durable(source)
            && match to {
                Destination::Exchange(name) => is_durable(name),
                Destination::Queue(id) => self.is_stored(*id),
            }
    }

    /// Returns true if the persistent messages of a queue must be logged.
    pub(super) fn is_stored(&self, id: QueueId) -> bool {
        self.queues.get(id).is_some_and(Queue::is_stored)
    }

    #[inline]
    pub(super) fn queue(&self, id: QueueId) -> Option<&Queue> {
        self.queues.get(id)
    }

    #[inline]
    pub(super) fn queue_mut(&mut self, id: QueueId) -> Option<&mut Queue> {
        self.queues.get_mut(id)
    }

    pub(super) fn queues(&self) -> impl Iterator<Item = (QueueId, &Queue)> {
        self.queues.iter()
    }

    pub(super) fn queue_count(&self) -> usize {
        self.queues.len()
    }

    pub(super) fn add_queue(&mut self, queue: Queue) -> QueueId {
        self.version += 1;
        let (vhost, name) = (queue.vhost, Rc::clone(&queue.name));
        let id = self.queues.insert(queue);
        self.vhosts[vhost].queues.insert(name, id);
        id
    }

    pub(super) fn remove_queue(&mut self, id: QueueId) -> Option<Queue> {
        self.version += 1;
        let queue = self.queues.remove(id)?;
        self.vhosts[queue.vhost].queues.remove(&queue.name);
        Some(queue)
    }

    /// Names a queue in an error message.
    pub(super) fn describe(&self, queue: &Queue) -> String {
        self.vhosts[queue.vhost].describe("queue", &queue.name)
    }

    #[inline]
    pub(super) fn consumer(&self, id: ConsumerId) -> Option<&Consumer> {
        self.consumers.get(id)
    }

    pub(super) fn consumer_count(&self) -> usize {
        self.consumers.len()
    }

    /// Returns a queue, and all consumers.
    #[inline]
    pub(super) fn queue_and_consumers(
        &mut self,
        id: QueueId,
    ) -> Option<(&mut Queue, &mut Arena<'u', Consumer>)> {
        Some((self.queues.get_mut(id)?, &mut self.consumers))
    }

    /// Returns a consumer and its queue.
    pub(super) fn consumer_and_queue(
        &mut self,
        id: ConsumerId,
    ) -> Option<(&mut Consumer, &mut Queue)> {
        let consumer = self.consumers.get_mut(id)?;
        let queue = self.queues.get_mut(consumer.queue)?;
        Some((consumer, queue))
    }

    pub(super) fn add_consumer(&mut self, consumer: Consumer) -> ConsumerId {
        let queue = consumer.queue;
        let id = self.consumers.insert(consumer);
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.add_consumer(id, &self.consumers[id]);
        }
        id
    }

    pub(super) fn remove_consumer(&mut self, id: ConsumerId) -> Option<Consumer> {
        let consumer = self.consumers.remove(id)?;
        if let Some(queue) = self.queues.get_mut(consumer.queue) {
            queue.remove_consumer(id, &consumer);
        }
        Some(consumer)
    }
}
