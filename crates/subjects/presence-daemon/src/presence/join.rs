//! `presence:join`.

use std::sync::Arc;

use super::answer::JoinAnswer;
use super::cluster::Write;
use super::counts::add;
use super::event::Kind;
use super::json::quoted;
use super::member::{Member, Token};
use super::refusal::Refusal;
use super::request::Join;
use super::room::{Inner, Room, Slot};
use super::service::Presence;
use super::session::{Membership, Session};
use super::sink::{Caller, Sink};

impl<S: Sink> Presence<S> {
    /// Handles `presence:join` of the connection with this id.
    pub(crate) fn join(
        &self,
        session: &Session<S>,
        conn: &str,
        arguments: &str,
        caller: &Caller<S>,
        now_ms: u64,
    ) -> Result<(), Refusal> {
        let request = Join::parse(arguments)?;
        let length = request
            .state
            .as_ref()
            .map_or(0, |state| state.as_str().len());
        if length > self.settings.max_state_bytes {
            return Err(Refusal::StateTooLarge(self.settings.max_state_bytes));
        }
        let mut membership = session.lock();
        if let Membership::Joined { room, slot } = &*membership {
            let mut inner = room.lock();
            self.remove_expired_of(room, &mut inner, now_ms);
            if let Some(member) = inner.member(*slot) {
                if room.id.as_ref() != request.room {
                    return Err(Refusal::AlreadyJoined);
                }
                let state = request.state.unwrap_or_default();
                member.rejoin(&request.user, state, now_ms);
                self.publish_join(room, &mut inner, slot.key, caller, now_ms);
                return Ok(());
            }
            self.close_if_empty(room, inner);
        }
        *membership = self.add_member(conn, request, caller, now_ms)?;
        Ok(())
    }

    /// Adds a connection to a room.
    fn add_member(
        &self,
        conn: &str,
        request: Join,
        caller: &Caller<S>,
        now_ms: u64,
    ) -> Result<Membership<S>, Refusal> {
        let most = self.settings.max_rooms;
        loop {
            let found = self
                .rooms
                .find_or_create(&request.room, most, self.cluster().is_some());
            let room = found.ok_or(Refusal::TooManyRooms)?;
            let mut inner = room.lock();
            if inner.is_closed {
                continue;
            }
            self.remove_expired_of(&room, &mut inner, now_ms);
            let entered = match self.resume(&room, &mut inner, &request, caller, now_ms) {
                Some(entered) => Ok(entered),
                None => self.insert(&room, &mut inner, conn, request, caller, now_ms),
            };
            self.close_if_empty(&room, inner);
            return entered.map(|slot| Membership::Joined { room, slot });
        }
    }

    fn insert(
        &self,
        room: &Arc<Room<S>>,
        inner: &mut Inner<S>,
        conn: &str,
        request: Join,
        caller: &Caller<S>,
        now_ms: u64,
    ) -> Result<Slot, Refusal> {
        let token = self.next_token();
        let state = request.state.unwrap_or_default();
        // Another connection may have resumed the membership of this one: its id must not be in the room twice.
        let mut members = inner.members.iter().filter(|_| token.is_some());
        let resumed = members.find(|(_, member)| *member.conn == *conn);
        let key = match resumed {
            Some((key, _)) => {
                inner.members[key].rejoin(&request.user, state, now_ms);
                key
            }
            None if inner.member_count() >= self.settings.max_room_members => {
                return Err(Refusal::RoomFull);
            }
            None if !self.counts.begin_member(self.settings.max_users) => {
                return Err(Refusal::TooManyUsers);
            }
            None => {
                let member = Member::new(conn, &request.user, state, now_ms);
                inner.members.insert(member)
            }
        };
        let generation = self.next_generation();
        inner.members[key].connect(generation, caller.sink.clone(), token);
        self.publish_join(room, inner, key, caller, now_ms);
        Ok(Slot { key, generation })
    }

    fn publish_join(
        &self,
        room: &Arc<Room<S>>,
        inner: &mut Inner<S>,
        key: usize,
        caller: &Caller<S>,
        now_ms: u64,
    ) {
        if self.share(room, inner, Write::Join, key, Some(caller)) {
            return;
        }
        inner.members[key].is_visible = true;
        self.publish_member(room, inner, key, Kind::Join, now_ms);
        self.answer_join_local(inner, key, caller, false);
    }

    /// Returns a kept membership to the client that has its token.
    fn resume(
        &self,
        room: &Arc<Room<S>>,
        inner: &mut Inner<S>,
        request: &Join,
        caller: &Caller<S>,
        now_ms: u64,
    ) -> Option<Slot> {
        let token = Token::parse(request.resume.as_ref()?)?;
        let user_json = quoted(&request.user);
        let (key, member) = inner
            .members
            .iter_mut()
            .find(|(_, member)| member.is_resumed_by(token, &user_json))?;
        let generation = self.next_generation();
        member.connect(generation, caller.sink.clone(), self.next_token());
        let is_changed = member.resume(request.state.as_ref(), now_ms);
        add(&self.counts.resumptions, 1);
        if !self.share(room, inner, Write::Resume { is_changed }, key, Some(caller)) {
            if is_changed {
                self.publish_member(room, inner, key, Kind::Update, now_ms);
            }
            self.answer_join_local(inner, key, caller, true);
        }
        Some(Slot { key, generation })
    }

    /// Answers a join with what this node knows.
    pub(crate) fn answer_join_local(
        &self,
        inner: &Inner<S>,
        key: usize,
        caller: &Caller<S>,
        is_resumed: bool,
    ) {
        let member = &inner.members[key];
        let answer = JoinAnswer {
            conn: &member.conn,
            epoch: member.epoch,
            seq: inner.seq,
            token: member.token,
            is_resumed,
            is_degraded: inner.is_degraded(),
        };
        self.answer_join(caller, &answer, |out| inner.write_snapshot(out));
    }

    /// Answers a join with ok; `snapshot` appends the members.
    pub(crate) fn answer_join(
        &self,
        caller: &Caller<S>,
        answer: &JoinAnswer<'_>,
        snapshot: impl FnOnce(&mut Vec<u8>),
    ) {
        add(&self.counts.joins, 1);
        caller.answer(|out| answer.write(self.settings.is_compatible, out, snapshot));
    }

    fn next_token(&self) -> Option<Token> {
        (self.settings.grace_ms() > 0).then(Token::new)
    }
}

impl<S: Sink> Inner<S> {
    /// Appends the members of a room that this node knows, each with a comma after it.
    fn write_snapshot(&self, out: &mut Vec<u8>) {
        for (_, member) in self.members.iter().filter(|(_, member)| member.is_visible) {
            member.shown().write(out);
            out.push(b',');
        }
        if let Some(shared) = &self.shared {
            shared.write_members(out);
        }
    }
}
