//! Placement of producers and consumers on connections, and of connections on workers.

use load::plan::Plan;
use load::schedule::Share;

use crate::settings::{self, Settings};

/// A producer or a consumer, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    Producer(u32),
    Consumer(u32),
}

/// Distribution of producers and consumers over connections and workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) producers: u64,
    pub(crate) consumers: u64,
    channels: u64,
}

impl Layout {
    pub(crate) fn from_plan(plan: &Plan<Settings>) -> Self {
        Self {
            producers: settings::producers(plan),
            consumers: settings::consumers(plan),
            channels: u64::from(plan.driver.channels).max(1),
        }
    }

    /// Returns the number of connections that publish.
    fn publishing(self) -> u64 {
        self.producers.div_ceil(self.channels)
    }

    /// Returns the number of connections that consume.
    fn consuming(self) -> u64 {
        self.consumers.div_ceil(self.channels)
    }

    /// Returns the number of all connections; publishing ones come first.
    pub(crate) fn connections(self) -> u64 {
        self.publishing() + self.consuming()
    }

    /// Returns the clients of a connection, by channel from 1 on.
    pub(crate) fn clients(self, connection: u64) -> Vec<Client> {
        match connection.checked_sub(self.publishing()) {
            None => (connection..self.producers)
                .step_by(self.publishing() as usize)
                .map(|number| Client::Producer(number as u32))
                .collect(),
            Some(index) => (index..self.consumers)
                .step_by(self.consuming() as usize)
                .map(|number| Client::Consumer(number as u32))
                .collect(),
        }
    }

    /// Returns how many of `workers` workers publish: the most that split both producers and connections evenly.
    /// Message k of the schedule then belongs to producer k modulo their number and to worker k modulo this.
    pub(crate) fn publishers(self, workers: u64) -> u64 {
        let even = |many: &u64| {
            self.producers.is_multiple_of(*many) && self.publishing().is_multiple_of(*many)
        };
        (1..=workers).rev().find(even).unwrap_or(1)
    }

    /// Returns the connections of a worker. Consumers begin with the last worker, so that one producer
    /// and one consumer have a worker each.
    pub(crate) fn worker_connections(self, share: Share) -> impl Iterator<Item = u64> {
        let Share { index, of } = share;
        let publishers = self.publishers(of);
        (0..self.connections()).filter(move |connection| {
            let worker = match connection.checked_sub(self.publishing()) {
                None => connection % publishers,
                Some(consuming) => of - 1 - consuming % of,
            };
            worker == index
        })
    }
}

/// The producers and consumers of one worker, in the order of their numbers.
#[derive(Debug)]
pub(crate) struct WorkerClients {
    layout: Layout,
    /// Number of workers that publish.
    pub(crate) publishers: u64,
    pub(crate) producers: Vec<u32>,
    pub(crate) consumers: Vec<u32>,
}

/// A producer or a consumer, by its index in the list of its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientIndex {
    Producer(usize),
    Consumer(usize),
}

impl WorkerClients {
    pub(crate) fn new(layout: Layout, share: Share) -> Self {
        let (mut producers, mut consumers) = (Vec::new(), Vec::new());
        for connection in layout.worker_connections(share) {
            for client in layout.clients(connection) {
                match client {
                    Client::Producer(number) => producers.push(number),
                    Client::Consumer(number) => consumers.push(number),
                }
            }
        }
        producers.sort_unstable();
        consumers.sort_unstable();
        Self {
            layout,
            publishers: layout.publishers(share.of),
            producers,
            consumers,
        }
    }

    /// Returns the index of the producer of message `index` of the schedule. A worker that publishes has every
    /// `publishers`-th producer.
    pub(crate) fn producer_of(&self, index: u64) -> usize {
        (index % self.layout.producers / self.publishers) as usize
    }

    /// Returns the clients of a connection, by channel from 1 on.
    pub(crate) fn of_connection(&self, connection: u64) -> Vec<ClientIndex> {
        let clients = self.layout.clients(connection).into_iter();
        clients
            .map(|client| match client {
                Client::Producer(number) => {
                    ClientIndex::Producer((u64::from(number) / self.publishers) as usize)
                }
                Client::Consumer(number) => {
                    let found = self.consumers.binary_search(&number);
                    ClientIndex::Consumer(found.expect("it is a consumer of this worker"))
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(producers: u64, consumers: u64, channels: u64) -> Layout {
        Layout {
            producers,
            consumers,
            channels,
        }
    }

    #[test]
    fn every_client_has_one_channel_and_every_connection_one_worker() {
        for (producers, consumers, channels) in
            [(1, 1, 1), (20, 20, 1), (7, 3, 2), (0, 5, 4), (12, 0, 5)]
        {
            let layout = layout(producers, consumers, channels);
            for workers in 1..6 {
                let mut clients: Vec<Client> = (0..workers)
                    .flat_map(|worker| {
                        layout.worker_connections(Share {
                            index: worker,
                            of: workers,
                        })
                    })
                    .flat_map(|connection| layout.clients(connection))
                    .collect();
                clients.sort_by_key(|client| match client {
                    Client::Producer(number) => (0, *number),
                    Client::Consumer(number) => (1, *number),
                });
                let all = (0..producers as u32)
                    .map(Client::Producer)
                    .chain((0..consumers as u32).map(Client::Consumer));
                assert!(clients.into_iter().eq(all), "{layout:?} {workers}");
            }
        }
    }

    #[test]
    fn a_producer_is_on_the_worker_that_its_messages_are_due_on() {
        for (producers, channels) in [(1, 1), (3, 1), (20, 1), (20, 4), (9, 3)] {
            let layout = layout(producers, 1, channels);
            for workers in 1..5 {
                let publishers = layout.publishers(workers);
                for worker in 0..workers {
                    let clients = layout
                        .worker_connections(Share {
                            index: worker,
                            of: workers,
                        })
                        .flat_map(|index| layout.clients(index));
                    for client in clients {
                        if let Client::Producer(number) = client {
                            assert_eq!(u64::from(number) % publishers, worker);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn clients_of_a_worker_are_found_by_connection_and_by_message() {
        let layout = layout(12, 7, 2);
        for index in 0..3 {
            let clients = WorkerClients::new(layout, Share { index, of: 3 });
            for connection in layout.worker_connections(Share { index, of: 3 }) {
                let found = clients.of_connection(connection).into_iter();
                let numbers = found.map(|client| match client {
                    ClientIndex::Producer(index) => Client::Producer(clients.producers[index]),
                    ClientIndex::Consumer(index) => Client::Consumer(clients.consumers[index]),
                });
                assert!(numbers.eq(layout.clients(connection)), "{connection}");
            }
            for message in (index..40).step_by(3) {
                let producer = clients.producers[clients.producer_of(message)];
                assert_eq!(u64::from(producer), message % 12);
            }
        }
    }
}
