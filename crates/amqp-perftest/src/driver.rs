//! The driver: what is published and consumed, and the connections, made before the load begins.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use harness::clock;
use harness::driver::{Bounds, Driver, Phases, Target, Worker};
use harness::pacer::Pacer;
use harness::peer::require_ports;
use harness::plan::{Group, Invalid, Plan};
use harness::recorder::{self, Recorder};
use measure::audit::{Facts, Lifetime};
use measure::result::RunResult;
use measure::tally::{Series, Tally};
use measure::warning::Warning;

use crate::churn::{self, Client};
use crate::ending::Ending;
use crate::layout::{self, Layout};
use crate::ledger::Ledger;
use crate::nodes::Nodes;
use crate::outcome::{self, count};
use crate::session::{Broker, Session, SessionError};
use crate::settings::{self, Churn, Engine, PRODUCERS, Settings};
use crate::stamp::Stamp;
use crate::topology::Left;
use crate::{doubts, lapin, listener, report, series, stamp, topology, wire};

/// How long a broker may take for each answer at the end: one that has closed all connections, and one that has not.
const PATIENCE: Duration = Duration::from_secs(3);
const IMPATIENCE: Duration = Duration::from_millis(500);
/// The longest turn of an engine's loop, at the end of which it accounts for what came.
const LONGEST_TURN_NS: u64 = 25_000_000;
/// How long a broker may take to put back what was not acknowledged.
const RETURNING_NS: u64 = 1_000_000_000;

/// Producers and consumers against one broker. All that is here is shared by its workers and the same for any engine.
#[derive(Debug)]
pub struct Perftest {
    pub(crate) plan: Plan<Settings>,
    pub(crate) nodes: Nodes,
    pub(crate) layout: Layout,
    pub(crate) ledger: Ledger,
    pub(crate) ending: Ending,
    /// What is added to this machine's monotonic time in stamps: 0, or what makes it the wall clock's.
    wall_ns: u64,
    /// The number in the stamps of this run.
    pub(crate) run: u32,
    /// The bodies to send, stamps left blank.
    pub(crate) bodies: Vec<Vec<u8>>,
    /// Connections by their number, until their worker takes them.
    connections: Mutex<Vec<Option<Connection>>>,
    /// With the engine `lapin`: the same of its own.
    dialer: OnceLock<lapin::Dialer>,
    /// The broker's process, where it is on this machine and can be seen.
    listener: OnceLock<Option<u32>>,
    /// Whether a connection was not closed when the run ended: the broker may not answer any more.
    silent: AtomicBool,
    /// Whether the kernel had not taken all that was published by then.
    unsent: AtomicBool,
}

/// A connection with a channel for each of its clients.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) number: u64,
    pub(crate) session: Session,
    pub(crate) clients: Vec<layout::Client>,
}

