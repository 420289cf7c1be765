//! One worker's share of the load: whole rooms of users, in one event loop.
//!
//! Cost of a heartbeat in a room of two, roughly: one `write` and its share of `epoll_wait`, and for the acknowledgement
//! and each of two events a `read` or a share of one. A user is an entry of about 150 bytes, its connection of about as
//! much, and each pair of receiver and sender takes 8.

use load::driver::Worker;
use load::event_loop::{self, Context, Handler, LoopState, Options};
use load::net::sources::Sources;
use load::pacer::Start;
use load::reactor::Event;
use load::recorder::Recorder;
use load::slots::Id;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::audit::Audit;
use crate::counters::Counts;
use crate::population::{Behaviour, Names, Part};
use crate::progress::Progress;
use crate::protocol::transport::TransportContext;
use crate::requests::Requests;
use crate::shared::Shared;
use crate::users::{Phase, User};

mod arrivals;
mod churn;
mod connection;
mod dial;
mod ending;
mod heartbeats;
mod losses;
mod pace;
mod session;
mod stream;

use arrivals::Arrivals;
pub(crate) use churn::{Churn, LEFT_PER_TURN, TRIES};
use connection::Connection;
use ending::Ending;
pub(crate) use pace::{ClosedLoop, fit, is_over};

/// Size of the read buffer, which all connections share.
const READ_BUFFER: usize = 64 * 1024;
/// Longest and shortest interval at which the deadlines of users are checked.
const MAX_SWEEP_NS: u64 = 250_000_000;
const MIN_SWEEP_NS: u64 = 1_000_000;

/// Runs one worker's share of the load.
pub(crate) fn run(shared: &Shared, mut worker: Worker) -> anyhow::Result<()> {
    let part = Part {
        population: shared.population,
        share: worker.share,
    };
    // Its rooms are all held by other workers.
    if part.users() == 0 {
        return Ok(());
    }
    let is_even = pace::fit(shared, part, &mut worker);
    let settings = shared.settings();
    let timeout_ns = settings.ack_timeout.as_nanos() as u64;
    let options = Options {
        read_buffer: READ_BUFFER,
        sweep_ns: (timeout_ns / 8).clamp(MIN_SWEEP_NS, MAX_SWEEP_NS),
        pacing: settings.timer,
        ..Options::default()
    };
    let cx = Context::new(worker, options)?;
    let load = Load::new(shared, part, is_even, &cx.state);
    event_loop::run(load, cx)
}

/// The context that the loop passes to the load.
type Cx<'a> = Context<Load<'a>>;

/// The content of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timer {
    /// A user connects again.
    Connect(u32),
    /// The sender with this index sends its next heartbeat (closed loop).
    Next(u32),
}

/// The users of one worker.
#[derive(Debug)]
struct Load<'a> {
    shared: &'a Shared,
    part: Part,
    users: Vec<User>,
    /// The users that send heartbeats.
    senders: Vec<u32>,
    requests: Requests,
    audit: Audit,
    /// One for each server.
    transports: Vec<TransportContext>,
    sources: Sources,
    names: Names,
    counts: Counts,
    arrivals: Arrivals,
    closed: Option<ClosedLoop>,
    churn: Option<Churn>,
    ending: Ending,
    random: StdRng,
    /// True if operations are numbered over all workers.
    is_even: bool,
    joined: u64,
    /// Heartbeats of the load that are not acknowledged.
    open: u64,
    /// Users that connect, join, leave or wait to connect again.
    unsettled: u64,
    /// Rooms whose members have received all that was acknowledged. Nothing changes in them once the load is over.
    settled_rooms: u32,
    progress: Progress,
    timeout_ns: u64,
    connect_timeout_ns: u64,
    keep_alive_ns: u64,
}

impl<'a> Load<'a> {
    fn new(shared: &'a Shared, part: Part, is_even: bool, state: &LoopState<Timer>) -> Self {
        let settings = shared.settings();
        let behaviour = |user| part.population.behaviour(part.index_of(user));
        let users = 0..part.users() as u32;
        let senders = users.clone();
        let senders: Vec<u32> = senders
            .filter(|user| behaviour(*user) == Behaviour::Active)
            .collect();
        let seed = shared.plan.seed.wrapping_add(state.share.index);
        let transports = (0..).zip(&shared.servers).map(|(index, server)| {
            // The servers' keys differ, and so do those of workers with consecutive seeds.
            TransportContext::new(server.endpoint.clone(), seed ^ index << 32)
        });
        let sources = Sources::new(shared.sources.clone(), state.share);
        Self {
            users: users.map(|user| User::new(behaviour(user))).collect(),
            requests: Requests::default(),
            audit: Audit::new(part, state.phases.origin, shared.settings().padding),
            transports: transports.collect(),
            sources,
            names: Names::default(),
            counts: Counts::default(),
            arrivals: Arrivals::new(settings.ramp_up, state.phases.origin),
            closed: ClosedLoop::new(shared, senders.len()),
            churn: Churn::new(settings, part, senders.len()),
            ending: Ending::default(),
            random: StdRng::seed_from_u64(seed),
            is_even,
            joined: 0,
            open: 0,
            unsettled: 0,
            settled_rooms: 0,
            progress: Progress::new(settings.report_interval, state.phases.origin),
            timeout_ns: settings.ack_timeout.as_nanos() as u64,
            connect_timeout_ns: settings.connect_timeout.as_nanos() as u64,
            keep_alive_ns: settings.keep_alive.as_nanos() as u64,
            senders,
            part,
            shared,
        }
    }

