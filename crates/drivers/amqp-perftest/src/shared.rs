//! State of a run that all workers share, whatever their engine.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use load::clock;
use load::driver::{Phases, SharedProgress, Worker};
use load::plan::{Invalid, Plan};
use load::recorder::Recorder;
use load::workers::WorkerRange;

use crate::layout::{Client, Layout};
use crate::ledger::{Ledger, LedgerPart};
use crate::nodes::Nodes;
use crate::outcome::{self, count};
use crate::roles::ending::Ending;
use crate::settings::{self, Churn, Settings};
use crate::{body, topology};
use amqp_client::stamp::{self, Stamp};
use amqp_client::{Broker, Session, SessionError};

/// Time that a broker may take for each answer at the end: after it has closed all connections, and after it has not.
const REPLY_TIMEOUT: Duration = Duration::from_secs(3);
const UNRESPONSIVE_REPLY_TIMEOUT: Duration = Duration::from_millis(500);
/// Time that a broker may take to requeue unacknowledged messages.
const RETURNING_NS: u64 = 1_000_000_000;

/// State of a run that all workers share; it is the same for every engine.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) plan: Plan<Settings>,
    pub(crate) nodes: Nodes,
    pub(crate) layout: Layout,
    pub(crate) ledger: Ledger,
    pub(crate) ending: Ending,
    /// The workers of this process.
    pub(crate) workers: WorkerRange,
    stamps: OnceLock<Stamps>,
    /// Bodies to send, with blank stamps.
    pub(crate) bodies: Vec<Vec<u8>>,
    /// Set if a connection was not closed when the run ended: the broker may have stopped answering.
    is_unresponsive: AtomicBool,
    /// Set if the kernel had not taken all published data by then.
    is_unsent: AtomicBool,
    /// Set once all messages of the run have ended, if workers of other processes have a part in it.
    have_all_ended: AtomicBool,
    /// Time at which no process published any more, if there are others.
    all_published_at: OnceLock<u64>,
}

/// Figures that the stamps of a run have in common. All processes derive the same from its start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamps {
    /// The run number.
    pub(crate) run: u32,
    /// Offset added to this machine's monotonic time: 0, or the difference to the wall clock.
    wall_ns: u64,
}

impl Shared {
    pub(crate) fn new(
        plan: &Plan<Settings>,
        nodes: Nodes,
        workers: &WorkerRange,
    ) -> Result<Self, Invalid> {
        let layout = Layout::new(plan, workers);
        let consumers = connections(layout, workers)
            .flat_map(|number| layout.clients(number))
            .filter(|client| matches!(client, Client::Consumer(_)));
        Ok(Self {
            nodes,
            layout,
            ledger: Ledger::new(settings::producers(plan) == 0, !workers.is_all()),
            ending: Ending::new(&plan.driver, consumers.count() as u64),
            workers: workers.clone(),
            stamps: OnceLock::new(),
            bodies: body::bodies(&plan.driver)?,
            is_unresponsive: AtomicBool::new(false),
            is_unsent: AtomicBool::new(false),
            have_all_ended: AtomicBool::new(false),
            all_published_at: OnceLock::new(),
            plan: plan.clone(),
        })
    }

    /// Handles that a worker begins.
    pub(crate) fn begin(&self, worker: &Worker) {
        // Machines have only the wall clock in common.
        let across = self.plan.driver.wall_clock || self.workers.shard.of > 1;
        self.stamps.get_or_init(|| Stamps {
            run: worker.origin_unix_ns as u32,
            wall_ns: if across {
                worker.origin_unix_ns.saturating_sub(worker.phases.origin)
            } else {
                0
            },
        });
    }

    /// Returns what the stamps of the run have in common. A worker must have begun.
    pub(crate) fn stamps(&self) -> Stamps {
        *self.stamps.get().expect("a worker has begun")
    }

    /// Returns the connections of the workers of this process.
    pub(crate) fn connections(&self) -> impl Iterator<Item = u64> {
        connections(self.layout, &self.workers)
    }

    /// Returns how many workers of this process publish.
    pub(crate) fn publishers(&self) -> u64 {
        let WorkerRange { first, count, .. } = self.workers;
        let publishers = self.layout.publishers();
        publishers.clamp(first, first + count) - first
    }

    /// Handles what all processes together know.
    pub(crate) fn progress(&self, progress: SharedProgress) {
        self.all_published_at.get_or_init(clock::now);
        if progress == SharedProgress::AllEnded {
            self.have_all_ended.store(true, Ordering::Relaxed);
        }
    }

    /// Returns the time since which all producers are finished, in whichever process.
    pub(crate) fn published_all(&self) -> Option<u64> {
        if self.workers.is_all() {
            self.ledger.published_all(self.publishers())
        } else {
            self.all_published_at.get().copied()
        }
    }

