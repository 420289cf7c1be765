//! Injects the faults of a plan into the daemons, and measures how long they last.

use std::collections::VecDeque;
use std::time::Duration;

use measure::result::FaultResult;
use measure::warning::Warning;
use nix::sys::signal::Signal as Sent;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::daemons::{DaemonId, Daemons, State};
use super::resource_monitor::ResourceMonitor;
use load::clock;
use load::driver::Phases;
use load::duration;
use load::plan::{Fault, Signal};

/// Interval between checks of a daemon that was asked to end.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The faults of a plan, one after the other.
#[derive(Debug)]
pub(super) struct Faults {
    ahead: VecDeque<Fault>,
    stage: Stage,
    /// Start of the run and of its load, nanoseconds of CLOCK_MONOTONIC.
    origin: u64,
    begin: u64,
    pub(super) done: Vec<FaultResult>,
    /// Daemons and services that were started again and are not ready yet.
    returning: JoinSet<Restarted>,
}

/// A daemon or a service that was started again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Restarted {
    id: DaemonId,
    /// Time at which it took connections, nanoseconds of CLOCK_MONOTONIC; absent if it did not in time.
    at: Option<u64>,
}

/// A daemon or a service that did not recover.
#[derive(Debug)]
pub(super) struct RestartFailed {
    pub(super) id: DaemonId,
    pub(super) problem: String,
}

/// The state of the current fault.
#[derive(Debug)]
enum Stage {
    /// Waiting for the next fault at this time.
    Before(Instant),
    /// The daemons that the fault affects are paused or ended until this time.
    During {
        fault: Fault,
        ids: Vec<DaemonId>,
        injected_at: Instant,
        until: Instant,
    },
    /// The daemons that were ended were started again; not all take connections yet.
    Returning { latest: u64, all: bool },
    /// There are no more faults.
    Done,
}

impl Faults {
    pub(super) fn new(faults: &[Fault], phases: &Phases) -> Self {
        let mut faults = Self {
            ahead: faults.iter().cloned().collect(),
            stage: Stage::Done,
            origin: phases.origin,
            begin: phases.begin,
            done: Vec::new(),
            returning: JoinSet::new(),
        };
        faults.wait_for_next();
        faults
    }

    /// Moves the faults to another start of the load; none has been injected yet.
    pub(super) fn begin_at(&mut self, begin: u64) {
        self.begin = begin;
        self.wait_for_next();
    }

    fn wait_for_next(&mut self) {
        let next = self.ahead.front();
        self.stage = next.map_or(Stage::Done, |fault| {
            let due = self.begin + fault.at.as_nanos() as u64;
            let ahead = Duration::from_nanos(due.saturating_sub(clock::now()));
            Stage::Before(Instant::now() + ahead)
        });
    }

    /// Completes when there is something to do. May be dropped and called again without loss.
    pub(super) async fn due(&mut self) -> Option<Restarted> {
        match &self.stage {
            Stage::Before(at) | Stage::During { until: at, .. } => {
                tokio::time::sleep_until(*at).await;
                None
            }
            // A task completes unless the runtime ends.
            Stage::Returning { .. } => match self.returning.join_next().await {
                Some(restarted) => restarted.ok(),
                None => None,
            },
            Stage::Done => std::future::pending().await,
        }
    }

    /// Performs the due step; `restarted` was started again and is ready, or will not be.
    ///
    /// # Errors
    /// A daemon or a service can't be started again, or does not take connections in time.
    pub(super) fn act(
        &mut self,
        restarted: Option<Restarted>,
        daemons: &mut Daemons,
        monitor: &mut ResourceMonitor,
    ) -> Result<(), RestartFailed> {
        match std::mem::replace(&mut self.stage, Stage::Done) {
            Stage::Before(_) => self.inject(daemons),
            Stage::During {
                fault,
                ids,
                injected_at,
                until: _,
            } => return self.recover(fault, ids, injected_at, daemons, monitor),
            Stage::Returning { latest, all } => {
                let at = restarted.and_then(|restarted| restarted.at);
                self.returned(latest.max(at.unwrap_or(0)), all && at.is_some());
                return restarted.map_or(Ok(()), |restarted| check_restarted(restarted, daemons));
            }
            Stage::Done => {}
        }
        Ok(())
    }

