//! The mode `sdk`: each user is a client of `presence-sdk`, as an application would have it.
//!
//! The loop takes heartbeats from the schedule, and each becomes a call of `update_state`. Users, audit and series are
//! the users of the protocol mode, so that the difference of the two is what the client library costs: a task for each
//! client, a future and an answer for each call, and a list of the room's members.
//!
//! Differences that remain: a connection that breaks comes back by the library's own backoff, and updates that were not
//! acknowledged come back with it, unless its user goes to another node; heartbeats that only keep a membership alive
//! are the library's own and are not counted. The library drops events with a number that it has received, so that none
//! is found duplicated or reordered if the server numbers them; an event that it misses is a gap, and its change comes
//! with the next snapshot.
//!
//! A user of the churn that leaves calls `leave`, closes its client, and joins with a new one, as in the protocol mode.
//! A cut is `RealtimeClient::reconnect`: the socket is dropped without a farewell, and the library joins again, so that
//! the join has no time of its own. A slow consumer is an application that does not read its events: the library reads
//! the connection and keeps the newest events. The server is not held up; the count of events that were dropped is
//! `unread`.

mod events;
mod heartbeats;
mod leaving;
mod options;
mod session;

use std::cell::{RefCell, RefMut};
use std::collections::VecDeque;

use futures_util::StreamExt as _;
use load::driver::Worker;
use load::event_loop::{self, AsyncHandler, LoopState};
use load::pacer::Start;
use presence_sdk::{Event, Events, RealtimeClient, RoomHandle};

use crate::outcome::count;
use crate::roles::{ACTIONS_PER_TURN, Action, ConnectionEnd, State, Timer, Users};
use crate::shared::Shared;
use options::SdkServer;

/// Runs one worker's share of the load.
pub(crate) async fn run(users: Users<'_>, worker: Worker) -> anyhow::Result<()> {
    let shared = users.shared();
    let options = shared.settings().loop_options();
    let loop_state = RefCell::new(LoopState::new(worker, options));
    let clients = users.part().users() as usize;
    let sdk = Sdk {
        shared,
        loop_state: &loop_state,
        servers: options::servers(shared)?,
        users: RefCell::new(users),
        clients: RefCell::new(Clients {
            of_users: (0..clients).map(|_| UserClient::default()).collect(),
            ..Clients::default()
        }),
    };
    let perform = || {
        let job = sdk.clients().jobs.pop_front()?;
        Some(sdk.perform(job))
    };
    let mut readers = event_loop::run_async(&sdk, &loop_state, perform).await?;
    // Leaves are events for those who have not left.
    let read = async {
        while readers.next().await.is_some() {}
        std::future::pending().await
    };
    tokio::select! {
        () = sdk.leave_all() => {}
        () = read => {}
    }
    Ok(())
}

/// Work that the loop hands to a future.
#[derive(Debug, Clone, Copy)]
enum Job {
    /// Connects, joins, and reads events until the client is closed.
    Session(u32),
    /// Sends the heartbeat of a user that was due at a time.
    Heartbeat(u32, u64),
    /// Leaves, and closes the client.
    Leave(u32),
}

/// The clients of one worker's users. What its futures share is never borrowed across a wait.
struct Sdk<'a> {
    shared: &'a Shared,
    loop_state: &'a RefCell<State>,
    servers: Vec<SdkServer>,
    users: RefCell<Users<'a>>,
    clients: RefCell<Clients>,
}

#[derive(Debug, Default)]
struct Clients {
    of_users: Vec<UserClient>,
    /// The slow consumers that have joined, and their events, which nobody reads.
    unread: Vec<(u32, Events)>,
    jobs: VecDeque<Job>,
    /// Connections that were opened, and those that are counted as closed.
    opened: u64,
    closed: u64,
}

/// The client of a user.
#[derive(Debug, Default)]
struct UserClient {
    handle: Option<RealtimeClient>,
    room: Option<RoomHandle>,
    /// The reason for which it was closed, for its session.
    end: Option<ConnectionEnd>,
}

