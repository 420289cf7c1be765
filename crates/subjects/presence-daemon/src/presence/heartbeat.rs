//! `presence:heartbeat`.

use super::answer::HeartbeatAnswer;
use super::counts::add;
use super::event::{Kind, Reason};
use super::member::Member;
use super::op::Write;
use super::refusal::Refusal;
use super::request::{Heartbeat, too_deep};
use super::service::Presence;
use super::session::{Membership, Session};
use super::settings::Settings;
use super::sink::{Caller, Sink};
use super::state::TooDeep;

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
        let is_changed = apply(member, request, &self.settings)?;
        member.last_seen_ms = now_ms;
        let epoch = member.epoch;
        let write = if is_changed {
            Write::Update
        } else {
            Write::Touch
        };
        if self.share_member(room, &mut inner, write, slot.key, caller) {
            return Ok(());
        }
        if is_changed {
            self.publish_member(room, &mut inner, slot.key, Kind::Update, now_ms);
        }
        self.answer_heartbeat(caller, is_changed, epoch, inner.is_degraded());
        Ok(())
    }

    /// Answers a heartbeat with ok.
    pub(crate) fn answer_heartbeat(
        &self,
        caller: &Caller<S>,
        is_changed: bool,
        epoch: u64,
        is_degraded: bool,
    ) {
        add(&self.counts.heartbeats, 1);
        let answer = HeartbeatAnswer {
            is_changed,
            epoch: Some(epoch),
            is_degraded: is_degraded && !self.settings.is_compatible,
        };
        caller.answer(|out| answer.write(out));
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
        add(&self.counts.heartbeats, 1);
        let answer = HeartbeatAnswer {
            is_changed: false,
            epoch: None,
            is_degraded: false,
        };
        caller.answer(|out| answer.write(out));
        Ok(())
    }
}

/// Merges the patch of a heartbeat. Returns true if that changed a value.
fn apply<S>(
    member: &mut Member<S>,
    request: Heartbeat<'_>,
    settings: &Settings,
) -> Result<bool, Refusal> {
    let Some(patch) = request.patch else {
        return Ok(false);
    };
    let merged = member
        .state
        .merged(patch)
        .map_err(|TooDeep| too_deep("patchState"))?;
    let Some(merged) = merged else {
        return Ok(false);
    };
    if merged.as_str().len() > settings.max_state_bytes {
        return Err(Refusal::StateTooLarge(settings.max_state_bytes));
    }
    member.state = merged;
    Ok(true)
}
