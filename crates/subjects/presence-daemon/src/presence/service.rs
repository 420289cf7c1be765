//! The service: the requests of clients, and what they share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use daemon_kit::MetricsPage;

use super::cluster::{Cluster, Write, WriteQueue};
use super::counts::{Counts, add};
use super::event::{Event, Kind, Reason};
use super::member::Member;
use super::refusal::Refusal;
use super::registry::Registry;
use super::room::{Inner, Room};
use super::session::Session;
use super::settings::Settings;
use super::sink::{Caller, Sink};

/// A request of a client.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The name of the event.
    pub name: &'a str,
    /// Its arguments: valid JSON values separated by commas.
    pub arguments: &'a str,
    /// The id of the answer that the client waits for.
    pub ack: Option<u64>,
    /// True if binary attachments came with it, which a state cannot have.
    pub is_binary: bool,
}

/// The presence service of one node. Times that it is given are in milliseconds since 1970 and must not go back.
#[derive(Debug)]
pub struct Presence<S> {
    pub(crate) settings: Settings,
    pub(crate) counts: Counts,
    pub(crate) rooms: Registry<S>,
    /// The queue of writes that other nodes must see; `None` if there are no other nodes.
    write_queue: Option<WriteQueue<S>>,
    generations: AtomicU64,
}

impl<S: Sink> Presence<S> {
    /// Creates a service that keeps everything in memory.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            counts: Counts::default(),
            rooms: Registry::new(),
            write_queue: None,
            generations: AtomicU64::new(0),
        }
    }

    /// Creates a service that shares its rooms with other nodes, once they can be reached.
    pub(crate) fn with_cluster(settings: Settings) -> Self {
        Self {
            write_queue: Some(WriteQueue::new()),
            ..Self::new(settings)
        }
    }

    /// Handles a request of the connection with this id, which needs no escapes in JSON. Unknown requests are ignored.
    pub fn request(
        &self,
        session: &Session<S>,
        conn: &str,
        sink: &S,
        request: Request<'_>,
        now_ms: u64,
    ) {
        let caller = Caller {
            sink: sink.clone(),
            ack: request.ack,
        };
        let arguments = request.arguments;
        let handled = match request.name {
            "presence:heartbeat" | "presence:join" if request.is_binary => {
                let problem = "binary values cannot be part of a state: encode them as text";
                Err(Refusal::InvalidArgument(problem.into()))
            }
            "presence:heartbeat" => self.heartbeat(session, arguments, &caller, now_ms),
            "presence:join" => self.join(session, conn, arguments, &caller, now_ms),
            "presence:leave" => {
                self.leave(session, &caller, now_ms);
                Ok(())
            }
            _ => return,
        };
        if let Err(refusal) = handled {
            self.refuse(&caller, &refusal);
        }
    }

    /// Answers a request that is refused.
    pub(crate) fn refuse(&self, caller: &Caller<S>, refusal: &Refusal) {
        add(&self.counts.refused, 1);
        let has_code = !self.settings.is_compatible;
        caller.answer(|out| refusal.write(has_code, out));
    }

    /// Sets the metrics of the service on a page.
    pub fn set_metrics(&self, page: &MetricsPage) {
        self.counts.set_on(page);
        let rooms = self.rooms.len() as u64;
        page.set_gauge("presence_rooms", "Rooms with members on this node.", rooms);
    }

    /// Returns the generation of a new membership, which was never returned before.
    pub(crate) fn next_generation(&self) -> u64 {
        self.generations.fetch_add(1, Relaxed) + 1
    }

    /// Returns the other nodes; `None` if there are none.
    pub(crate) fn cluster(&self) -> Option<Cluster<'_, S>> {
        let queue = self.write_queue.as_ref()?;
        Some(Cluster::new(self, queue))
    }

    /// Queues a write about a member for the other nodes. Returns false if the room must work locally.
    pub(crate) fn share(
        &self,
        room: &Arc<Room<S>>,
        inner: &mut Inner<S>,
        write: Write,
        key: usize,
        caller: Option<&Caller<S>>,
    ) -> bool {
        self.cluster()
            .is_some_and(|cluster| cluster.share_member(room, inner, write, key, caller))
    }

    /// Sends an event that only this node numbers, to its members.
    pub(crate) fn publish(&self, inner: &mut Inner<S>, event: Event<'_>) {
        inner.seq += 1;
        let event = Event {
            seq: inner.seq,
            is_degraded: inner.is_degraded(),
            ..event
        };
        self.send(inner, event);
    }

    /// Sends an event about a member of this node, which only this node numbers.
    pub(crate) fn publish_member(
        &self,
        room: &Room<S>,
        inner: &mut Inner<S>,
        key: usize,
        kind: Kind,
        ts: u64,
    ) {
        inner.seq += 1;
        let event = Event {
            seq: inner.seq,
            is_degraded: inner.is_degraded(),
            ..inner.members[key].event(kind, &room.json, ts)
        };
        self.send(inner, event);
    }

    /// Sends an event to the members of this node.
    pub(crate) fn send(&self, inner: &Inner<S>, event: Event<'_>) {
        let count = inner.deliver(&event.to_frame(self.settings.is_compatible));
        add(&self.counts.events, 1);
        add(&self.counts.deliveries, count);
    }

    /// Removes a member, and publishes that it left.
    pub(crate) fn remove(
        &self,
        room: &Arc<Room<S>>,
        inner: &mut Inner<S>,
        key: usize,
        reason: Reason,
        now_ms: u64,
        caller: Option<&Caller<S>>,
    ) {
        // The write needs the member.
        let is_shared = self.share(room, inner, Write::Leave(reason), key, caller);
        let member = inner.members.remove(key);
        self.counts.left(reason);
        if !is_shared {
            self.publish_leave(room, inner, &member, reason, now_ms);
            if let Some(caller) = caller {
                caller.answer(write_ok);
            }
        }
    }

    fn publish_leave(
        &self,
        room: &Room<S>,
        inner: &mut Inner<S>,
        member: &Member<S>,
        reason: Reason,
        now_ms: u64,
    ) {
        if let Some(cluster) = self.cluster().filter(|_| member.is_shared) {
            cluster.queue().remember_left(&room.id, &member.conn);
        }
        // Nobody was told of a member that is not visible yet.
        if member.is_visible {
            let event = member.event(Kind::Leave(reason), &room.json, now_ms);
            self.publish(inner, event);
        }
    }
}

/// Appends the answer to a leave.
pub(crate) fn write_ok(out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"ok\":true}");
}