    fn inject(&mut self, daemons: &mut Daemons) {
        let Some(fault) = self.ahead.pop_front() else {
            return;
        };
        let (signal, state) = match fault.signal {
            Signal::Kill => (Sent::SIGKILL, State::Down),
            Signal::Term => (Sent::SIGTERM, State::Down),
            Signal::Stop => (Sent::SIGSTOP, State::Paused),
        };
        let ids = daemons.affected(&fault);
        for id in &ids {
            let instance = daemons.get_mut(*id);
            instance.daemon.signal(signal);
            instance.state = state;
        }
        self.done.push(FaultResult {
            what: fault.sentence(),
            at_s: self.since_origin(clock::now()),
            back_s: None,
        });
        let injected_at = Instant::now();
        let until = injected_at + fault.back_after.unwrap_or_default();
        self.stage = Stage::During {
            fault,
            ids,
            injected_at,
            until,
        };
    }

    fn recover(
        &mut self,
        fault: Fault,
        mut ids: Vec<DaemonId>,
        injected_at: Instant,
        daemons: &mut Daemons,
        monitor: &mut ResourceMonitor,
    ) -> Result<(), RestartFailed> {
        if fault.signal == Signal::Stop {
            ids.retain(|id| daemons.get(*id).state == State::Paused);
            for id in ids {
                let instance = daemons.get_mut(id);
                instance.daemon.signal(Sent::SIGCONT);
                instance.state = State::Up;
            }
            self.returned(clock::now(), true);
            return Ok(());
        }
        if is_ending(daemons, &ids, injected_at) {
            let until = Instant::now() + POLL_INTERVAL;
            self.stage = Stage::During {
                fault,
                ids,
                injected_at,
                until,
            };
            return Ok(());
        }
        match fault.back_after {
            Some(_) => self.start_again(&ids, daemons, monitor),
            None => {
                self.wait_for_next();
                Ok(())
            }
        }
    }

    fn start_again(
        &mut self,
        ids: &[DaemonId],
        daemons: &mut Daemons,
        monitor: &mut ResourceMonitor,
    ) -> Result<(), RestartFailed> {
        for id in ids.iter().copied() {
            let instance = daemons.get_mut(id);
            instance
                .daemon
                .start_again()
                .map_err(|error| RestartFailed {
                    id,
                    problem: format!("could not be started again: {error}"),
                })?;
            instance.state = State::Up;
            instance.restarts += 1;
            monitor.restarted(id, instance);
            let ready = instance.daemon.readiness();
            self.returning.spawn(async move {
                let at = ready.await.then(clock::now);
                Restarted { id, at }
            });
        }
        self.stage = Stage::Returning {
            latest: 0,
            all: true,
        };
        if self.returning.is_empty() {
            self.wait_for_next();
        }
        Ok(())
    }

    /// Ends the fault when the last of what was ended is back.
    fn returned(&mut self, latest: u64, all: bool) {
        if !self.returning.is_empty() {
            self.stage = Stage::Returning { latest, all };
            return;
        }
        let back_s = all.then(|| self.since_origin(latest));
        if let Some(fault) = self.done.last_mut() {
            fault.back_s = back_s;
        }
        self.wait_for_next();
    }

    /// Returns true while something was started again and it is not known yet whether they recover.
    pub(super) fn is_returning(&self) -> bool {
        matches!(self.stage, Stage::Returning { .. })
    }

    /// Returns a warning if the run ended before faults were injected.
    pub(super) fn not_injected(&self) -> Option<Warning> {
        let first = self.ahead.front().map(Fault::sentence);
        Warning::faults_not_injected(self.ahead.len(), &first.unwrap_or_default())
    }

    fn since_origin(&self, at: u64) -> f64 {
        (at as f64 - self.origin as f64) / 1e9
    }
}

/// Checks that a daemon or a service is back. One that exited on its own is reported by `next_exit()`, not here.
fn check_restarted(restarted: Restarted, daemons: &Daemons) -> Result<(), RestartFailed> {
    let instance = daemons.get(restarted.id);
    if restarted.at.is_some()
        || instance.state == State::Died
        || instance.daemon.try_exit().is_some()
    {
        return Ok(());
    }
    let limit = duration::format(instance.daemon.ready_limit());
    Err(RestartFailed {
        id: restarted.id,
        problem: format!("took no connections within {limit} of its start"),
    })
}

/// Returns true while something that got the fault's signal still runs. What takes longer than its manifest's grace
/// time is killed.
fn is_ending(daemons: &Daemons, ids: &[DaemonId], injected_at: Instant) -> bool {
    let mut ending = false;
    for id in ids {
        let daemon = &daemons.get(*id).daemon;
        ending |= !daemon.is_over();
        if injected_at.elapsed() > daemon.grace() {
            daemon.signal(Sent::SIGKILL);
        }
    }
    ending
}
