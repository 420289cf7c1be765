//! What is done to the daemons on purpose, and how long it lasts.

use std::collections::VecDeque;
use std::time::Duration;

use measure::result::FaultResult;
use nix::sys::signal::Signal as Sent;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::site::{Instance, Site, State};
use super::watch::Watch;
use crate::clock;
use crate::driver::Phases;
use crate::duration;
use crate::plan::{Fault, Signal};

/// How often a daemon that was asked to end is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The faults of a plan, one after the other.
#[derive(Debug)]
pub(super) struct Faults {
    ahead: VecDeque<Fault>,
    stage: Stage,
    /// When the run and its load begin, nanoseconds of CLOCK_MONOTONIC.
    origin: u64,
    begin: u64,
    pub(super) done: Vec<FaultResult>,
    /// Daemons that are on their way back.
    returning: JoinSet<Back>,
}

/// A daemon that was started again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Back {
    /// Which.
    place: usize,
    /// When it took connections, nanoseconds of CLOCK_MONOTONIC; absent where it did not in time.
    at: Option<u64>,
}

/// A daemon that did not come back.
#[derive(Debug)]
pub(super) struct Gone {
    /// Which.
    pub(super) place: usize,
    pub(super) problem: String,
}

/// Where the fault in hand stands.
#[derive(Debug)]
enum Stage {
    /// None is; the next comes then.
    Before(Instant),
    /// The daemons are held up, or gone; from then on they may come back.
    During {
        fault: Fault,
        struck: Instant,
        until: Instant,
    },
    /// Started again; not all take connections yet.
    Returning { latest: u64, all: bool },
    /// There is no other.
    Over,
}

impl Faults {
    pub(super) fn new(faults: &[Fault], phases: &Phases) -> Self {
        let mut faults = Self {
            ahead: faults.iter().cloned().collect(),
            stage: Stage::Over,
            origin: phases.origin,
            begin: phases.begin,
            done: Vec::new(),
            returning: JoinSet::new(),
        };
        faults.wait_for_next();
        faults
    }

    /// The load begins at another time, and the faults with it: none has been yet.
    pub(super) fn begin_at(&mut self, begin: u64) {
        self.begin = begin;
        self.wait_for_next();
    }

    fn wait_for_next(&mut self) {
        let next = self.ahead.front();
        self.stage = next.map_or(Stage::Over, |fault| {
            let due = self.begin + fault.at.as_nanos() as u64;
            let ahead = Duration::from_nanos(due.saturating_sub(clock::now()));
            Stage::Before(Instant::now() + ahead)
        });
    }

    /// Completes when there is something to do. May be dropped and called again: nothing is lost.
    pub(super) async fn due(&mut self) -> Option<Back> {
        match &self.stage {
            Stage::Before(at) | Stage::During { until: at, .. } => {
                tokio::time::sleep_until(*at).await;
                None
            }
            // A task comes to its end unless the runtime does.
            Stage::Returning { .. } => match self.returning.join_next().await {
                Some(back) => back.ok(),
                None => None,
            },
            Stage::Over => std::future::pending().await,
        }
    }

    /// Does what is due; `back` is a daemon that was started again and is ready, or will not be.
    ///
    /// # Errors
    /// A daemon that can't be started again, or does not take connections in time.
    pub(super) fn act(
        &mut self,
        back: Option<Back>,
        site: &mut Site,
        watch: &mut Watch,
    ) -> Result<(), Gone> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Before(_) => self.strike(site),
            Stage::During {
                fault,
                struck,
                until: _,
            } => return self.bring_back(fault, struck, site, watch),
            Stage::Returning { latest, all } => {
                let at = back.and_then(|back| back.at);
                self.returned(latest.max(at.unwrap_or(0)), all && at.is_some());
                return back.map_or(Ok(()), |back| is_back(back, site));
            }
            Stage::Over => {}
        }
        Ok(())
    }

    fn strike(&mut self, site: &mut Site) {
        let Some(fault) = self.ahead.pop_front() else {
            return;
        };
        let (signal, state) = match fault.signal {
            Signal::Kill => (Sent::SIGKILL, State::Down),
            Signal::Term => (Sent::SIGTERM, State::Down),
            Signal::Stop => (Sent::SIGSTOP, State::Held),
        };
        for instance in in_state(site, State::Up) {
            instance.daemon.signal(signal);
            instance.state = state;
        }
        self.done.push(FaultResult {
            what: fault.sentence(),
            at_s: self.since_origin(clock::now()),
            back_s: None,
        });
        let struck = Instant::now();
        let until = struck + fault.back_after;
        self.stage = Stage::During {
            fault,
            struck,
            until,
        };
    }

    fn bring_back(
        &mut self,
        fault: Fault,
        struck: Instant,
        site: &mut Site,
        watch: &mut Watch,
    ) -> Result<(), Gone> {
        if fault.signal == Signal::Stop {
            for instance in in_state(site, State::Held) {
                instance.daemon.signal(Sent::SIGCONT);
                instance.state = State::Up;
            }
            self.returned(clock::now(), true);
            return Ok(());
        }
        if is_ending(site, struck) {
            let until = Instant::now() + LOOK_EVERY;
            self.stage = Stage::During {
                fault,
                struck,
                until,
            };
            return Ok(());
        }
        self.start_again(site, watch)
    }

    fn start_again(&mut self, site: &mut Site, watch: &mut Watch) -> Result<(), Gone> {
        for (place, instance) in site.instances.iter_mut().enumerate() {
            if instance.state != State::Down {
                continue;
            }
            instance.daemon.start_again().map_err(|error| Gone {
                place,
                problem: format!("could not be started again: {error}"),
            })?;
            instance.state = State::Up;
            instance.life += 1;
            watch.reborn(place, instance);
            let ready = instance.daemon.readiness();
            self.returning.spawn(async move {
                let at = ready.await.then(clock::now);
                Back { place, at }
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

    /// The fault is over when the last daemon is back.
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

    /// Whether daemons were started again of which it is not known yet whether they come back.
    pub(super) fn is_returning(&self) -> bool {
        matches!(self.stage, Stage::Returning { .. })
    }

    fn since_origin(&self, at: u64) -> f64 {
        (at as f64 - self.origin as f64) / 1e9
    }
}

/// One that has ended by itself meanwhile is told by its end.
fn is_back(back: Back, site: &Site) -> Result<(), Gone> {
    let instance = &site.instances[back.place];
    if back.at.is_some() || instance.state == State::Died || instance.daemon.try_exit().is_some() {
        return Ok(());
    }
    let limit = duration::format(instance.daemon.ready_limit());
    Err(Gone {
        place: back.place,
        problem: format!("took no connections within {limit} of its start"),
    })
}

/// Whether a daemon that was struck is still there; one that takes longer than its manifest's grace is killed.
fn is_ending(site: &mut Site, struck: Instant) -> bool {
    let mut ending = false;
    for instance in in_state(site, State::Down) {
        ending |= !instance.daemon.is_over();
        if struck.elapsed() > instance.daemon.grace() {
            instance.daemon.signal(Sent::SIGKILL);
        }
    }
    ending
}

fn in_state(site: &mut Site, state: State) -> impl Iterator<Item = &mut Instance> {
    site.instances
        .iter_mut()
        .filter(move |instance| instance.state == state)
}
