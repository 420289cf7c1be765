//! The heartbeats of the load.

use load::clock;
use load::slots::Id;

use super::requests::{Request, RequestKind};
use super::{Cx, Wire};
use crate::outcome;
use crate::protocol::presence::{Ack, Stamp, write_heartbeat};
use crate::roles::Change;

impl<'a> Wire<'a> {
    /// Sends a heartbeat that was due at `at`.
    pub(super) fn heartbeat(&mut self, user: u32, at: u64, cx: &mut Cx<'a>) {
        let now = clock::now();
        let own = self.users.user(user);
        let id = self.connections[user as usize].filter(|_| own.can_send());
        let Some(id) = id else {
            let (never, outcome) = (Change { n: 0, at, sent: at }, Err(outcome::NOT_JOINED));
            let state = &mut cx.state;
            return self.users.end_heartbeat(user, never, outcome, now, state);
        };
        let epoch = (own.epoch > 0).then_some(own.epoch);
        let change = self.users.change(user, at, now);
        let stamp = Some(Stamp {
            n: u64::from(change.n),
            t: at,
        });
        let padding = self.settings.padding as usize;
        let write = |out: &mut Vec<u8>, id| write_heartbeat(out, id, stamp, epoch, padding);
        self.request(id, RequestKind::Heartbeat, change, write, cx);
    }

    pub(super) fn heartbeat_acknowledged(
        &mut self,
        id: Id,
        user: u32,
        request: &Request,
        ack: &Ack<'_>,
        now: u64,
        cx: &mut Cx<'a>,
    ) {
        let outcome = if !ack.ok {
            Err(outcome::heartbeat_rejected(ack.code.as_deref()))
        } else if ack.changed == Some(false) {
            // A server that keeps to the model's answers accepts heartbeats of members that it has removed.
            Err(outcome::HEARTBEAT_WITHOUT_EFFECT)
        } else {
            Ok(())
        };
        if outcome.is_ok() {
            self.users.check_epoch(user, request.change.sent, ack.epoch);
        }
        let state = &mut cx.state;
        self.users
            .end_heartbeat(user, request.change, outcome, now, state);
        let removed = [
            outcome::HEARTBEAT_WITHOUT_EFFECT,
            outcome::HEARTBEAT_EXPIRED,
            outcome::HEARTBEAT_NOT_JOINED,
            outcome::HEARTBEAT_STALE,
        ];
        if outcome.is_err_and(|kind| removed.contains(&kind)) {
            self.renew(id, user, ack.code.as_deref(), cx);
        }
    }
}