    fn user(&mut self, user: u32) -> &mut User {
        &mut self.users[user as usize]
    }

    /// Returns the index of a user's server.
    fn server_of(&self, user: u32) -> usize {
        usize::from(self.users[user as usize].server)
    }

    /// Records the counts of a turn, and once a second the joined users.
    fn record(&mut self, state: &LoopState<Timer>) {
        self.counts.write(&state.record);
        self.audit.counts.write(&state.record, false);
        self.progress.write(self.joined, state);
    }

    /// Returns true if each member of each room has received all that was acknowledged. Once the load is over, rooms
    /// that were found settled are not checked again.
    fn is_settled(&mut self) -> bool {
        let rooms = self.part.rooms() as u32;
        while self.settled_rooms < rooms && self.audit.is_settled(self.settled_rooms, &self.users) {
            self.settled_rooms += 1;
        }
        self.settled_rooms == rooms
    }

    /// Prints a line, with `--debug`.
    fn debug(&self, user: u32, text: &str) {
        self.shared.debug(self.part, user, text);
    }
}

impl Handler for Load<'_> {
    type Connection = Connection;
    type Timer = Timer;

    fn start(&mut self, start: Start, cx: &mut Context<Self>) {
        let number = if self.is_even {
            start.index / cx.state.share.of
        } else {
            start.index
        };
        let sender = (number % self.senders.len() as u64) as u32;
        self.begin_heartbeat(sender, start, cx);
    }

    fn ready(&mut self, id: Id, event: Event, cx: &mut Context<Self>) {
        self.serve(id, event, cx);
    }

    fn timer(&mut self, timer: Timer, cx: &mut Context<Self>) {
        match timer {
            Timer::Connect(user) => self.connect(user, cx),
            Timer::Next(sender) => self.next_of_sender(sender, cx),
        }
    }

    fn expires_at(&self, connection: &Connection) -> u64 {
        let user = &self.users[connection.user as usize];
        let requests = self.requests.first(user.requests);
        match user.phase {
            Phase::Connecting => user
                .connecting_since
                .saturating_add(self.connect_timeout_ns),
            _ => match requests {
                Some(request) => request.sent.saturating_add(self.timeout_ns),
                None if user.behaviour == Behaviour::HalfOpen => u64::MAX,
                None => user.sent.saturating_add(self.keep_alive_ns),
            },
        }
    }

    fn expired(&mut self, id: Id, cx: &mut Context<Self>) {
        self.time_out(id, cx);
    }

    fn turn(&mut self, cx: &mut Context<Self>) -> anyhow::Result<u64> {
        let next_arrival = self.begin_users(cx);
        let next_churn = self.churn_users(cx);
        self.record(&cx.state);
        let next_look = self.wait_for_events(cx);
        Ok(next_arrival.min(next_churn).min(next_look))
    }

    fn is_idle(&self, cx: &Context<Self>) -> bool {
        let has_ended = self.open == 0 && self.unsettled == 0 && self.is_over(&cx.state);
        has_ended && self.settled_rooms >= self.part.rooms() as u32
    }

    fn give_up(&mut self, cx: &mut Context<Self>) -> anyhow::Result<()> {
        self.end(cx)?;
        self.flush(&cx.state.record);
        Ok(())
    }
}

impl Load<'_> {
    /// Looks again soon for the last events, once the load is over and all is acknowledged.
    fn wait_for_events(&mut self, cx: &mut Context<Self>) -> u64 {
        /// Interval at which the last events are looked for, nanoseconds.
        const LOOK_NS: u64 = 5_000_000;
        if self.open > 0 || self.unsettled > 0 || !self.is_over(&cx.state) {
            return u64::MAX;
        }
        if self.is_settled() {
            u64::MAX
        } else {
            cx.state.now + LOOK_NS
        }
    }

    fn flush(&mut self, record: &Recorder) {
        self.counts.write(record);
        self.audit.counts.write(record, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_joined_user_in_a_room_of_ten_takes_half_a_kibibyte_at_most() {
        // Its entry among the connections has a generation, and among the senders an index.
        let connection = size_of::<Connection>() + 8 + size_of::<u32>();
        let user = size_of::<User>() + Audit::bytes_per_user(10);
        assert!(connection + user <= 512, "{connection} + {user} bytes");
    }
}
