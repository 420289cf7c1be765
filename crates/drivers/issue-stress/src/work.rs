//! The loop of a worker: hands operations that are due to free agents, and records their outcomes.

use std::cell::RefCell;
use std::collections::VecDeque;

use load::clock;
use load::driver::Worker;
use load::event_loop::{self, AsyncHandler, LoopState, Options};
use load::pacer::Start;

use crate::agent::{Agent, Role};
use crate::ledger::Ledger;
use crate::settings::BULK;
use crate::shared::Shared;
use crate::spec;

/// The time after which an agent without a connection takes another operation, nanoseconds.
const RETRY_NS: u64 = 10_000_000;

/// Runs one worker's share of the load.
pub(crate) async fn run(shared: &Shared, worker: Worker) -> anyhow::Result<()> {
    shared.begin();
    let record = worker.record.clone();
    let ledger = RefCell::new(Ledger::default());
    for issue in shared.issues() {
        ledger.borrow_mut().histories.was_ready(&issue);
    }
    let load = Load::new(shared, &worker, &ledger);
    let options = Options {
        // An operation begins once an agent takes it.
        begins_at_start: false,
        ..Options::default()
    };
    let state = RefCell::new(LoopState::new(worker, options));
    if load.unopened == 0 {
        state.borrow_mut().report_open();
    }
    let engine = Engine {
        state: &state,
        load: RefCell::new(load),
    };
    let perform = || {
        let job = engine.load.borrow_mut().jobs.pop_front()?;
        Some(engine.perform(job))
    };
    let unfinished = event_loop::run_async(&engine, &state, perform).await?;
    drop(unfinished);
    drop(engine);
    shared.leave(ledger.into_inner(), &record)
}

/// Work that the loop hands to a future.
#[derive(Debug)]
enum Job<'a> {
    /// Connects an agent of a group.
    Open(usize, Agent<'a>),
    /// Performs an operation.
    Operate(Start, Agent<'a>),
}

/// An agent of a group that may take an operation again.
type Rested<'a> = (usize, Agent<'a>);

/// The state of a worker's agents. It is never borrowed across a wait.
#[derive(Debug)]
struct Load<'a> {
    /// The free agents of each group.
    free: Vec<Vec<Agent<'a>>>,
    /// Operations that are due while no agent of their group is free.
    waiting: Vec<VecDeque<Start>>,
    jobs: VecDeque<Job<'a>>,
    /// Agents that have not connected.
    unopened: usize,
    /// Agents with an operation, or resting after a failure.
    busy: usize,
    /// Measured operations that have not ended.
    open: u64,
    has_ended: bool,
}

struct Engine<'a, 's> {
    state: &'s RefCell<LoopState<Rested<'a>>>,
    load: RefCell<Load<'a>>,
}

impl<'a> Load<'a> {
    fn new(shared: &'a Shared, worker: &Worker, ledger: &'a RefCell<Ledger>) -> Self {
        let plan = &shared.plan;
        let (mut jobs, mut first) = (VecDeque::new(), 0);
        for (index, group) in plan.groups.iter().enumerate() {
            let role = if group.name == BULK {
                Role::Bulk
            } else {
                Role::Agent
            };
            let agents = plan.driver.agents_of(group);
            let own = (worker.share.index..agents).step_by(worker.share.of as usize);
            jobs.extend(own.map(|number| {
                let number = (first + number) as u32;
                let record = worker.record.clone();
                let agent = Agent::new(shared, ledger, record, number, role);
                Job::Open(index, agent)
            }));
            first += agents;
        }
        Self {
            free: plan.groups.iter().map(|_| Vec::new()).collect(),
            waiting: plan.groups.iter().map(|_| VecDeque::new()).collect(),
            unopened: jobs.len(),
            busy: 0,
            open: 0,
            has_ended: false,
            jobs,
        }
    }
}

