//! The mode `sdk`: each user is a client of `presence-sdk`, as an application would have it.
//!
//! The loop takes heartbeats from the schedule, and each becomes a call of `update_state`. Users, audit and series are
//! those of the protocol mode, so that the difference of the two is what the client library costs: a task for each
//! client, a future and an answer for each call, and a list of the room's members.
//!
//! Differences that remain: connections that break come back by the library's own backoff, and updates that were not
//! acknowledged come back with them; heartbeats that only keep a membership alive are the library's own and are not
//! counted. The library drops events with a number that it has received, so that none is found duplicated or reordered
//! if the server numbers them; an event that it misses is a gap, and its change comes with the next snapshot.
//!
//! A user of the churn that leaves calls `leave`, closes its client, and joins with a new one, as in the protocol mode. A
//! cut is `RealtimeClient::reconnect`: the socket is dropped without a farewell, and the library joins again, so that the
//! join has no time of its own. A slow consumer is an application that does not read its events: the library reads the
//! connection and keeps the newest events. The server is not held up; the count of events that were dropped is `unread`.

mod churn;
mod events;
mod heartbeats;
mod leaving;
mod options;
mod session;

use std::cell::RefCell;
use std::collections::VecDeque;

use futures_util::StreamExt as _;
use load::driver::Worker;
use load::event_loop::{self, AsyncHandler, LoopState};
use load::pacer::Start;
use presence_sdk::{Event, Events, RealtimeClient, RoomHandle};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::audit::Audit;
use crate::counters::Counts;
use crate::outcome::count;
use crate::population::{Behaviour, Part};
use crate::progress::Progress;
use crate::shared::Shared;
use crate::users::User;
use crate::work::{Churn, ClosedLoop, is_over};
use options::Server;

/// Users that begin in one turn of the loop at most.
const BEGUN_PER_TURN: u32 = 32;
/// Interval at which the last events are looked for, nanoseconds.
const LOOK_NS: u64 = 5_000_000;

/// Runs one worker's share of the load.
pub(crate) async fn run(shared: &Shared, worker: Worker) -> anyhow::Result<()> {
    let part = Part {
        population: shared.population,
        share: worker.share,
    };
    // Its rooms are all held by other workers.
    if part.users() == 0 {
        return Ok(());
    }
    let mut worker = worker;
    let is_even = crate::work::fit(shared, part, &mut worker);
    let options = event_loop::Options {
        pacing: shared.settings().timer,
        ..event_loop::Options::default()
    };
    let loop_state = RefCell::new(LoopState::new(worker, options));
    let servers = options::servers(shared)?;
    let engine = Engine::new(shared, servers, part, is_even, &loop_state);
    let perform = || {
        let job = engine.load.borrow_mut().jobs.pop_front()?;
        Some(engine.perform(job))
    };
    let mut readers = event_loop::run_async(&engine, &loop_state, perform).await?;
    // Leaves are events for those who have not left.
    let read = async {
        while readers.next().await.is_some() {}
        std::future::pending().await
    };
    tokio::select! {
        () = engine.leave_all() => {}
        () = read => {}
    }
    engine.flush();
    Ok(())
}

/// Work that the loop hands to a future.
#[derive(Debug, Clone, Copy)]
enum Job {
    /// Connects, joins, and reads events until the end.
    Session(u32),
    /// Sends the heartbeat of a sender that was due at a time.
    Heartbeat(u32, u64),
    /// Leaves, and closes the client. The session then connects again.
    Leave(u32),
}

/// The content of a timer: the sender with this index sends its next heartbeat (closed loop).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Next(u32);

/// The users of one worker, and what their futures share.
struct Engine<'a> {
    shared: &'a Shared,
    part: Part,
    loop_state: &'a RefCell<LoopState<Next>>,
    servers: Vec<Server>,
    load: RefCell<Load>,
    is_even: bool,
}

