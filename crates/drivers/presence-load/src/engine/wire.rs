//! The mode `protocol`: all users of a worker in one event loop, with the driver's own frames.
//!
//! Cost of a heartbeat in a room of two, roughly: one `write` and its share of `epoll_wait`, and for the acknowledgement
//! and each of two events a `read` or a share of one. A user is an entry of about 150 bytes, its connection of about as
//! much, and each pair of receiver and sender takes 8.

use load::driver::Worker;
use load::event_loop::{self, Context, Handler, Options};
use load::net::sources::Sources;
use load::pacer::Start;
use load::reactor::Event;
use load::slots::Id;

use crate::outcome;
use crate::protocol::transport::TransportContext;
use crate::roles::population::Behaviour;
use crate::roles::{ACTIONS_PER_TURN, Action, ConnectionEnd, LEAVING_AT_ONCE, Phase, Timer, Users};
use crate::settings::Settings;

mod connection;
mod conversation;
mod dial;
mod heartbeats;
mod losses;
mod requests;
mod session;
mod stream;

use connection::Connection;
use conversation::Conversations;
use requests::Requests;

/// Size of the read buffer, which all connections share.
const READ_BUFFER: usize = 64 * 1024;
/// Longest and shortest interval at which the deadlines of users are checked.
const MAX_SWEEP_NS: u64 = 250_000_000;
const MIN_SWEEP_NS: u64 = 1_000_000;
/// Longest time for the leave of one user, nanoseconds, besides the timeout of the last one. A Node.js server needs
/// 0.4 ms; leaves that are not acknowledged by then are errors.
const LEAVE_NS: u64 = 1_000_000;

/// Runs one worker's share of the load.
pub(crate) fn run(users: Users<'_>, worker: Worker) -> anyhow::Result<()> {
    let settings = users.shared().settings();
    let timeout_ns = settings.ack_timeout.as_nanos() as u64;
    let options = Options {
        read_buffer: READ_BUFFER,
        sweep_ns: (timeout_ns / 8).clamp(MIN_SWEEP_NS, MAX_SWEEP_NS),
        ..settings.loop_options()
    };
    let wire = Wire::new(users, &worker);
    event_loop::run(wire, Context::new(worker, options)?)
}

/// The context that the loop passes on.
type Cx<'a> = Context<Wire<'a>>;

/// The connections of one worker's users.
#[derive(Debug)]
struct Wire<'a> {
    users: Users<'a>,
    /// The connection of each user.
    connections: Vec<Option<Id>>,
    requests: Requests,
    /// The conversation of users that do not speak the presence protocol.
    conversations: Option<Conversations<'a>>,
    /// One for each server.
    transports: Vec<TransportContext>,
    sources: Sources,
    settings: &'a Settings,
    timeout_ns: u64,
    connect_timeout_ns: u64,
    keep_alive_ns: u64,
}

impl<'a> Wire<'a> {
    fn new(users: Users<'a>, worker: &Worker) -> Self {
        let shared = users.shared();
        let settings = shared.settings();
        let seed = shared.plan.seed.wrapping_add(worker.share.index);
        let transports = (0..).zip(&shared.servers).map(|(index, server)| {
            // The keys of servers differ, and so do the keys of workers with consecutive seeds.
            TransportContext::new(server.endpoint.clone(), seed ^ index << 32)
        });
        Self {
            connections: vec![None; users.part().users() as usize],
            requests: Requests::default(),
            conversations: (shared.conversation.as_ref())
                .map(|conversation| Conversations::new(conversation, users.part(), worker.share)),
            transports: transports.collect(),
            sources: Sources::new(shared.sources.clone(), worker.share),
            settings,
            timeout_ns: settings.ack_timeout.as_nanos() as u64,
            connect_timeout_ns: settings.connect_timeout.as_nanos() as u64,
            keep_alive_ns: settings.keep_alive.as_nanos() as u64,
            users,
        }
    }

    /// Lets the users act that are due. Returns when the next one is.
    fn act(&mut self, cx: &mut Cx<'a>) -> u64 {
        for _ in 0..ACTIONS_PER_TURN {
            match self.users.next_action(&cx.state) {
                Ok(Action::Connect(user)) => self.connect(user, cx),
                Ok(Action::Leave(user)) => self.leave(user, cx),
                Ok(Action::Cut(user)) => {
                    if let Some(id) = self.connections[user as usize] {
                        self.disconnect(id, ConnectionEnd::Cut, cx);
                    }
                }
                Err(next) => return next,
            }
        }
        cx.state.now
    }

