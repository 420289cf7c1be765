//! The service: what its requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use daemon_kit::MetricsPage;

use super::counts::{Counts, add};
use super::event::{Event, Kind, Reason};
use super::link::Link;
use super::member::Member;
use super::op::{Op, Write};
use super::registry::Registry;
use super::room::{Inner, Room};
use super::settings::Settings;
use super::shared::Shared;
use super::sink::{Caller, Sink};

/// The presence service of one node. Times that it is given are in milliseconds since 1970 and must not go back.
#[derive(Debug)]
pub struct Presence<S> {
    pub(crate) settings: Settings,
    pub(crate) counts: Counts,
    pub(crate) rooms: Registry<S>,
    /// The queue of writes that other nodes must see; `None` if there are no other nodes.
    pub(crate) link: Option<Link<S>>,
    holders: AtomicU64,
}

impl<S: Sink> Presence<S> {
    /// Creates a service that keeps everything in memory.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            counts: Counts::default(),
            rooms: Registry::new(),
            link: None,
            holders: AtomicU64::new(0),
        }
    }

    /// Creates a service that shares its rooms with other nodes, once a link is up.
    pub(crate) fn with_link(settings: Settings) -> Self {
        Self {
            link: Some(Link::new()),
            ..Self::new(settings)
        }
    }

    /// Sets the metrics of the service on a page.
    pub fn set_metrics(&self, page: &MetricsPage) {
        self.counts.set_on(page);
        let rooms = self.rooms.len() as u64;
        page.set_gauge("presence_rooms", "Rooms with members on this node.", rooms);
    }

    /// Returns a number for a new place, which was never returned before.
    pub(crate) fn next_holder(&self) -> u64 {
        self.holders.fetch_add(1, Relaxed) + 1
    }

    /// Passes a write to the link. Returns false if the link is down: then the room must go on alone.
    pub(crate) fn share(
        &self,
        shared: Option<&mut Box<Shared<S>>>,
        op: impl FnOnce() -> Op<S>,
    ) -> bool {
        let (Some(link), Some(shared)) = (&self.link, shared) else {
            return false;
        };
        if !shared.is_linked {
            return false;
        }
        let op = op();
        let is_hold = op.write.is_hold();
        if link.push([op]).is_err() {
            // The link will come to this room too; until then it is alone already.
            shared.is_linked = false;
            return false;
        }
        shared.holds += u32::from(is_hold);
        true
    }

    /// Passes a write about a member to the link. Returns false if the link is down.
    pub(crate) fn share_member(
        &self,
        room: &Arc<Room<S>>,
        inner: &mut Inner<S>,
        write: Write,
        key: usize,
        caller: &Caller<S>,
    ) -> bool {
        let member = &mut inner.members[key];
        let is_shared = self.share(inner.shared.as_mut(), || {
            Op::about(room, write, key, member, Some(caller.clone()))
        });
        member.is_shared |= is_shared;
        is_shared
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
        caller: Option<Caller<S>>,
    ) {
        let member = inner.members.remove(key);
        self.counts.left(reason);
        let is_shared = self.share(inner.shared.as_mut(), || {
            Op::about(room, Write::Leave(reason), key, &member, caller.clone())
        });
        if !is_shared {
            self.leave_alone(room, inner, &member, reason, now_ms);
            if let Some(caller) = caller {
                caller.answer(write_ok);
            }
        }
    }

    fn leave_alone(
        &self,
        room: &Room<S>,
        inner: &mut Inner<S>,
        member: &Member<S>,
        reason: Reason,
        now_ms: u64,
    ) {
        if let Some(link) = self.link.as_ref().filter(|_| member.is_shared) {
            link.remember_left(&room.id, &member.conn);
        }
        // Nobody was told of a member that is not visible yet.
        if member.is_visible {
            let event = member.event(Kind::Leave(reason), &room.json, 0);
            self.publish(
                inner,
                Event {
                    ts: now_ms,
                    ..event
                },
            );
        }
    }
}

/// Appends the answer to a leave.
pub(crate) fn write_ok(out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"ok\":true}");
}
