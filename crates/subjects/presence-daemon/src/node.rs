//! A node of several that share their rooms in Redis: it passes the writes of its rooms to Redis, and the events of the
//! other nodes to its rooms.
//!
//! Each write to Redis is one part of a script: it stores a member, takes the next number of the room, and publishes the
//! event to the nodes with members in that room, in one act. The writes that arrive while a script runs go together in
//! the next one. A node's own events need no message: the answer has their numbers, and the room puts all events in
//! order.
//!
//! ```text
//! presence:members:ROOM   hash: connection id → NODE LAST_SEEN MEMBER
//! presence:nodes:ROOM     hash: node → number of its members in the room
//! presence:seq:ROOM       number of the last event
//! presence:rooms:NODE     set: rooms with members of the node
//! presence:lease:NODE     exists while the node lives
//! presence:alive          set: nodes that have not been cleared away
//! presence:store          random; a Redis that lost its data has another one
//! presence:node:NODE      channel: events for the node
//! ```

mod connection;
mod counts;
mod messages;
mod scripts;

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use daemon_kit::RateLimitedLog;
use redis::{Cmd, PushInfo, PushKind, RedisResult, Value};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};

pub use self::connection::ClusterSettings;
use self::connection::{Connection, backoff, parse_url};
pub(crate) use self::counts::NodeCounts;
use self::messages::records;
use self::scripts::{evaluate, parse_answers, parse_outcome, push_write};
use crate::presence::cluster::{Cluster, Op, WriteQueue};
use crate::presence::{Clock, Presence, Sink};

/// Writes that go into one script; one of 500 keeps Redis busy for some 5 ms.
const BATCH: usize = 500;
/// Time between two scripts. What arrives meanwhile goes together: a script costs this node and Redis 30 µs each,
/// whatever it writes.
const PAUSE: Duration = Duration::from_millis(1);
/// Time after which a connection counts as stable.
const STABLE: Duration = Duration::from_secs(5);
/// Lines of the log in a second.
const LOG_LINES: u64 = 5;
/// Rooms of a dead node that are cleared at once.
const ROOMS_AT_ONCE: usize = 50;

/// A node of a cluster.
#[derive(Debug)]
pub(crate) struct Node<S> {
    presence: Arc<Presence<S>>,
    settings: ClusterSettings,
    clock: Clock,
    counts: Arc<NodeCounts>,
    /// Random, so that a node that starts again is another one.
    name: String,
    /// The writes whose answer has not come.
    sent: Vec<Op<S>>,
    /// The random value of the Redis that this node was last connected to.
    store: Option<String>,
    /// Becomes true once the first attempt to reach Redis has ended.
    has_tried: watch::Sender<bool>,
    log: RateLimitedLog,
}

type Answer = Pin<Box<dyn Future<Output = RedisResult<Value>>>>;

impl<S: Sink> Node<S> {
    /// Creates a node for a service that shares its rooms.
    ///
    /// # Errors
    /// The address of Redis is not understood, or one of TLS.
    pub(crate) fn new(
        presence: Arc<Presence<S>>,
        settings: ClusterSettings,
        clock: Clock,
    ) -> anyhow::Result<Self> {
        let is_tls = ["rediss://", "valkeys://"]
            .iter()
            .any(|scheme| settings.url.starts_with(scheme));
        // Without the address: it may have a password.
        ensure!(
            !is_tls,
            "TLS to Redis is not supported (--redis, REDIS_URL); give a redis:// address in a network that you trust, \
             or the address of a local TLS tunnel such as stunnel"
        );
        parse_url(&settings.url).context(
            "cannot use the address of Redis (--redis, REDIS_URL); write redis://HOST:PORT",
        )?;
        Ok(Self {
            presence,
            settings,
            clock,
            counts: Arc::default(),
            name: format!("{:016x}", rand::random::<u64>()),
            sent: Vec::new(),
            store: None,
            has_tried: watch::Sender::new(false),
            log: RateLimitedLog::new(env!("CARGO_PKG_NAME"), LOG_LINES),
        })
    }

