//! The broker without sockets: bytes of clients go in, bytes for clients come out.

use std::rc::Rc;
use std::sync::mpsc::{self, Receiver};

use anyhow::Context;

use super::Broker;
use crate::config::Config;
use crate::log::{self, Log};
use crate::queue::ConnectionId;

/// A broker that is driven by hand, as benchmarks do it. No time passes in it.
#[derive(Debug)]
pub struct Direct {
    broker: Broker,
    /// Hears of what the log has done.
    log_woke: Receiver<()>,
}

/// A client of a [`Direct`].
#[derive(Debug, Clone, Copy)]
pub struct Client(ConnectionId);

impl Direct {
    /// With what the data folder holds, if there is one. The addresses do not matter.
    ///
    /// # Errors
    /// Those of opening the folder.
    pub fn new(config: Config) -> anyhow::Result<Self> {
        let (wake, log_woke) = mpsc::channel();
        let opened = match &config.data_dir {
            Some(dir) => {
                let opened = Log::open(dir, log::Options::default(), move || {
                    // The last wake comes when nobody waits any longer.
                    let _ = wake.send(());
                });
                Some(opened.with_context(|| format!("opening the data in {}", dir.display()))?)
            }
            None => None,
        };
        let mut broker = Broker::new(Rc::new(config));
        if let Some((log, found)) = opened {
            broker.open_store(log, found)?;
        }
        Ok(Self { broker, log_woke })
    }

    /// A client that has said nothing yet.
    pub fn connect(&mut self) -> Client {
        Client(self.broker.connect(None).0)
    }

    /// Processes what one read of a client brought: whole frames.
    pub fn receive(&mut self, client: Client, frames: &[u8]) {
        self.broker.receive(client.0, frames);
    }

    /// Hands to the disk what the turns until now have to store.
    pub fn flush_log(&mut self) {
        self.broker.flush_log();
    }

    /// Appends what a client is to be sent to `to`, as one write takes it.
    pub fn take_output(&mut self, client: Client, to: &mut Vec<u8>) {
        self.broker.write_output(client.0, |slices| {
            let before = to.len();
            for slice in slices {
                to.extend_from_slice(slice);
            }
            Ok(to.len() - before)
        });
    }

    /// Waits until everything that was handed to the disk is on it, and does what that leads to: confirms.
    pub fn wait_for_disk(&mut self) {
        self.broker.watch_log();
        while self.broker.synced < self.broker.flushed
            && !self.broker.log_failed
            && self.log_woke.recv().is_ok()
        {
            self.broker.watch_log();
        }
        self.broker.finish_turn();
    }
}