impl Driver for Perftest {
    const NAME: &'static str = "amqp-perftest";
    const PROTOCOL: &'static str = "amqp";
    const SERIES: &'static [&'static str] = series::NAMES;
    // Those of our broker, and those of RabbitMQ's plugin `rabbitmq_prometheus`.
    const AUDIT: &'static [(&'static str, &'static str)] = &[
        ("broker_messages_published_total", count::WRITTEN),
        ("broker_messages_delivered_total", count::DELIVERED),
        ("rabbitmq_global_messages_received_total", count::WRITTEN),
        ("rabbitmq_global_messages_delivered_total", count::DELIVERED),
    ];
    const ACTIVE_METRIC: &'static str = "broker_queue_messages";
    const ERRORS: &'static [&'static str] = outcome::ERRORS;
    const ASKED_FOR: &'static [&'static str] = &[];
    const OF_A_FAULT: &'static [&'static str] = outcome::OF_A_FAULT;
    const EXHAUSTED: &'static [&'static str] = outcome::EXHAUSTED;
    const SHARDS: bool = false;
    type Config = Settings;

    fn validate(plan: &Plan<Settings>) -> Result<(), Invalid> {
        Settings::validate(plan)
    }

    fn sentence(plan: &Plan<Settings>) -> String {
        Settings::sentence(plan)
    }

    fn response(plan: &Plan<Settings>) -> Series {
        if plan.driver.churn.is_some() {
            return series::CHURN;
        }
        match (settings::consumers(plan), plan.driver.confirms) {
            (1.., _) => series::END_TO_END,
            (0, Some(_)) => series::CONFIRM,
            (0, None) => series::PUBLISH,
        }
    }

    fn is_open_loop(plan: &Plan<Settings>) -> bool {
        settings::group(plan, PRODUCERS).is_some_and(Group::is_open_loop)
    }

    fn records(&self, series: Series) -> bool {
        match series {
            series::CHURN | series::OPEN => self.plan.driver.churn.is_some(),
            series::END_TO_END => settings::consumers(&self.plan) > 0,
            series::CONFIRM => self.plan.driver.confirms.is_some(),
            _ => series == Self::response(&self.plan),
        }
    }

    /// A message is open from when it is written until it is accounted for, which is a turn of a loop later than it came.
    /// Consumers alone take what was written before the run. Producers and consumers are no users that are busy.
    fn facts(plan: &Plan<Settings>) -> Facts {
        let settings = &plan.driver;
        let response = series::NAMES[Self::response(plan).0];
        let writes = settings::producers(plan) > 0;
        let ends_early = settings.cmessages.is_some() || settings.exit_when.is_some();
        let facts = plan.facts();
        Facts {
            lifetime: writes.then(|| Lifetime {
                from_due: true,
                counted_late_ns: LONGEST_TURN_NS,
                ..Lifetime::of(response)
            }),
            users: None,
            load_s: facts.load_s.filter(|_| !ends_early),
            ..facts
        }
    }

    fn line(second: &Tally, total: &Tally) -> Option<String> {
        Some(report::line(second, total))
    }

    fn summary(result: &RunResult) -> Option<String> {
        Some(report::block(result))
    }

    fn doubts(plan: &Plan<Settings>, total: &Tally) -> Vec<Warning> {
        doubts::of(plan, total)
    }

    /// A connection that was lost takes along what the broker did not read, and what was not read of the broker. Messages
    /// that nobody waited for may be on their way when the run ends.
    fn bounds(name: &str, plan: &Plan<Settings>, total: &Tally) -> Bounds {
        let lost = total.counted(count::DISCONNECTS) + total.counted(count::CHANNELS_CLOSED) > 0;
        let unread = [
            recorder::UNFINISHED,
            count::FOREIGN,
            count::GIVEN_BACK,
            count::DUPLICATED,
        ];
        let unread = unread.iter().any(|name| total.counted(name) > 0);
        let settings = &plan.driver;
        let leaves_some = settings::producers(plan) == 0
            || settings.cmessages.is_some()
            || settings.exit_when.is_some();
        match name {
            count::WRITTEN => Bounds {
                daemon_less: lost,
                daemon_more: false,
            },
            _ => Bounds {
                daemon_less: false,
                daemon_more: lost || unread || leaves_some,
            },
        }
    }

    fn descriptors(plan: &Plan<Settings>) -> u64 {
        Layout::of(plan).connections()
    }

    fn setup(plan: &Plan<Settings>, target: &Target) -> anyhow::Result<Self> {
        let nodes = Nodes::of_run(target.urls(), &plan.driver)?
            .context("the daemon's manifest has no `url`")?;
        let peers = target.urls().collect::<BTreeSet<_>>().len() as u64;
        require_ports(Self::descriptors(plan), peers)?;
        Ok(Self {
            nodes,
            layout: Layout::of(plan),
            ledger: Ledger::new(settings::producers(plan) == 0),
            ending: Ending::of(plan),
            wall_ns: match plan.driver.wall_clock {
                true => clock::unix_ns().saturating_sub(clock::now()),
                false => 0,
            },
            run: clock::unix_ns() as u32,
            bodies: bodies(&plan.driver)?,
            connections: Mutex::new(Vec::new()),
            dialer: OnceLock::new(),
            listener: OnceLock::new(),
            silent: AtomicBool::new(false),
            unsent: AtomicBool::new(false),
            plan: plan.clone(),
        })
    }

    /// Declares what the run needs and makes all of its connections: a broker that takes milliseconds for each must
    /// not take them from the load. That the answers are right is seen of every message of the run itself.
    fn check(&self) -> anyhow::Result<()> {
        let heartbeat = self.plan.driver.heartbeat;
        let explain = |error: SessionError| self.nodes.of(0, 0).explain(&error);
        let mut session = self
            .nodes
            .first(|node| Session::open(node, heartbeat))
            .map_err(|(node, error)| node.explain(&error))?;
        // Nobody else is asked who listens; whether it is seen or not is not the run's concern.
        let _ = self.listener.set(listener::of(session.stream.tcp()));
        if self.declares() {
            topology::declare(&mut session, &self.plan.driver, Left::Purge).map_err(explain)?;
        }
        session.close();
        if let Some(churn) = self.plan.driver.churn {
            let mut client = Client::new(self.nodes.of(0, 0), &self.plan.driver, churn, 0);
            return client.once().map(drop).map_err(explain).map_err(Into::into);
        }
        if self.plan.driver.engine.chosen() == Engine::Lapin {
            let (settings, layout) = (&self.plan.driver, self.layout);
            let dialer = lapin::Dialer::start(&self.nodes, settings, layout, &self.bodies);
            let _ = self.dialer.set(dialer.map_err(explain)?);
            return Ok(());
        }
        let mut connections = self.connections();
        let mut beaten = clock::now();
        for number in 0..self.layout.connections() {
            let node = self.nodes.of(number, 0);
            let connection = connect(node, &self.plan.driver, self.layout, number)
                .map_err(|error| node.explain(&error))?;
            connections.push(Some(connection));
            beaten = beat(&mut connections, beaten);
        }
        Ok(())
    }

    fn daemon_pid(&self) -> Option<u32> {
        self.listener.get().copied().flatten()
    }

    /// The engine serves the worker's share; what is left to settle is settled by the last worker.
    async fn work(&self, worker: Worker) -> anyhow::Result<()> {
        let (record, workers) = (worker.record.clone(), worker.share.of);
        let worked = match (self.plan.driver.churn, self.plan.driver.engine.chosen()) {
            (Some(churn), _) => churn::work(self, churn, worker),
            (None, Engine::Lapin) => lapin::work(self, worker).await,
            (None, Engine::Wire | Engine::Auto) => wire::work(self, worker),
        };
        if self.ledger.leave(workers) {
            self.settle(&record);
        }
        worked
    }
}

