//! The background thread: removes silent members, and runs the node of a cluster.

use std::sync::Arc;
use std::thread::{Builder as ThreadBuilder, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::node::Node;
use crate::presence::{Clock, Presence, Sink};

/// Time to tell the other nodes at shutdown who left.
const GOODBYE: Duration = Duration::from_secs(2);

/// The thread of a service.
#[derive(Debug)]
pub(crate) struct Maintenance {
    stop: watch::Sender<bool>,
    thread: JoinHandle<()>,
}

impl Maintenance {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system refuses the thread or its runtime.
    pub(crate) fn start<S: Sink>(
        presence: Arc<Presence<S>>,
        clock: Clock,
        every: Duration,
        node: Option<Node<S>>,
    ) -> anyhow::Result<Self> {
        let (stop, stopped) = watch::channel(false);
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start a Tokio runtime")?;
        let thread = ThreadBuilder::new()
            .name("maintenance".to_owned())
            .spawn(move || {
                LocalSet::new().block_on(&runtime, run(presence, clock, every, node, stopped))
            })
            .context("cannot start a thread")?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread, after the other nodes were told who left.
    pub(crate) fn stop(self) {
        self.stop.send_replace(true);
        // A panic was printed already.
        let _ = self.thread.join();
    }
}

async fn run<S: Sink>(
    presence: Arc<Presence<S>>,
    clock: Clock,
    every: Duration,
    node: Option<Node<S>>,
    mut stopped: watch::Receiver<bool>,
) {
    let writing = spawn_local(socketio_server::write_batches());
    let connection = node.map(|node| spawn_local(node.run(stopped.clone())));
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => presence.remove_expired(clock.now_ms()),
            _ = stopped.wait_for(|stop| *stop) => break,
        }
    }
    if let Some(connection) = connection {
        // Without Redis there is nobody to tell.
        let _ = timeout(GOODBYE, connection).await;
    }
    writing.abort();
}
