//! `presence:leave`, disconnections, and expiry.

use std::sync::Arc;

use super::event::Reason;
use super::room::{Inner, Room};
use super::service::{Presence, write_ok};
use super::session::{Membership, Session};
use super::sink::{Caller, Sink};

impl<S: Sink> Presence<S> {
    /// Handles `presence:leave`.
    pub(crate) fn leave(&self, session: &Session<S>, caller: &Caller<S>, now_ms: u64) {
        if let Membership::Joined { room, slot } = session.take() {
            let mut inner = room.lock();
            if inner.member(slot).is_some() {
                let (key, reason) = (slot.key, Reason::Leave);
                self.remove(&room, &mut inner, key, reason, now_ms, Some(caller));
                self.close_if_empty(&room, inner);
                return;
            }
        }
        caller.answer(write_ok);
    }

    /// Handles the end of a connection. If it broke, its membership is kept for the grace time.
    pub fn disconnect(&self, session: &Session<S>, is_broken: bool, now_ms: u64) {
        let Membership::Joined { room, slot } = session.take() else {
            return;
        };
        let grace_ms = self.settings.grace_ms();
        let mut inner = room.lock();
        let Some(member) = inner.member(slot) else {
            return;
        };
        if is_broken && grace_ms > 0 {
            member.keep_until(now_ms + grace_ms);
            return;
        }
        let (key, reason) = (slot.key, Reason::Disconnect);
        self.remove(&room, &mut inner, key, reason, now_ms, None);
        self.close_if_empty(&room, inner);
    }

    /// Removes the members of all rooms that are past their TTL or their grace time.
    pub fn remove_expired(&self, now_ms: u64) {
        self.rooms.for_each(|room| {
            let mut inner = room.lock();
            if let Some(cluster) = self.cluster() {
                cluster.check_gap(&mut inner);
            }
            self.remove_expired_of(room, &mut inner, now_ms);
            self.close_if_empty(room, inner);
        });
    }

    /// Removes the members of a room that are past their TTL or their grace time.
    pub(crate) fn remove_expired_of(&self, room: &Arc<Room<S>>, inner: &mut Inner<S>, now_ms: u64) {
        let ttl_ms = self.settings.ttl_ms();
        for key in 0..inner.members.capacity() {
            let Some(member) = inner.members.get(key) else {
                continue;
            };
            if member.is_expired(now_ms, ttl_ms) {
                self.remove(room, inner, key, Reason::Expired, now_ms, None);
            } else if member.is_abandoned(now_ms) {
                self.remove(room, inner, key, Reason::Disconnect, now_ms, None);
            }
        }
        if let Some(cluster) = self.cluster() {
            cluster.remove_lost(room, inner, now_ms);
        }
    }

    /// Removes a room from the registry if its last member has left.
    pub(crate) fn close_if_empty(
        &self,
        room: &Room<S>,
        mut inner: std::sync::MutexGuard<'_, Inner<S>>,
    ) {
        let is_empty = inner.members.is_empty();
        if let Some(cluster) = self.cluster().filter(|_| is_empty) {
            cluster.answer_waiting(&mut inner);
        }
        // The registry locks the room after its own part.
        drop(inner);
        if is_empty {
            self.rooms.remove_if_empty(room);
        }
    }
}