impl Perftest {
    fn connections(&self) -> std::sync::MutexGuard<'_, Vec<Option<Connection>>> {
        self.connections
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Gives a connection to the worker whose it is.
    pub(crate) fn take(&self, number: u64) -> Option<Connection> {
        self.connections().get_mut(number as usize)?.take()
    }

    /// What makes connections of the engine `lapin`, where it is used.
    pub(crate) fn dialer(&self) -> Option<&lapin::Dialer> {
        self.dialer.get()
    }

    /// Whether the run has queues that are there all the time.
    fn declares(&self) -> bool {
        matches!(self.plan.driver.churn, None | Some(Churn::Binding))
    }

    /// A broker did not close a connection in time, nor perhaps read all that was `unsent`.
    pub(crate) fn fell_silent(&self, unsent: bool) {
        self.silent.store(true, Ordering::Relaxed);
        self.unsent.fetch_or(unsent, Ordering::Relaxed);
    }

    /// Returns when what is open is given up: when the drain phase is over, which begins when all producers of so many
    /// workers have nothing more to publish, or at the end of the load, or where starts came later than that, with them.
    pub(crate) fn drained(&self, publishers: u64, phases: &Phases, pacer: &Pacer) -> u64 {
        let drain = phases.drained - phases.end;
        let published = self.ledger.published_all(publishers);
        let late = phases.drained.saturating_add(pacer.overrun());
        published.map_or(late, |at| at + drain)
    }

    /// The start of a message as its stamp has it.
    pub(crate) fn stamped(&self, start: u64) -> u64 {
        start + self.wall_ns
    }

    /// How long a message took that arrives now; `None` where it was sent later than that, by the clock of its sender.
    pub(crate) fn latency(&self, stamp: &Stamp, now: u64) -> Option<u64> {
        (now + self.wall_ns).checked_sub(stamp.start)
    }

    /// Whether a message ends when it arrives, and not before.
    pub(crate) fn ends_at_arrival(&self) -> bool {
        self.layout.consumers > 0
    }