impl<'a> Engine<'a, '_> {
    async fn perform(&self, job: Job<'a>) {
        match job {
            Job::Open(group, mut agent) => {
                // An agent that fails to connect tries again with each operation, which then fails.
                let _ = agent.open().await;
                let load = &mut *self.load.borrow_mut();
                load.free[group].push(agent);
                load.unopened -= 1;
                let state = &mut *self.state.borrow_mut();
                if load.unopened == 0 {
                    state.report_open();
                }
                state.wake();
            }
            Job::Operate(start, agent) => self.operate(start, agent).await,
        }
    }

    async fn operate(&self, start: Start, mut agent: Agent<'a>) {
        let is_measured = self.state.borrow().phases.counts(start.at);
        let outcome = agent.operate(is_measured).await;
        let now = clock::now();
        let state = &mut *self.state.borrow_mut();
        let load = &mut *self.load.borrow_mut();
        if load.has_ended {
            return;
        }
        record(state, start, outcome, now);
        load.open -= u64::from(is_measured);
        let group = usize::from(start.group);
        let next = state.next_of_client(start, now);
        load.waiting[group].extend(next);
        match outcome {
            Err(crate::outcome::CONNECT) => {
                state.timers.set(now + RETRY_NS, (group, agent));
            }
            _ => {
                load.free[group].push(agent);
                load.busy -= 1;
            }
        }
        state.wake();
    }
}

fn record<T>(state: &LoopState<T>, start: Start, outcome: Result<(), &'static str>, now: u64) {
    let record = &state.record;
    if !state.phases.counts(start.at) {
        record.count(load::recorder::WARMUP, 1);
        return match outcome {
            Ok(()) => record.ok_of_warmup(1),
            Err(_) => record.error_of_warmup(),
        };
    }
    match outcome {
        Ok(()) => {
            record.value(spec::OPERATION, now.saturating_sub(start.at));
            record.ok();
        }
        Err(kind) => record.error(kind),
    }
}

impl<'a> AsyncHandler for Engine<'a, '_> {
    type Timer = Rested<'a>;

    fn start(&self, start: Start, _state: &mut LoopState<Self::Timer>) {
        let load = &mut *self.load.borrow_mut();
        load.waiting[usize::from(start.group)].push_back(start);
    }

    fn timer(&self, (group, agent): Self::Timer, _state: &mut LoopState<Self::Timer>) {
        let load = &mut *self.load.borrow_mut();
        load.busy -= 1;
        load.free[group].push(agent);
    }

    /// Hands operations that wait to free agents.
    fn turn(&self, state: &mut LoopState<Self::Timer>) -> anyhow::Result<u64> {
        let load = &mut *self.load.borrow_mut();
        if clock::now() >= state.pacer.starts_until() {
            return Ok(u64::MAX);
        }
        for group in 0..load.free.len() {
            while !load.waiting[group].is_empty() {
                let Some(agent) = load.free[group].pop() else {
                    break;
                };
                let Some(start) = load.waiting[group].pop_front() else {
                    break;
                };
                load.busy += 1;
                if state.phases.counts(start.at) {
                    load.open += 1;
                    state.record.begin();
                }
                load.jobs.push_back(Job::Operate(start, agent));
            }
        }
        Ok(u64::MAX)
    }

    fn is_idle(&self, state: &LoopState<Self::Timer>) -> bool {
        let load = self.load.borrow();
        let is_over = state.now >= state.pacer.starts_until();
        let waits = load.waiting.iter().any(|waiting| !waiting.is_empty());
        load.busy == 0 && (is_over || !waits)
    }

    fn give_up(&self, state: &mut LoopState<Self::Timer>) -> anyhow::Result<()> {
        let load = &mut *self.load.borrow_mut();
        load.has_ended = true;
        let waiting = load.waiting.iter().map(|waiting| waiting.len() as u64);
        state.count_missed(waiting.sum());
        state.record.unfinished_many(load.open);
        Ok(())
    }
}
