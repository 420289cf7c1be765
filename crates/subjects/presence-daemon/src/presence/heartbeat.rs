//! `presence:heartbeat`.

use super::cluster::Write;
use super::counts::add;
use super::event::{Kind, Reason, push};
use super::json::push_number;
use super::refusal::Refusal;
use super::request::Heartbeat;
use super::service::Presence;
use super::session::{Membership, Session};
use super::sink::{Caller, Sink};

impl<S: Sink> Presence<S> {
    /// Handles `presence:heartbeat`.
    pub(crate) fn heartbeat(
        &self,
        session: &Session<S>,
        arguments: &str,
        caller: &Caller<S>,
        now_ms: u64,
    ) -> Result<(), Refusal> {
        let request = Heartbeat::parse(arguments)?;
        let mut membership = session.lock();
        let (room, slot) = match &*membership {
            Membership::Joined { room, slot } => (room, *slot),
            Membership::Outside => return self.answer_unknown(caller, Refusal::NotJoined),
            Membership::Expired => return self.answer_unknown(caller, Refusal::Expired),
        };
        let mut inner = room.lock();
        let Some(member) = inner.member(slot) else {
            drop(inner);
            *membership = Membership::Expired;
            return self.answer_unknown(caller, Refusal::Expired);
        };
        if member.is_expired(now_ms, self.settings.ttl_ms()) {
            self.remove(room, &mut inner, slot.key, Reason::Expired, now_ms, None);
            self.close_if_empty(room, inner);
            *membership = Membership::Expired;
            return self.answer_unknown(caller, Refusal::Expired);
        }
        if let Some(epoch) = request.epoch.filter(|epoch| *epoch != member.epoch) {
            if !self.settings.is_compatible || epoch < member.epoch {
                return self.answer_unknown(caller, Refusal::StaleEpoch);
            }
            member.epoch = epoch;
        }
        let most = self.settings.max_state_bytes;
        let is_changed = member.heartbeat(request.patch, most, now_ms)?;
        let epoch = member.epoch;
        let write = if is_changed {
            Write::Update
        } else {
            Write::Touch
        };
        if self.share(room, &mut inner, write, slot.key, Some(caller)) {
            return Ok(());
        }
        if is_changed {
            self.publish_member(room, &mut inner, slot.key, Kind::Update, now_ms);
        }
        self.answer_heartbeat(caller, is_changed, Some(epoch), inner.is_degraded());
        Ok(())
    }

    /// Answers a heartbeat with ok. In compatibility mode there may be no member, and then no epoch.
    pub(crate) fn answer_heartbeat(
        &self,
        caller: &Caller<S>,
        is_changed: bool,
        epoch: Option<u64>,
        is_degraded: bool,
    ) {
        add(&self.counts.heartbeats, 1);
        caller.answer(|out| {
            push(out, "{\"ok\":true,\"changed\":");
            push(out, if is_changed { "true" } else { "false" });
            if let Some(epoch) = epoch {
                push(out, ",\"epoch\":");
                push_number(epoch, out);
            }
            if is_degraded && !self.settings.is_compatible {
                push(out, ",\"degraded\":true");
            }
            push(out, "}");
        });
    }

    /// Refuses a heartbeat without a member, or answers it as the model does.
    pub(crate) fn answer_unknown(
        &self,
        caller: &Caller<S>,
        refusal: Refusal,
    ) -> Result<(), Refusal> {
        if !self.settings.is_compatible {
            return Err(refusal);
        }
        self.answer_heartbeat(caller, false, None, false);
        Ok(())
    }
}