    /// Whether a message belongs to the run. A run without producers takes what comes while it measures.
    pub(crate) fn is_ours(&self, stamp: &Stamp, phases: &Phases, now: u64) -> bool {
        match self.layout.producers {
            0 => phases.is_measuring(now) && self.ledger.adopts(stamp.run),
            _ => stamp.run == self.run,
        }
    }

    /// Counts a message of the run whose body is not as it was sent; returns false of a message that is not of the run.
    /// Its operation ends with that, unless what is damaged is the number itself: then it is missing in the end.
    pub(crate) fn is_damaged(&self, stamp: &Stamp, record: &Recorder) -> bool {
        let alone = self.layout.producers == 0;
        let is_ours = match alone {
            true => self.ledger.has_adopted(stamp.run),
            false => stamp.run == self.run,
        };
        if !is_ours {
            return false;
        }
        record.count(count::DAMAGED, 1);
        if alone {
            record.begin_many(1);
            record.error(outcome::DAMAGED);
        } else if u64::from(stamp.stream) < 2 * self.layout.producers {
            self.ledger.damaged(stamp.stream, stamp.sequence, record);
        }
        true
    }

    /// Whether a message that came counts: those of its producer's warm-up do not, unless the run has no producers.
    pub(crate) fn counts(&self, stream: u32) -> bool {
        self.layout.producers == 0 || stamp::counts(stream)
    }

    /// Where a message is counted that is not of the run: with the warm-up, where a run without producers does not measure
    /// yet, or no more.
    pub(crate) fn is_of_warmup(&self, phases: &Phases, now: u64) -> bool {
        self.layout.producers == 0 && !phases.is_measuring(now)
    }

    /// A message that was published comes to another end than to arrive.
    pub(crate) fn fail(&self, stream: u32, sequence: u64, kind: &'static str, record: &Recorder) {
        if self.ends_at_arrival() {
            self.ledger.fail(stream, sequence, kind, record);
        } else if stamp::counts(stream) {
            record.error(kind);
        } else {
            record.error_of_warmup();
        }
    }

    /// Asks what is left in the queues, names what is missing, and deletes what was declared.
    fn settle(&self, record: &Recorder) {
        let accounts = self.layout.consumers > 0 && self.layout.producers > 0;
        let settings = &self.plan.driver;
        if !self.declares() {
            return;
        }
        let mut queued = None;
        let patience = match self.silent.load(Ordering::Relaxed) {
            true => IMPATIENCE,
            false => PATIENCE,
        };
        let open = |node: &Broker| Session::open_within(node, settings.heartbeat, patience);
        let session = self.nodes.first(open);
        if let Ok(mut session) = session {
            let wanted = if accounts {
                self.ledger.missing().counted + self.ledger.in_queues_again()
            } else {
                0
            };
            if let Ok(messages) = queued_soon(&mut session, settings, wanted) {
                queued = messages;
                if let Err(error) = topology::delete(&mut session, settings) {
                    harness::output::remark(&format!("deleting what was declared: {error}"));
                }
            }
            session.close();
        }
        if accounts {
            let unsent = self.unsent.load(Ordering::Relaxed);
            let why = match queued {
                None => Some("the queues could not be asked"),
                Some(_) if unsent => Some("the broker did not read all that was published"),
                Some(_) => None,
            };
            if let Some(why) = why {
                harness::output::remark(&format!(
                    "{why}: what has not arrived is unfinished, not lost"
                ));
            }
            self.ledger.close(queued.filter(|_| !unsent), record);
        }
        if settings.churn.is_some() {
            return;
        }
        let again = self.ledger.came_back_unasked();
        record.count(count::REDELIVERED_AFTER_ACK, again);
        for name in [count::DUPLICATED, count::OUT_OF_ORDER, count::REDELIVERED] {
            // So that the result says 0 where nothing was found.
            record.count(name, 0);
        }
    }
}