/// The state of the users. It is never borrowed across a wait.
#[derive(Debug)]
struct Load {
    users: Vec<User>,
    clients: Vec<Option<RealtimeClient>>,
    rooms: Vec<Option<RoomHandle>>,
    /// The users that send heartbeats.
    senders: Vec<u32>,
    /// The slow consumers that have joined, and their events, which nobody reads.
    unread: Vec<(u32, Events)>,
    closed: Option<ClosedLoop>,
    churn: Option<Churn>,
    random: StdRng,
    audit: Audit,
    counts: Counts,
    jobs: VecDeque<Job>,
    /// The next user to begin.
    next_user: u32,
    opened: u64,
    /// Connections that were opened, and those that are counted as closed.
    connections: u64,
    closed_connections: u64,
    joined: u64,
    /// Heartbeats of the load that are not acknowledged, and those among them that count.
    open: u64,
    open_counted: u64,
    /// Users that connect or join.
    unsettled: u64,
    settled_rooms: u32,
    progress: Progress,
}

impl<'a> Engine<'a> {
    fn new(
        shared: &'a Shared,
        servers: Vec<Server>,
        part: Part,
        is_even: bool,
        loop_state: &'a RefCell<LoopState<Next>>,
    ) -> Self {
        let state = loop_state.borrow();
        let users = part.users() as u32;
        let behaviour = |user| part.population.behaviour(part.index_of(user));
        let senders = (0..users).filter(|user| behaviour(*user) == Behaviour::Active);
        let senders: Vec<u32> = senders.collect();
        let settings = shared.settings();
        let seed = shared.plan.seed.wrapping_add(state.share.index);
        let load = Load {
            users: (0..users).map(|user| User::new(behaviour(user))).collect(),
            clients: (0..users).map(|_| None).collect(),
            rooms: (0..users).map(|_| None).collect(),
            unread: Vec::new(),
            closed: ClosedLoop::new(shared, senders.len()),
            churn: Churn::new(settings, part, senders.len()),
            random: StdRng::seed_from_u64(seed),
            senders,
            audit: Audit::new(part, state.phases.origin, shared.settings().padding),
            counts: Counts::default(),
            jobs: VecDeque::new(),
            next_user: 0,
            opened: 0,
            connections: 0,
            closed_connections: 0,
            joined: 0,
            open: 0,
            open_counted: 0,
            unsettled: 0,
            settled_rooms: 0,
            progress: Progress::new(shared.settings().report_interval, state.phases.origin),
        };
        state.record.count(count::USERS, u64::from(users));
        drop(state);
        Self {
            servers,
            load: RefCell::new(load),
            shared,
            part,
            loop_state,
            is_even,
        }
    }

    async fn perform(&self, job: Job) {
        match job {
            // Boxed: its state is larger than that of a heartbeat.
            Job::Session(user) => Box::pin(self.session(user)).await,
            Job::Heartbeat(sender, at) => self.heartbeat(sender, at).await,
            Job::Leave(user) => self.leave_and_close(user).await,
        }
    }

    /// Lets the users begin that are due. Returns when the next one is.
    fn begin_users(&self, load: &mut Load, state: &LoopState<Next>) -> u64 {
        let ramp_up_ns = self.shared.settings().ramp_up.as_nanos() as u64;
        for _ in 0..BEGUN_PER_TURN {
            let user = load.next_user;
            if u64::from(user) >= self.part.users() || is_over(state, state.now) {
                return u64::MAX;
            }
            let due = state.phases.origin + self.part.begins_at(user, ramp_up_ns);
            if due > state.now {
                return due;
            }
            load.next_user += 1;
            load.unsettled += 1;
            load.jobs.push_back(Job::Session(user));
        }
        state.now
    }

    /// Registers that the first attempt of a user to join has ended. The load begins when all have.
    fn has_opened(&self, user: u32) {
        let load = &mut *self.load.borrow_mut();
        if std::mem::replace(&mut load.users[user as usize].has_opened, true) {
            return;
        }
        load.opened += 1;
        if load.opened == self.part.users() {
            self.loop_state.borrow_mut().report_open();
        }
    }

