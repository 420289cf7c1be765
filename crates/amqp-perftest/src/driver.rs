//! The driver: validates the plan, prepares topology, bodies and connections, and settles the messages at the end.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use load::clock;
use load::driver::{Checked, Description, Driver, Findings, Phases, Target, Worker};
use load::pacer::Pacer;
use load::plan::{Group, Invalid, Plan};
use load::recorder::Recorder;
use measure::result::{AuditInputs, Lifetime, RunResult};
use measure::spec::Spec;
use measure::tally::{Series, Tally};
use subject::headroom::require_ports;

use crate::churn::{self, Client};
use crate::ending::Ending;
use crate::layout::{self, Layout};
use crate::ledger::Ledger;
use crate::nodes::Nodes;
use crate::outcome::{self, count};
use crate::settings::{self, Churn, Engine, PRODUCERS, Settings};
use crate::spec::SPEC;
use crate::topology::Leftovers;
use crate::{findings, lapin, listener, report, series, topology, wire};
use amqp_client::stamp::{self, Stamp};
use amqp_client::{Broker, Session, SessionError};

/// Time that a broker may take for each answer at the end: after it has closed all connections, and after it has not.
const REPLY_TIMEOUT: Duration = Duration::from_secs(3);
const UNRESPONSIVE_REPLY_TIMEOUT: Duration = Duration::from_millis(500);
/// Longest iteration of an engine's loop. At its end the loop accounts for the messages received.
const LONGEST_TURN_NS: u64 = 25_000_000;
/// Time that a broker may take to requeue unacknowledged messages.
const RETURNING_NS: u64 = 1_000_000_000;

/// State of a run that all workers share; it is the same for every engine.
#[derive(Debug)]
pub struct Perftest {
    pub(crate) plan: Plan<Settings>,
    pub(crate) nodes: Nodes,
    pub(crate) layout: Layout,
    pub(crate) ledger: Ledger,
    pub(crate) ending: Ending,
    /// Offset added to this machine's monotonic time in stamps: 0, or the difference to the wall clock.
    wall_ns: u64,
    /// The run number in the stamps of this run.
    pub(crate) run: u32,
    /// Bodies to send, with blank stamps.
    pub(crate) bodies: Vec<Vec<u8>>,
    /// Connections by number, until their worker takes them.
    connections: Mutex<Vec<Option<Connection>>>,
    /// Connections of the engine `lapin`.
    dialer: OnceLock<lapin::Dialer>,
    /// Set if a connection was not closed when the run ended: the broker may have stopped answering.
    silent: AtomicBool,
    /// Set if the kernel had not taken all published data by then.
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
    const SPEC: &'static Spec = &SPEC;
    type Config = Settings;

    /// Describes the load. A message is open from its write until it is accounted for, which is one loop iteration
    /// after its arrival. A run without producers also consumes messages written before it. Producers and consumers are
    /// not users that are either busy or thinking.
    fn validate(plan: &mut Plan<Settings>) -> Result<Description, Invalid> {
        Settings::validate(plan)?;
        let settings = &plan.driver;
        let sentence = Settings::sentence(plan);
        let connections = Layout::from_plan(plan).connections();
        let description = Description::new(plan, &SPEC, sentence, response(plan), connections);
        let inputs = description.audit_inputs;
        let writes = settings::producers(plan) > 0;
        let ends_early = settings.cmessages.is_some() || settings.exit_when.is_some();
        Ok(Description {
            is_open_loop: settings::group(plan, PRODUCERS).is_some_and(Group::is_open_loop),
            audit_inputs: AuditInputs {
                lifetime: inputs.lifetime.filter(|_| writes).map(|lifetime| Lifetime {
                    from_due: true,
                    counted_late_ns: LONGEST_TURN_NS,
                    ..lifetime
                }),
                users: None,
                load_s: inputs.load_s.filter(|_| !ends_early),
                ..inputs
            },
            ..description
        })
    }

    fn uses_series(&self, series: Series) -> bool {
        match series {
            series::CHURN | series::OPEN => self.plan.driver.churn.is_some(),
            series::END_TO_END => settings::consumers(&self.plan) > 0,
            series::CONFIRM => self.plan.driver.confirms.is_some(),
            _ => series == response(&self.plan),
        }
    }

    fn live_line(second: &Tally, total: &Tally) -> Option<String> {
        Some(report::line(second, total))
    }

    fn summary(result: &RunResult) -> Option<String> {
        Some(report::block(result))
    }

    fn findings(plan: &Plan<Settings>, total: &Tally) -> Findings {
        findings::findings(plan, total)
    }

