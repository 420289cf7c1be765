//! Placement of producers and consumers on connections, and of connections on workers.
//!
//! A run may be divided over several programs, whose numbers of workers differ. So connections are first divided over
//! the shards, and a shard's over its workers.

use load::plan::{Invalid, Plan};
use load::schedule::Share;
use load::workers::WorkerRange;

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
    /// This part of a divided run, and the number of its workers.
    shard: Share,
    workers: u64,
}

impl Layout {
    pub(crate) fn new(plan: &Plan<Settings>, workers: &WorkerRange) -> Self {
        Self {
            producers: settings::producers(plan),
            consumers: settings::consumers(plan),
            channels: u64::from(plan.driver.channels).max(1),
            shard: workers.shard,
            workers: workers.total.max(1),
        }
    }

    /// Returns an error if some shards would publish nothing although there are enough connections for all.
    pub(crate) fn require_even(self) -> Result<(), Invalid> {
        let of = self.shard.of;
        if self.producers == 0 || self.publishing_shards() == of.min(self.publishing()) {
            return Ok(());
        }
        let number = match self.channels {
            1 => self.producers.to_string(),
            channels => format!("{} with --channels {channels}", self.producers),
        };
        let problem = format!(
            "{of} shards cannot have the same number each: take a multiple of {}, or as many shards as divide the producers",
            of * self.channels
        );
        Err(Invalid::new(format!("--producers {number}"), problem))
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

    /// Returns the greatest number, up to `most`, that can be multiplied by `shards` to divide both producers and
    /// connections evenly.
    fn even(self, most: u64, shards: u64) -> u64 {
        let even = |many: &u64| {
            let all = many * shards;
            self.producers.is_multiple_of(all) && self.publishing().is_multiple_of(all)
        };
        (1..=most).rev().find(even).unwrap_or(1)
    }

    /// Returns how many shards publish: the most that split both producers and connections evenly.
    fn publishing_shards(self) -> u64 {
        self.even(self.shard.of, 1)
    }

    /// Returns how many workers of this shard publish: the first ones.
    pub(crate) fn publishers(self) -> u64 {
        let shards = self.publishing_shards();
        if self.shard.index < shards {
            self.even(self.workers, shards)
        } else {
            0
        }
    }

    /// Returns the part of a worker of this shard in the producers, their connections and their messages, if it
    /// publishes: message k of the schedule belongs to producer k modulo their number.
    pub(crate) fn publishing_share(self, worker: u64) -> Option<Share> {
        let of = self.publishers();
        let shard = Share {
            index: self.shard.index,
            of: self.publishing_shards(),
        };
        (worker < of).then(|| shard.within(Share { index: worker, of }))
    }

    /// Returns the part of a worker of this shard in the consuming connections. They begin with the last shard and its
    /// last worker, so that one producer and one consumer have a worker each.
    fn consuming_share(self, worker: u64) -> Share {
        let last = |share: Share| Share {
            index: share.of - 1 - share.index,
            ..share
        };
        last(self.shard).within(last(Share {
            index: worker,
            of: self.workers,
        }))
    }

    /// Returns the index of a worker in this shard, given its share of the whole load.
    pub(crate) fn worker(self, share: Share) -> u64 {
        share.index / self.shard.of
    }

    /// Returns the part of a worker of this shard in the clients of a churn, if it has any.
    pub(crate) fn churn_share(self, worker: u64) -> Option<Share> {
        let part = |share: Share, clients: u64| {
            let of = share.of.min(clients);
            (share.index < of).then_some(Share { of, ..share })
        };
        let shard = part(self.shard, self.producers)?;
        let of_shard = Share {
            index: worker,
            of: self.workers,
        };
        Some(shard.within(part(of_shard, shard.count(self.producers))?))
    }

    /// Returns the connections of a worker of this shard.
    pub(crate) fn worker_connections(self, worker: u64) -> impl Iterator<Item = u64> {
        let publishing = self.publishing_share(worker).into_iter();
        let first = self.publishing();
        publishing
            .flat_map(move |share| numbers(share, first))
            .chain(
                numbers(self.consuming_share(worker), self.consuming())
                    .map(move |consuming| first + consuming),
            )
    }
}

/// Returns the numbers below `whole` that belong to a share.
fn numbers(share: Share, whole: u64) -> impl Iterator<Item = u64> {
    (share.index..whole).step_by(share.of as usize)
}

/// The producers and consumers of one worker, in the order of their numbers.
#[derive(Debug)]
pub(crate) struct WorkerClients {
    layout: Layout,
    /// Difference between the numbers of two producers.
    stride: u64,
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
    pub(crate) fn new(layout: Layout, worker: u64) -> Self {
        let (mut producers, mut consumers) = (Vec::new(), Vec::new());
        for connection in layout.worker_connections(worker) {
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
            stride: layout.publishing_share(worker).map_or(1, |share| share.of),
            producers,
            consumers,
        }
    }

    /// Returns the index of the producer of message `index` of the schedule.
    pub(crate) fn producer_of(&self, index: u64) -> usize {
        (index % self.layout.producers / self.stride) as usize
    }