/// How many messages lie in the queues. What consumers had not acknowledged comes back to them a moment after their
/// connections have closed: where so many are `wanted`, that is waited for. `None` where the queues went with their
/// consumers.
fn queued_soon(
    session: &mut Session,
    settings: &Settings,
    wanted: u64,
) -> Result<Option<u64>, SessionError> {
    session.open_channel(topology::CHANNEL)?;
    let deadline = clock::now() + RETURNING_NS;
    loop {
        let queued = topology::queued(session, settings)?;
        if queued.is_none_or(|queued| queued >= wanted) || clock::now() >= deadline {
            return Ok(queued);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Has the connections that are made say that they are there, where the last time was half an interval ago: making all may
/// take longer than a broker waits for the first. Returns when it was.
fn beat(connections: &mut [Option<Connection>], beaten: u64) -> u64 {
    let now = clock::now();
    let mut sessions = connections
        .iter_mut()
        .flatten()
        .map(|made| &mut made.session);
    let due = |session: &Session| {
        let half_ns = u64::from(session.heartbeat) * 500_000_000;
        half_ns > 0 && now - beaten >= half_ns
    };
    if !sessions.next().is_some_and(|first| due(first)) {
        return beaten;
    }
    for connection in connections.iter_mut().flatten() {
        // One that is lost is found to be so when the load begins, and made again.
        let _ = connection.session.beat();
    }
    now
}

/// Makes a connection with a channel for each of its clients.
pub(crate) fn connect(
    broker: &Broker,
    settings: &Settings,
    layout: Layout,
    number: u64,
) -> Result<Connection, SessionError> {
    let mut session = Session::open(broker, settings.heartbeat)?;
    let clients = layout.clients(number);
    if session.channel_max > 0 && clients.len() > usize::from(session.channel_max) {
        return Err(SessionError::Protocol(format!(
            "{} channels are more than the {} that the broker grants a connection: lower --channels",
            clients.len(),
            session.channel_max
        )));
    }
    for (client, channel) in clients.iter().zip(1..) {
        match client {
            layout::Client::Producer(_) => {
                topology::open_producer(&mut session, settings, channel)?
            }
            layout::Client::Consumer(place) => {
                topology::open_consumer(&mut session, settings, channel)?;
                if settings.exclusive {
                    topology::declare_own(&mut session, settings, *place)?;
                }
            }
        }
    }
    Ok(Connection {
        number,
        session,
        clients,
    })
}

/// The bodies of a run: one for each file or size.
fn bodies(settings: &Settings) -> Result<Vec<Vec<u8>>, Invalid> {
    let filled = |size: u32| match settings.json_body {
        true => json(size as usize),
        false => vec![b'x'; size as usize],
    };
    if !settings.body.is_empty() {
        let files = settings.body.iter();
        return files.map(|path| body_of(path)).collect();
    }
    if settings.variable_size.is_empty() {
        return Ok(vec![filled(settings.size)]);
    }
    let sizes = settings.variable_size.iter();
    Ok(sizes.map(|of| filled(of.size)).collect())
}

/// A body of JSON: room for the stamp, then an object of fields, and spaces up to the size.
fn json(size: usize) -> Vec<u8> {
    let mut body = vec![0; stamp::BYTES];
    for number in 0.. {
        let field = format!(
            "{}\"field-{number}\":\"value {number}\"",
            if number == 0 { "{" } else { "," }
        );
        // One more for the end of the object.
        if body.len() + field.len() >= size {
            break;
        }
        body.extend(field.into_bytes());
    }
    if body.len() > stamp::BYTES {
        body.push(b'}');
    }
    body.resize(size, b' ');
    body
}

fn body_of(path: &Path) -> Result<Vec<u8>, Invalid> {
    let content = std::fs::read(path).map_err(|error| {
        let field = format!("driver.body (--body {})", path.display());
        Invalid::new(field, format!("{error}: name a file that can be read"))
    })?;
    Ok([vec![0; stamp::BYTES], content].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_follows_the_stamp_and_fills_the_size() {
        for size in [28, 29, 60, 100, 1024, 1025] {
            let body = json(size);
            assert_eq!(body.len(), size);
            let text = std::str::from_utf8(&body[stamp::BYTES..]).unwrap().trim();
            let value: serde_json::Value = match text {
                "" => continue,
                text => serde_json::from_str(text).unwrap(),
            };
            assert!(value.as_object().is_some_and(|fields| !fields.is_empty()));
        }
    }
}