    /// Returns true once every message of the run has ended.
    pub(crate) fn is_complete(&self) -> bool {
        if self.workers.is_all() {
            self.ledger.complete(self.publishers())
        } else {
            self.have_all_ended.load(Ordering::Relaxed)
        }
    }

    /// Returns true if the queues of the run exist for its whole length.
    pub(crate) fn declares(&self) -> bool {
        matches!(self.plan.driver.churn, None | Some(Churn::Binding))
    }

    /// Notes that a broker did not close a connection in time, and whether data was left `unsent`. Says so once.
    pub(crate) fn close_timed_out(&self, unsent: bool) {
        if !self.is_unresponsive.swap(true, Ordering::Relaxed) {
            harness::output::note("the broker did not answer connection.close within 2 s");
        }
        self.is_unsent.fetch_or(unsent, Ordering::Relaxed);
    }

    /// Returns the start of a message as stored in its stamp.
    pub(crate) fn stamped(&self, start: u64) -> u64 {
        start + self.stamps().wall_ns
    }

    /// Returns the latency of a message that arrives at `now`. `None` if its sender's clock is ahead.
    pub(crate) fn latency(&self, stamp: &Stamp, now: u64) -> Option<u64> {
        (now + self.stamps().wall_ns).checked_sub(stamp.start)
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
            _ => stamp.run == self.stamps().run,
        }
    }

    /// Counts a message of the run whose body is corrupted; returns false for a message of another run. Its operation
    /// fails. If the sequence number itself is corrupted, the operation is instead missing at the end.
    pub(crate) fn is_damaged(&self, stamp: &Stamp, record: &Recorder) -> bool {
        let consume_only = self.layout.producers == 0;
        let is_ours = if consume_only {
            self.ledger.has_accepted(stamp.run)
        } else {
            stamp.run == self.stamps().run
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
            record.error_of_warmup(kind);
        }
    }

    /// Returns the part of this process in the ledger of the run.
    pub(crate) fn ledger_part(&self) -> LedgerPart {
        let run = match self.layout.producers {
            0 => self.ledger.accepted_run(),
            _ => self.stamps.get().map_or(0, |stamps| stamps.run),
        };
        self.ledger
            .part(run, self.is_unsent.load(Ordering::Relaxed))
    }

    /// Returns how many messages are in the queues, `None` if it cannot be known, and deletes the declared topology. It
    /// waits a moment for `wanted` messages.
    pub(crate) fn clean_up(&self, wanted: u64) -> Option<u64> {
        let settings = &self.plan.driver;
        let mut queued = None;
        let timeout = if self.is_unresponsive.load(Ordering::Relaxed) {
            UNRESPONSIVE_REPLY_TIMEOUT
        } else {
            REPLY_TIMEOUT
        };
        let open = |node: &Broker| Session::open_within(node, settings.heartbeat, timeout);
        let session = self.nodes.first(open);
        if let Ok((_, mut session)) = session {
            if let Ok(messages) = queued_soon(&mut session, settings, wanted) {
                queued = messages;
                if let Err(error) = topology::delete(&mut session, settings) {
                    harness::output::note(&format!(
                        "cannot delete the declared queues and exchange: {error}"
                    ));
                }
            }
            session.close();
        }
        queued
    }

    /// Asks for the queue depths, records missing messages, and deletes the declared topology.
    pub(crate) fn settle(&self, record: &Recorder) {
        let accounts = self.layout.consumers > 0 && self.layout.producers > 0;
        if !self.declares() {
            return;
        }
        let queued = self.clean_up(if accounts {
            self.ledger.missing().counted + self.ledger.in_queues_again()
        } else {
            0
        });
        if accounts {
            let unsent = self.is_unsent.load(Ordering::Relaxed);
            let why = match queued {
                None => Some("the queue depths could not be read"),
                Some(_) if unsent => Some("the broker did not read everything that was published"),
                Some(_) => None,
            };
            if let Some(why) = why {
                note_unknown(why);
            }
            let may_drop = self.plan.driver.dropping_argument().is_some();
            let queued = queued.filter(|_| !unsent);
            self.ledger.close(queued, may_drop, record);
        }
        if self.plan.driver.churn.is_some() {
            return;
        }
        let again = self.ledger.redelivered_unasked();
        record.count(count::REDELIVERED_AFTER_ACK, again);
        for name in [count::DUPLICATED, count::OUT_OF_ORDER, count::REDELIVERED] {
            // The result then shows 0 for these counters.
            record.count(name, 0);
        }
    }
}

/// Says that no message can be counted as lost.
pub(crate) fn note_unknown(why: &str) {
    harness::output::note(&format!(
        "{why}: messages that did not arrive are reported as unfinished, not as lost"
    ));
}

/// Returns the connections of some workers.
fn connections(layout: Layout, workers: &WorkerRange) -> impl Iterator<Item = u64> + use<> {
    let workers = workers.first..workers.first + workers.count;
    workers.flat_map(move |worker| layout.worker_connections(worker))
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
