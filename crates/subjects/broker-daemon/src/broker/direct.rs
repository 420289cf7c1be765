//! The broker without sockets: input of clients goes in, output for clients comes out.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver};

use anyhow::Context;

use super::Broker;
use crate::log::{self, Log};
use crate::options::Config;
use crate::queue::ConnectionId;

/// A broker driven by direct calls, as in benchmarks. Its clock stands still.
#[derive(Debug)]
pub struct Direct {
    broker: Broker,
    /// Receives a message when the log has made progress.
    log_woke: Receiver<()>,
}

/// A client of a [`Direct`].
#[derive(Debug, Clone, Copy)]
pub struct Client(ConnectionId);

impl Direct {
    /// Opens a broker with the content of the data folder, if there is one. The addresses are ignored.
    ///
    /// # Errors
    /// Failures to open the folder.
    pub fn new(config: Config) -> anyhow::Result<Self> {
        let (wake, log_woke) = mpsc::channel();
        let open = |dir: &PathBuf| {
            let opened = Log::open(dir, log::LogOptions::default(), move || {
                // The last wake-up comes after the receiver is dropped.
                let _ = wake.send(());
            });
            opened.with_context(|| format!("cannot open the data folder {}", dir.display()))
        };
        let opened = config.data_dir.as_ref().map(open).transpose()?;
        let mut broker = Broker::new(Rc::new(config));
        if let Some((log, found)) = opened {
            broker.open_store(log, found)?;
        }
        Ok(Self { broker, log_woke })
    }

    /// Connects a client that has sent nothing yet.
    pub fn connect(&mut self) -> Client {
        Client(self.broker.connect(None).0)
    }

    /// Processes one read of a client, which must consist of whole frames.
    pub fn receive(&mut self, client: Client, frames: &[u8]) {
        self.broker.receive(client.0, frames);
    }

    /// Hands the records gathered so far to the disk.
    pub fn flush_log(&mut self) {
        self.broker.flush_log();
    }

    /// Appends a client's pending output to `to`, as one write would take it.
    pub fn take_output(&mut self, client: Client, to: &mut Vec<u8>) {
        self.broker.write_output(client.0, |slices| {
            let before = to.len();
            for slice in slices {
                to.extend_from_slice(slice);
            }
            Ok(to.len() - before)
        });
    }

    /// Waits until all flushed records are on disk, then sends the confirms.
    pub fn wait_for_disk(&mut self) {
        self.broker.store.watch();
        while self.broker.store.is_writing() && self.log_woke.recv().is_ok() {
            self.broker.store.watch();
        }
        self.broker.finish_turn();
    }
}