    /// Sends what a user has to send that was due at `at`.
    #[inline]
    fn operate(&mut self, user: u32, at: u64, cx: &mut Cx<'a>) {
        if self.conversations.is_some() {
            self.send_next(user, at, cx)
        } else {
            self.heartbeat(user, at, cx)
        }
    }

    /// Lets all users leave, a part of them at once.
    fn leave_all(&mut self, cx: &mut Cx<'a>) -> anyhow::Result<()> {
        cx.state.now = load::clock::now();
        let until = cx.state.now + self.timeout_ns + self.users.joined_count() * LEAVE_NS;
        let mut next = 0..self.connections.len() as u32;
        while cx.state.now < until {
            while self.users.leaving_count() < LEAVING_AT_ONCE
                && let Some(user) = next.next()
            {
                if self.users.user(user).can_send() {
                    self.leave(user, cx);
                }
            }
            if self.users.leaving_count() == 0 {
                break;
            }
            let most = if next.is_empty() {
                0
            } else {
                LEAVING_AT_ONCE / 2
            };
            cx.serve_while(self, until, |wire, _| wire.users.leaving_count() > most)?;
        }
        for _ in 0..self.users.leaving_count() {
            cx.state.record.begin();
            cx.state.record.error(outcome::LEAVE_TIMEOUT);
        }
        Ok(())
    }
}

impl Handler for Wire<'_> {
    type Connection = Connection;
    type Timer = Timer;

    fn start(&mut self, start: Start, cx: &mut Context<Self>) {
        let user = self.users.begin(start, &cx.state);
        self.operate(user, start.at, cx);
    }

    fn ready(&mut self, id: Id, event: Event, cx: &mut Context<Self>) {
        self.serve(id, event, cx);
    }

    fn timer(&mut self, timer: Timer, cx: &mut Context<Self>) {
        match timer {
            Timer::Connect(user) => self.connect(user, cx),
            Timer::Next(sender) => {
                if let Some((user, at)) = self.users.begin_next(sender, &mut cx.state) {
                    self.operate(user, at, cx);
                }
            }
        }
    }

    fn expires_at(&self, connection: &Connection) -> u64 {
        let user = self.users.user(connection.user);
        if user.phase == Phase::Connecting {
            return user.sent.saturating_add(self.connect_timeout_ns);
        }
        let due = match self.requests.first(connection.requests) {
            Some(request) => request.change.sent.saturating_add(self.timeout_ns),
            None if user.behaviour == Behaviour::HalfOpen || self.conversations.is_some() => {
                u64::MAX
            }
            None => user.sent.saturating_add(self.keep_alive_ns),
        };
        due.min(self.ping_due(connection))
    }

    fn expired(&mut self, id: Id, cx: &mut Context<Self>) {
        self.time_out(id, cx);
    }

    fn turn(&mut self, cx: &mut Context<Self>) -> anyhow::Result<u64> {
        let next = self.act(cx);
        self.conversations
            .as_mut()
            .map_or(Ok(()), Conversations::check)?;
        self.users.record(self.users.joined_count(), &cx.state);
        Ok(next.min(self.users.next_look(&cx.state)))
    }

    fn is_idle(&self, cx: &Context<Self>) -> bool {
        self.users.is_idle(&cx.state)
    }

    fn give_up(&mut self, cx: &mut Context<Self>) -> anyhow::Result<()> {
        self.users.give_up(&cx.state);
        self.forget_requests(cx);
        self.leave_all(cx)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::roles::User;

    #[test]
    fn a_joined_user_in_a_room_of_ten_takes_half_a_kibibyte_at_most() {
        // Its entry among the connections has a generation, and among the senders an index.
        let connection = size_of::<Connection>() + 8 + size_of::<Option<Id>>() + size_of::<u32>();
        let user = size_of::<User>() + Users::audit_bytes_per_user(10);
        assert!(connection + user <= 512, "{connection} + {user} bytes");
        // Two texts, each with the least that the allocator gives, and the start of a message.
        let own = size_of::<conversation::ConversationUser>() + 2 * (16 + 16) + 32;
        let user = size_of::<User>() + Users::fan_out_bytes_per_user(10) + own;
        assert!(connection + user <= 614, "{connection} + {user} bytes");
    }
}