    fn setup(plan: &Plan<Settings>, target: &Target) -> anyhow::Result<Self> {
        let nodes = Nodes::of_run(target.urls(), &plan.driver)?
            .context("the daemon's manifest has no `url`")?;
        let peers = target.urls().collect::<BTreeSet<_>>().len() as u64;
        let layout = Layout::from_plan(plan);
        require_ports(layout.connections(), peers)?;
        Ok(Self {
            nodes,
            layout,
            ledger: Ledger::new(settings::producers(plan) == 0),
            ending: Ending::from_plan(plan),
            wall_ns: match plan.driver.wall_clock {
                true => clock::unix_ns().saturating_sub(clock::now()),
                false => 0,
            },
            run: clock::unix_ns() as u32,
            bodies: bodies(&plan.driver)?,
            connections: Mutex::new(Vec::new()),
            dialer: OnceLock::new(),
            silent: AtomicBool::new(false),
            unsent: AtomicBool::new(false),
            plan: plan.clone(),
        })
    }

    /// Declares the topology of the run and opens all of its connections, so that the time a broker takes for each
    /// falls outside the load. The run itself verifies every message.
    fn check(&self) -> anyhow::Result<Checked> {
        let heartbeat = self.plan.driver.heartbeat;
        let explain = |error: SessionError| self.nodes.node(0, 0).explain(&error);
        let mut session = self
            .nodes
            .first(|node| Session::open(node, heartbeat))
            .map_err(|(node, error)| node.explain(&error))?;
        // The process is looked up only here; the run does not depend on it.
        let checked = Checked {
            daemon_pid: listener::process_of(session.stream.tcp()),
            ..Checked::default()
        };
        if self.declares() {
            topology::declare(&mut session, &self.plan.driver, Leftovers::Purge)
                .map_err(explain)?;
        }
        session.close();
        if let Some(churn) = self.plan.driver.churn {
            let mut client = Client::new(self.nodes.node(0, 0), &self.plan.driver, churn, 0);
            client.once().map_err(explain)?;
            return Ok(checked);
        }
        if self.plan.driver.engine.chosen() == Engine::Lapin {
            let (settings, layout) = (&self.plan.driver, self.layout);
            let dialer = lapin::Dialer::start(&self.nodes, settings, layout, &self.bodies);
            let _ = self.dialer.set(dialer.map_err(explain)?);
            return Ok(checked);
        }
        let mut connections = self.connections();
        let mut beaten = clock::now();
        for number in 0..self.layout.connections() {
            let node = self.nodes.node(number, 0);
            let connection = connect(node, &self.plan.driver, self.layout, number)
                .map_err(|error| node.explain(&error))?;
            connections.push(Some(connection));
            beaten = beat(&mut connections, beaten);
        }
        Ok(checked)
    }

    /// Runs the engine on the worker's share. The last worker settles what is left.
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

/// Returns the series of the response time: the last that the plan can measure.
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

impl Perftest {
    fn connections(&self) -> std::sync::MutexGuard<'_, Vec<Option<Connection>>> {
        self.connections
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes a connection for the worker that owns it.
    pub(crate) fn take(&self, number: u64) -> Option<Connection> {
        self.connections().get_mut(number as usize)?.take()
    }

    /// Returns the dialer of the engine `lapin`, if it is used.
    pub(crate) fn dialer(&self) -> Option<&lapin::Dialer> {
        self.dialer.get()
    }

    /// Returns true if the queues of the run exist for its whole length.
    fn declares(&self) -> bool {
        matches!(self.plan.driver.churn, None | Some(Churn::Binding))
    }

    /// Notes that a broker did not close a connection in time, and whether data was left `unsent`.
    pub(crate) fn close_timed_out(&self, unsent: bool) {
        self.silent.store(true, Ordering::Relaxed);
        self.unsent.fetch_or(unsent, Ordering::Relaxed);
    }

    /// Returns when open operations are given up, which is the end of the drain phase. That phase begins when all
    /// producers of `publishers` workers have finished, or at the end of the load, or with the last late start.
    pub(crate) fn drained(&self, publishers: u64, phases: &Phases, pacer: &Pacer) -> u64 {
        let drain = phases.drained - phases.end;
        let published = self.ledger.published_all(publishers);
        let late = phases.drained.saturating_add(pacer.overrun());
        published.map_or(late, |at| at + drain)
    }

    /// Returns the start of a message as stored in its stamp.
    pub(crate) fn stamped(&self, start: u64) -> u64 {
        start + self.wall_ns
    }

    /// Returns the latency of a message that arrives at `now`. `None` if its sender's clock is ahead.
    pub(crate) fn latency(&self, stamp: &Stamp, now: u64) -> Option<u64> {
        (now + self.wall_ns).checked_sub(stamp.start)
    }

    /// Returns true if an operation ends only when its message arrives.
    pub(crate) fn ends_at_arrival(&self) -> bool {
        self.layout.consumers > 0
    }