    /// Returns the clients of a connection, by channel from 1 on.
    pub(crate) fn of_connection(&self, connection: u64) -> Vec<ClientIndex> {
        let clients = self.layout.clients(connection).into_iter();
        clients
            .map(|client| match client {
                Client::Producer(number) => {
                    ClientIndex::Producer((u64::from(number) / self.stride) as usize)
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
            shard: Share::ALL,
            workers: 1,
        }
    }

    /// Returns the layouts of the shards of a run, whose numbers of workers differ.
    fn shards(layout: Layout, of: u64, workers: u64) -> impl Iterator<Item = Layout> {
        (0..of).map(move |index| Layout {
            shard: Share { index, of },
            workers: workers + index % 2,
            ..layout
        })
    }

    fn sorted(clients: impl Iterator<Item = Client>) -> Vec<Client> {
        let mut clients: Vec<Client> = clients.collect();
        clients.sort_by_key(|client| match client {
            Client::Producer(number) => (0, *number),
            Client::Consumer(number) => (1, *number),
        });
        clients
    }

    #[test]
    fn every_client_has_one_channel_and_every_connection_one_worker() {
        for (producers, consumers, channels) in
            [(1, 1, 1), (20, 20, 1), (7, 3, 2), (0, 5, 4), (12, 0, 5)]
        {
            let layout = layout(producers, consumers, channels);
            for (of, workers) in [(1, 1), (1, 2), (1, 5), (2, 1), (3, 2), (4, 3)] {
                let clients = shards(layout, of, workers).flat_map(|shard| {
                    (0..shard.workers)
                        .flat_map(move |worker| shard.worker_connections(worker))
                        .flat_map(move |connection| shard.clients(connection))
                });
                let all = (0..producers as u32)
                    .map(Client::Producer)
                    .chain((0..consumers as u32).map(Client::Consumer));
                assert!(
                    sorted(clients).into_iter().eq(all),
                    "{layout:?} {of} {workers}"
                );
            }
        }
    }

    #[test]
    fn a_producer_is_on_the_worker_that_its_messages_are_due_on() {
        for (producers, channels) in [(1, 1), (3, 1), (20, 1), (20, 4), (9, 3)] {
            for (of, workers) in [(1, 1), (1, 4), (2, 2), (5, 3)] {
                for shard in shards(layout(producers, 1, channels), of, workers) {
                    for worker in 0..shard.workers {
                        let clients = shard
                            .worker_connections(worker)
                            .flat_map(|index| shard.clients(index));
                        for client in clients {
                            if let Client::Producer(number) = client {
                                let share = shard.publishing_share(worker).unwrap();
                                assert_eq!(u64::from(number) % share.of, share.index);
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn clients_of_a_worker_are_found_by_connection_and_by_message() {
        for shard in shards(layout(12, 7, 2), 2, 3) {
            for worker in 0..shard.workers {
                let clients = WorkerClients::new(shard, worker);
                for connection in shard.worker_connections(worker) {
                    let found = clients.of_connection(connection).into_iter();
                    let numbers = found.map(|client| match client {
                        ClientIndex::Producer(index) => Client::Producer(clients.producers[index]),
                        ClientIndex::Consumer(index) => Client::Consumer(clients.consumers[index]),
                    });
                    assert!(numbers.eq(shard.clients(connection)), "{connection}");
                }
                let share = shard.publishing_share(worker);
                for message in share.into_iter().flat_map(|share| numbers(share, 40)) {
                    let producer = clients.producers[clients.producer_of(message)];
                    assert_eq!(u64::from(producer), message % 12);
                }
            }
        }
    }

    #[test]
    fn every_client_of_a_churn_has_one_worker() {
        for (clients, of, workers) in [(1, 1, 3), (7, 1, 2), (2, 3, 2), (7, 3, 2)] {
            let mut found: Vec<u64> = shards(layout(clients, 0, 1), of, workers)
                .flat_map(|shard| (0..shard.workers).map(move |worker| (shard, worker)))
                .filter_map(|(shard, worker)| shard.churn_share(worker))
                .flat_map(|share| numbers(share, clients))
                .collect();
            found.sort_unstable();
            assert!(found.into_iter().eq(0..clients), "{clients} {of} {workers}");
        }
    }

    #[test]
    fn producers_that_cannot_be_divided_evenly_are_refused_with_the_remedy() {
        let error = |producers, channels, of| {
            let first = shards(layout(producers, 3, channels), of, 1)
                .next()
                .unwrap();
            first.require_even().err().map(|error| error.to_string())
        };
        for (producers, channels, of) in [(1, 1, 2), (3, 1, 4), (20, 1, 4), (20, 4, 5), (0, 1, 3)] {
            assert_eq!(error(producers, channels, of), None);
        }
        let uneven = error(20, 1, 3).unwrap();
        assert!(uneven.contains("--producers 20: 3 shards"), "{uneven}");
        assert!(uneven.contains("a multiple of 3"), "{uneven}");
        assert!(error(20, 4, 2).unwrap().contains("multiple of 8"));
    }
}
