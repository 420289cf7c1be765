//! Placement of producers and consumers on connections, and of connections on workers.

use load::plan::Plan;

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

    /// Returns the connections of one of `workers` workers. Consumers begin with the last worker, so that one producer
    /// and one consumer have a worker each.
    pub(crate) fn worker_connections(self, worker: u64, workers: u64) -> impl Iterator<Item = u64> {
        let publishers = self.publishers(workers);
        (0..self.connections()).filter(move |connection| {
            worker
                == match connection.checked_sub(self.publishing()) {
                    None => connection % publishers,
                    Some(index) => workers - 1 - index % workers,
                }
        })
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
                    .flat_map(|worker| layout.worker_connections(worker, workers))
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
                        .worker_connections(worker, workers)
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
}