    /// Returns true if a message belongs to the run. A run without producers accepts every message that arrives while
    /// it measures.
    pub(crate) fn is_ours(&self, stamp: &Stamp, phases: &Phases, now: u64) -> bool {
        match self.layout.producers {
            0 => phases.is_measuring(now) && self.ledger.accepts_run(stamp.run),
            _ => stamp.run == self.run,
        }
    }

    /// Counts a message of the run whose body is corrupted; returns false for a message of another run. Its operation
    /// fails. If the sequence number itself is corrupted, the operation is instead missing at the end.
    pub(crate) fn is_damaged(&self, stamp: &Stamp, record: &Recorder) -> bool {
        let consume_only = self.layout.producers == 0;
        let is_ours = match consume_only {
            true => self.ledger.has_accepted(stamp.run),
            false => stamp.run == self.run,
        };
        if !is_ours {
            return false;
        }
        record.count(count::DAMAGED, 1);
        if consume_only {
            record.begin_many(1);
            record.error(outcome::DAMAGED);
        } else if u64::from(stamp.stream) < 2 * self.layout.producers {
            self.ledger.damaged(stamp.stream, stamp.sequence, record);
        }
        true
    }

    /// Returns true if an arrived message is measured. Messages of their producer's warm-up are not, unless the run has
    /// no producers.
    pub(crate) fn counts(&self, stream: u32) -> bool {
        self.layout.producers == 0 || stamp::counts(stream)
    }

    /// Returns true if a message from outside the run counts as warm-up: it arrived in a run without producers that
    /// does not measure yet, or no longer.
    pub(crate) fn is_of_warmup(&self, phases: &Phases, now: u64) -> bool {
        self.layout.producers == 0 && !phases.is_measuring(now)
    }

    /// Ends the operation of a published message that does not arrive.
    pub(crate) fn fail(&self, stream: u32, sequence: u64, kind: &'static str, record: &Recorder) {
        if self.ends_at_arrival() {
            self.ledger.fail(stream, sequence, kind, record);
        } else if stamp::counts(stream) {
            record.error(kind);
        } else {
            record.error_of_warmup();
        }
    }

    /// Asks for the queue depths, records missing messages, and deletes the declared topology.
    fn settle(&self, record: &Recorder) {
        let accounts = self.layout.consumers > 0 && self.layout.producers > 0;
        let settings = &self.plan.driver;
        if !self.declares() {
            return;
        }
        let mut queued = None;
        let patience = match self.silent.load(Ordering::Relaxed) {
            true => UNRESPONSIVE_REPLY_TIMEOUT,
            false => REPLY_TIMEOUT,
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
                    harness::output::remark(&format!(
                        "cannot delete the declared queues and exchange: {error}"
                    ));
                }
            }
            session.close();
        }
        if accounts {
            let unsent = self.unsent.load(Ordering::Relaxed);
            let why = match queued {
                None => Some("the queue depths could not be read"),
                Some(_) if unsent => Some("the broker did not read everything that was published"),
                Some(_) => None,
            };
            if let Some(why) = why {
                harness::output::remark(&format!(
                    "{why}: messages that did not arrive are reported as unfinished, not as lost"
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
            // The result then shows 0 for these counters.
            record.count(name, 0);
        }
    }
}

/// Returns how many messages are in the queues. Unacknowledged deliveries return to them a moment after the consumers'
/// connections have closed, so it waits until the depth reaches `wanted`. `None` if the queues were deleted with their
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

/// Sends heartbeats on the open connections if the last ones are half an interval old: opening all of them may take
/// longer than a broker waits on the first. Returns when heartbeats were last sent.
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
        // A lost connection is detected when the load begins, and reopened.
        let _ = connection.session.beat();
    }
    now
}

/// Opens a connection with a channel for each of its clients.
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
            "{} channels exceed the {} that the broker grants per connection: lower --channels",
            clients.len(),
            session.channel_max
        )));
    }
    for (client, channel) in clients.iter().zip(1..) {
        match client {
            layout::Client::Producer(_) => {
                topology::open_producer(&mut session, settings, channel)?
            }
            layout::Client::Consumer(index) => {
                topology::open_consumer(&mut session, settings, channel)?;
                if settings.exclusive {
                    topology::declare_own(&mut session, settings, *index)?;
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

/// Returns the bodies of a run: one for each file or size.
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

/// Returns a JSON body: room for the stamp, then an object of fields, padded with spaces to `size` bytes.
fn json(size: usize) -> Vec<u8> {
    let mut body = vec![0; stamp::BYTES];
    for number in 0.. {
        let field = format!(
            "{}\"field-{number}\":\"value {number}\"",
            if number == 0 { "{" } else { "," }
        );
        // One more byte for the end of the object.
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
        Invalid::new(field, format!("{error}: name a readable file"))
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