    /// Returns what becomes true once the rooms are in Redis, or the first attempt to reach Redis has failed.
    pub(crate) fn has_tried(&self) -> watch::Receiver<bool> {
        self.has_tried.subscribe()
    }

    pub(crate) fn counts(&self) -> Arc<NodeCounts> {
        Arc::clone(&self.counts)
    }

    /// Serves the queue until `stop` is true, and then until its writes are done. Connects again and again meanwhile.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut failures = 0;
        loop {
            let connection = tokio::select! {
                connection = self.connect(failures) => connection,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            self.counts.is_up.store(1, Relaxed);
            let since = Instant::now();
            let ended = self.serve(connection, &mut stop).await;
            self.counts.is_up.store(0, Relaxed);
            // A connection that fails at once must not be tried again at once.
            failures = if since.elapsed() < STABLE {
                failures + 1
            } else {
                0
            };
            self.has_tried.send_replace(true);
            let Err(error) = ended else {
                return;
            };
            self.counts.interruptions.fetch_add(1, Relaxed);
            let sent = std::mem::take(&mut self.sent);
            if let Some(cluster) = self.presence.cluster() {
                cluster.interrupt(sent, self.clock.now_ms());
            }
            self.log.warn(format_args!(
                "lost Redis, so this node goes on alone: {error:#}"
            ));
        }
    }

    async fn connect(&self, failures: u32) -> Connection {
        let mut seen = Instant::now();
        for attempt in failures.. {
            if attempt > 0 {
                sleep(backoff(attempt)).await;
            }
            let opened = timeout(
                self.settings.timeout * 4,
                Connection::open(&self.settings, &self.name),
            )
            .await;
            let passed = seen.elapsed();
            seen += passed;
            self.counts
                .degraded_us
                .fetch_add(passed.as_micros() as u64, Relaxed);
            if !matches!(opened, Ok(Ok(_))) {
                self.has_tried.send_replace(true);
            }
            match opened {
                Ok(Ok(connection)) => {
                    if attempt > 0 {
                        self.log.warn("Redis is back");
                    }
                    return connection;
                }
                Ok(Err(error)) if attempt == 0 => {
                    self.log
                        .warn(format_args!("cannot reach Redis, trying again: {error}"));
                }
                _ => {}
            }
        }
        unreachable!("attempts never end")
    }

    async fn serve(
        &mut self,
        mut connection: Connection,
        stop: &mut watch::Receiver<bool>,
    ) -> anyhow::Result<()> {
        let presence = Arc::clone(&self.presence);
        let cluster = presence.cluster().context("the service is alone")?;
        let queue = cluster.queue();
        // Before its rooms are written: a node without a lease is dead to the others.
        self.check_lease(&self.renew_lease(&connection).await?, true)?;
        let is_intact = self
            .store
            .replace(connection.store.clone())
            .is_none_or(|store| store == connection.store);
        cluster.resync(is_intact);
        self.has_tried.send_replace(true);
        let mut leases = interval(self.settings.lease / 4);
        leases.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut lease_answer: Option<Answer> = None;
        let mut answer: Option<Answer> = None;
        let mut is_stopping = false;
        let mut next = Instant::now();
        loop {
            let mut is_filled = answer.is_none() && !queue.is_empty();
            if is_filled && Instant::now() >= next {
                answer = self.send(&connection, queue);
                next = Instant::now() + PAUSE;
                is_filled = false;
            }
            let is_idle = answer.is_none() && !is_filled;
            if is_stopping && is_idle {
                self.say_goodbye(&connection).await;
                return Ok(());
            }
            tokio::select! {
                biased;
                message = connection.messages.recv() => {
                    self.receive(&cluster, message)?;
                    // What has arrived already goes together, so that each client gets it in one write.
                    while let Ok(message) = connection.messages.try_recv() {
                        self.receive(&cluster, Some(message))?;
                    }
                }
                answered = ready(&mut answer) => {
                    answer = None;
                    self.complete(&cluster, answered.context("a write failed")?)?;
                }
                () = queue.filled.notified(), if is_idle => {}
                () = sleep_until(next), if is_filled => {}
                answered = ready(&mut lease_answer) => {
                    lease_answer = None;
                    if self.check_lease(&answered.context("the lease was not extended")?, false)? {
                        lease_answer = Some(self.renew_lease(&connection));
                    }
                }
                _ = leases.tick(), if lease_answer.is_none() => lease_answer = Some(self.renew_lease(&connection)),
                () = queue.gap.notified() => bail!("an event is missing"),
                _ = stop.wait_for(|stop| *stop), if !is_stopping => is_stopping = true,
            }
        }
    }