impl UserClient {
    fn is_connected(&self) -> bool {
        self.handle
            .as_ref()
            .is_some_and(RealtimeClient::is_connected)
    }
}

impl<'a> Sdk<'a> {
    fn users(&self) -> RefMut<'_, Users<'a>> {
        self.users.borrow_mut()
    }

    fn clients(&self) -> RefMut<'_, Clients> {
        self.clients.borrow_mut()
    }

    /// Returns what the library has of a user.
    fn client(&self, user: u32) -> RefMut<'_, UserClient> {
        RefMut::map(self.clients(), |clients| {
            &mut clients.of_users[user as usize]
        })
    }

    async fn perform(&self, job: Job) {
        match job {
            // Boxed: its state is larger than a heartbeat's.
            Job::Session(user) => Box::pin(self.session(user)).await,
            Job::Heartbeat(user, at) => self.heartbeat(user, at).await,
            Job::Leave(user) => self.leave_and_close(user).await,
        }
    }

    /// Lets the users act that are due. Returns when the next one is.
    fn act(&self, state: &State) -> u64 {
        for _ in 0..ACTIONS_PER_TURN {
            let action = self.users().next_action(state);
            match action {
                Ok(Action::Connect(user)) => self.clients().jobs.push_back(Job::Session(user)),
                Ok(Action::Leave(user)) => {
                    self.users().begin_leave(user);
                    self.clients().jobs.push_back(Job::Leave(user));
                }
                Ok(Action::Cut(user)) => {
                    self.suspend(user);
                    if let Some(client) = &self.client(user).handle {
                        client.reconnect();
                    }
                }
                Err(next) => return next,
            }
        }
        state.now
    }

    /// Records once a second the connections that were closed, and the joined users.
    fn record(&self, state: &State) {
        let (users, clients) = (&mut *self.users(), &mut *self.clients());
        if state.is_second_over() {
            let open = clients.of_users.iter().filter(|one| one.is_connected());
            // A connection that the library opened again is counted once its room is joined.
            let closed = clients.opened.saturating_sub(open.count() as u64);
            let more = closed.saturating_sub(clients.closed);
            clients.closed += more;
            state.record.count(count::CLOSED, more);
        }
        // Nobody reads that their connection broke.
        let unread = clients.unread.iter();
        let broken = unread.filter(|(user, _)| !clients.of_users[*user as usize].is_connected());
        let held = users.joined_count().saturating_sub(broken.count() as u64);
        users.record(held, state);
    }

    /// Prints a line, with `--debug`.
    fn debug(&self, user: u32, text: &str) {
        self.users().debug(user, text);
    }
}

impl AsyncHandler for Sdk<'_> {
    type Timer = Timer;

    fn start(&self, start: Start, state: &mut State) {
        let user = self.users().begin(start, state);
        let job = Job::Heartbeat(user, start.at);
        self.clients().jobs.push_back(job);
    }

    fn timer(&self, timer: Timer, state: &mut State) {
        let job = match timer {
            Timer::Connect(user) => Some(Job::Session(user)),
            Timer::Next(sender) => {
                let next = self.users().begin_next(sender, state);
                next.map(|(user, at)| Job::Heartbeat(user, at))
            }
        };
        self.clients().jobs.extend(job);
    }

    fn turn(&self, state: &mut State) -> anyhow::Result<u64> {
        let next = self.act(state);
        self.record(state);
        Ok(next.min(self.users().next_look(state)))
    }

    fn is_idle(&self, state: &State) -> bool {
        self.users().is_idle(state)
    }

    fn give_up(&self, state: &mut State) -> anyhow::Result<()> {
        let users = &mut *self.users();
        users.give_up(state);
        for (_, events) in &mut self.clients().unread {
            if let Some(Event::Lagged(dropped)) = events.try_next() {
                users.counts.add(count::UNREAD, dropped);
            }
        }
        Ok(())
    }
}
