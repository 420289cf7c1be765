//! A log with a model: every operation is applied to both, and the recovered state must match the model.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use broker_daemon::log::{Log, LogOptions, NewMessage, Recovered, State};

/// More than any disk needs for a sync.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Segments so small that a test fills many.
pub(crate) const SMALL: LogOptions = LogOptions {
    segment_bytes: 16 << 10,
    in_flight_bytes: 1 << 20,
};

/// The content of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Model {
    /// Length of the body and the queues that hold it, by id.
    pub(crate) messages: BTreeMap<u64, (usize, BTreeSet<u32>)>,
    pub(crate) meta: BTreeMap<String, Vec<u8>>,
}

/// Returns the body of a message: its id determines each byte.
pub(crate) fn body(id: u64, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (id.wrapping_mul(31) as usize + at) as u8)
        .collect()
}

impl Model {
    /// Builds the model from recovered state, and checks every part of it.
    pub(crate) fn from_recovered(recovered: &Recovered) -> Self {
        let mut model = Self::default();
        let mut last = 0;
        for stored in &recovered.messages {
            assert!(stored.id > last, "{} comes after {last}", stored.id);
            last = stored.id;
            let found = stored.body();
            assert_eq!(found, body(stored.id, found.len()), "body of {}", stored.id);
            assert_eq!(stored.exchange(), format!("x{}", stored.id).as_bytes());
            assert_eq!(stored.routing_key(), b"key");
            assert_eq!(stored.properties(), stored.id.to_be_bytes().as_slice());
            assert_eq!(stored.published_ms, stored.id * 7);
            let queues: BTreeSet<u32> = stored.queues().iter().copied().collect();
            assert_eq!(queues.len(), stored.queues().len(), "a queue twice");
            model.messages.insert(stored.id, (found.len(), queues));
        }
        model.meta = recovered.meta.iter().cloned().collect();
        model
    }
}

/// An open log, with the model of the operations on it.
#[derive(Debug)]
pub(crate) struct Modelled {
    pub(crate) log: Log,
    pub(crate) model: Model,
    woken: Receiver<()>,
    next_id: u64,
}

impl Modelled {
    /// Opens the folder, whose content must match the model.
    pub(crate) fn open(dir: &Path, options: LogOptions, model: Model, next_id: u64) -> Self {
        let (wake, woken) = mpsc::channel();
        let (log, recovered) = Log::open(dir, options, move || {
            // The test may have dropped the receiver before the log.
            let _ = wake.send(());
        })
        .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(Model::from_recovered(&recovered), model);
        Self {
            log,
            model,
            woken,
            next_id,
        }
    }

    /// Creates an empty log.
    pub(crate) fn new(dir: &Path) -> Self {
        Self::open(dir, SMALL, Model::default(), 1)
    }

    pub(crate) fn publish(&mut self, queues: &[u32], len: usize) -> u64 {
        let id = publish(&mut self.log, self.next_id, queues, len);
        self.next_id = id + 1;
        let queues = queues.iter().copied().collect();
        self.model.messages.insert(id, (len, queues));
        id
    }

    pub(crate) fn settle(&mut self, queue: u32, id: u64) {
        self.log.settle(queue, id);
        if let Some((_, queues)) = self.model.messages.get_mut(&id) {
            queues.remove(&queue);
            if queues.is_empty() {
                self.model.messages.remove(&id);
            }
        }
    }

    pub(crate) fn delete_queue(&mut self, queue: u32) {
        let held: Vec<u64> = self
            .pairs()
            .filter(|(held_by, _)| *held_by == queue)
            .map(|(_, id)| id)
            .collect();
        self.log.delete_queue(queue, held.iter().copied());
        self.model.messages.retain(|_, (_, queues)| {
            queues.remove(&queue);
            !queues.is_empty()
        });
    }

    pub(crate) fn put(&mut self, key: &str, value: &[u8]) {
        self.log.put_meta(key, value);
        self.model.meta.insert(key.to_owned(), value.to_owned());
    }

    pub(crate) fn delete(&mut self, key: &str) {
        self.log.delete_meta(key);
        self.model.meta.remove(key);
    }

    /// Returns every pair of queue and message.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (u32, u64)> {
        self.model
            .messages
            .iter()
            .flat_map(|(id, (_, queues))| queues.iter().map(|queue| (*queue, *id)))
    }

    /// Waits until the gathered records are on disk.
    pub(crate) fn sync(&mut self) {
        let ticket = self.log.ticket();
        self.log.flush();
        self.wait(|log| log.synced() >= ticket);
    }

    /// Waits for a change that the writer causes.
    pub(crate) fn wait(&mut self, done: impl Fn(&Log) -> bool) {
        while !done(&self.log) {
            if let State::Failed(error) = self.log.state() {
                panic!("{error}");
            }
            self.woken.recv_timeout(LONG).expect("the writer goes on");
        }
    }

    /// Closes and reopens it.
    pub(crate) fn reopen(self, dir: &Path, options: LogOptions) -> Self {
        let (model, next_id) = self.close();
        Self::open(dir, options, model, next_id)
    }

    /// Closes it. Returns its expected content, and the next id.
    pub(crate) fn close(self) -> (Model, u64) {
        self.log.close().unwrap_or_else(|error| panic!("{error}"));
        (self.model, self.next_id)
    }
}

/// Publishes a message whose content is determined by its id, which must be `due`.
pub(crate) fn publish(log: &mut Log, due: u64, queues: &[u32], len: usize) -> u64 {
    let id = log.publish(
        queues,
        &NewMessage {
            published_ms: due * 7,
            exchange: format!("x{due}").as_bytes(),
            routing_key: b"key",
            properties: &due.to_be_bytes(),
            body: &body(due, len),
        },
    );
    assert_eq!(id, due);
    id
}

/// Returns the segments of a folder, oldest first.
pub(crate) fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(dir)
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry is read").path())
        .filter(|path| path.extension().is_some_and(|end| end == "log"))
        .collect();
    paths.sort();
    paths
}

/// Opens a folder and returns its content.
pub(crate) fn recover(dir: &Path) -> Result<(Model, u64), broker_daemon::log::Error> {
    let (log, recovered) = Log::open(dir, SMALL, || ())?;
    drop(log);
    Ok((Model::from_recovered(&recovered), recovered.cut_bytes))
}