    /// Sends the writes that are queued.
    fn send(&mut self, connection: &Connection, queue: &WriteQueue<S>) -> Option<Answer> {
        queue.take(BATCH, &mut self.sent);
        if self.sent.is_empty() {
            return None;
        }
        self.counts.script(self.sent.len());
        let mut command = evaluate(&connection.write);
        command.arg(&self.name).arg(self.presence.settings.ttl_ms());
        self.sent.iter().for_each(|op| push_write(op, &mut command));
        Some(run(connection, command))
    }

    /// Passes the answers to a script to the rooms.
    fn complete(&mut self, cluster: &Cluster<'_, S>, answer: Value) -> anyhow::Result<()> {
        let (time_us, answers) = parse_answers(answer)?;
        if answers.len() != self.sent.len() {
            bail!("{} writes have {} answers", self.sent.len(), answers.len());
        }
        let parsed: Result<Vec<_>, _> = self
            .sent
            .iter()
            .zip(&answers)
            .map(|(op, answer)| parse_outcome(op.write, answer))
            .collect();
        for (op, outcome) in self.sent.drain(..).zip(parsed?) {
            cluster.complete(op, outcome, time_us);
        }
        Ok(())
    }

    /// Passes the events of a message to the rooms.
    fn receive(&self, cluster: &Cluster<'_, S>, message: Option<PushInfo>) -> anyhow::Result<()> {
        let message = message.context("the connection has ended")?;
        match (message.kind, &*message.data) {
            (PushKind::Disconnection, _) => bail!("the connection has ended"),
            (PushKind::Message, [_, Value::BulkString(text)]) => {
                self.counts.messages.fetch_add(1, Relaxed);
                let text = str::from_utf8(text).context("a message is not UTF-8")?;
                records(text).for_each(|record| cluster.receive(&record));
            }
            _ => {}
        }
        Ok(())
    }

    fn renew_lease(&self, connection: &Connection) -> Answer {
        let mut command = evaluate(&connection.renew_lease);
        let lease_ms = self.settings.lease.as_millis() as u64;
        command.arg(&self.name).arg(lease_ms).arg(ROOMS_AT_ONCE);
        run(connection, command)
    }

    /// Reads the answer to a lease. Returns true if a dead node has more rooms.
    fn check_lease(&self, answer: &Value, is_first: bool) -> anyhow::Result<bool> {
        let (had_lease, removed, more): (bool, u64, bool) = redis::from_redis_value_ref(answer)?;
        self.counts.removed.fetch_add(removed, Relaxed);
        if !had_lease && !is_first {
            bail!("the lease had passed, so other nodes may have removed the members of this one");
        }
        Ok(more)
    }

    /// Ends the lease, so that the other nodes need not wait for it.
    async fn say_goodbye(&self, connection: &Connection) {
        let mut command = redis::cmd("DEL");
        command.arg(format!("presence:lease:{}", self.name));
        // If that fails, the lease passes.
        let _ = run(connection, command).await;
    }
}

fn run(connection: &Connection, command: Cmd) -> Answer {
    let mut commands = connection.commands.clone();
    Box::pin(async move { command.query_async(&mut commands).await })
}

/// Waits for an answer, for ever if there is none to come.
async fn ready(answer: &mut Option<Answer>) -> RedisResult<Value> {
    match answer {
        Some(answer) => answer.await,
        None => pending().await,
    }
}