    /// Records the counts of a turn, and once a second the joined users.
    fn record(&self, load: &mut Load, state: &LoopState<Next>) {
        load.connections += load.counts.connected;
        load.counts.write(&state.record);
        load.audit.counts.write(&state.record, false);
        if state.is_second_over() {
            let is_open = |client: &RealtimeClient| client.is_connected();
            let open = load
                .clients
                .iter()
                .flatten()
                .filter(|client| is_open(client));
            // A connection that the library opened again is counted once its room is joined.
            let closed = load.connections.saturating_sub(open.count() as u64);
            let more = closed.saturating_sub(load.closed_connections);
            load.closed_connections += more;
            state.record.count(count::CLOSED, more);
        }
        // Nobody reads that their connection broke.
        let broken = load.unread.iter().filter(|(user, _)| {
            let client = load.clients[*user as usize].as_ref();
            !client.is_some_and(RealtimeClient::is_connected)
        });
        let held = load.joined.saturating_sub(broken.count() as u64);
        load.progress.write(held, state);
    }

    /// Looks again soon for the last events, once the load is over and all is acknowledged.
    fn wait_for_events(&self, load: &mut Load, state: &LoopState<Next>) -> u64 {
        if state.now < state.phases.end {
            return state.phases.end;
        }
        if load.open > 0 || load.unsettled > 0 || !is_over(state, state.now) {
            return u64::MAX;
        }
        let rooms = self.part.rooms() as u32;
        while load.settled_rooms < rooms && load.audit.is_settled(load.settled_rooms, &load.users) {
            load.settled_rooms += 1;
        }
        if load.settled_rooms == rooms {
            u64::MAX
        } else {
            state.now + LOOK_NS
        }
    }

    /// Prints a line, with `--debug`.
    fn debug(&self, user: u32, text: &str) {
        self.shared.debug(self.part, user, text);
    }

    fn flush(&self) {
        let load = &mut *self.load.borrow_mut();
        let state = self.loop_state.borrow();
        load.counts.write(&state.record);
        load.audit.counts.write(&state.record, true);
    }
}

impl AsyncHandler for Engine<'_> {
    type Timer = Next;

    fn start(&self, start: Start, state: &mut LoopState<Next>) {
        let load = &mut *self.load.borrow_mut();
        let number = if self.is_even {
            start.index / state.share.of
        } else {
            start.index
        };
        let sender = (number % load.senders.len() as u64) as u32;
        Self::begin_heartbeat(sender, start, load, state);
    }

    fn timer(&self, Next(sender): Next, state: &mut LoopState<Next>) {
        let load = &mut *self.load.borrow_mut();
        let Some(closed) = &load.closed else {
            return;
        };
        if load.users[load.senders[sender as usize] as usize].is_churning {
            // It is away because the plan asks for that.
            state.timers.set(closed.next_at(state.now), Next(sender));
        } else if let Some(start) = closed.next(sender, state) {
            Self::begin_heartbeat(sender, start, load, state);
        }
    }

    fn turn(&self, state: &mut LoopState<Next>) -> anyhow::Result<u64> {
        let load = &mut *self.load.borrow_mut();
        let next_user = self.begin_users(load, state);
        let next_churn = self.churn_users(load, state);
        self.record(load, state);
        let next_look = self.wait_for_events(load, state);
        Ok(next_user.min(next_churn).min(next_look))
    }

    fn is_idle(&self, state: &LoopState<Next>) -> bool {
        let load = self.load.borrow();
        load.open == 0
            && load.unsettled == 0
            && is_over(state, state.now)
            && u64::from(load.settled_rooms) >= self.part.rooms()
    }

    fn give_up(&self, state: &mut LoopState<Next>) -> anyhow::Result<()> {
        let load = &mut *self.load.borrow_mut();
        load.audit.finish(&load.users);
        state.record.unfinished_many(load.open_counted);
        let away = load.users.iter().filter(|user| user.is_away()).count() as u64;
        state.record.count(count::NOT_BACK, away);
        for (_, events) in &mut load.unread {
            if let Some(Event::Lagged(dropped)) = events.try_next() {
                load.counts.unread += dropped;
            }
        }
        Ok(())
    }
}
