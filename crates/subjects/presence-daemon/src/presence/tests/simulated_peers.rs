//! Users who join, move, come back, fall silent and leave, drawn from a seed and compared with a model: every answer,
//! every event, and what is left at the end.

use std::collections::{BTreeMap, HashSet};
use std::mem;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::{Map, Value, json};
use slab::Slab;
use test_kit::scaled;
use test_kit::simulation::simulate;

use super::*;

/// Clients at the same time. Few, so that they meet what others have left.
const CLIENTS: usize = 5;
const ROOMS: usize = 3;
/// Steps of a world.
const STEPS: usize = 60;
/// Worlds of a full run.
const WORLDS: u64 = 100_000;
const TTL_MS: u64 = 30_000;
const GRACE_MS: u64 = 5_000;

fn settings() -> Settings {
    Settings {
        ttl: Duration::from_millis(TTL_MS),
        resume_grace: Duration::from_millis(GRACE_MS),
        max_rooms: ROOMS - 1,
        max_room_members: CLIENTS - 1,
        max_users: CLIENTS,
        max_state_bytes: 40,
        is_compatible: false,
    }
}

/// The token that a client sends with a join.
#[derive(Debug, Clone, Copy)]
enum Resume {
    None,
    /// The last one that it got.
    Last,
    /// The first one that it got.
    First,
    /// The last one of another client.
    Foreign,
    Invented,
}

/// One thing that happens.
#[derive(Debug, Clone, Copy)]
enum Step {
    Connect(usize),
    /// A client joins a room as a user, with a state or without.
    Join(usize, usize, usize, Option<u64>, Resume),
    /// A client sends a heartbeat, with the epoch plus this, and with a patch.
    Heartbeat(usize, Option<u64>, Option<u64>),
    Leave(usize),
    /// A client closes its connection.
    Close(usize),
    /// A connection breaks.
    Break(usize),
    /// Milliseconds pass.
    Pass(u64),
    /// The daemon looks for silent members.
    Expire,
}

use Step::*;

fn draw(random: &mut StdRng) -> Step {
    let client = random.random_range(0..CLIENTS);
    let state = random.random_bool(0.6).then(|| random.random_range(0..8));
    match random.random_range(0..100) {
        0..15 => Connect(client),
        15..45 => {
            use Resume::*;
            let tokens = [None, None, Last, Last, First, Foreign, Invented];
            let token = tokens[random.random_range(0..tokens.len())];
            let user = if random.random_bool(0.8) { client } else { 0 };
            Join(client, random.random_range(0..ROOMS), user, state, token)
        }
        45..70 => {
            let epoch = [Some(0), Some(1), Option::None, Option::None];
            Heartbeat(client, epoch[random.random_range(0..4)], state)
        }
        70..76 => Leave(client),
        76..80 => Close(client),
        80..88 => Break(client),
        88..97 => {
            let times = [1, 1_000, GRACE_MS - 1, GRACE_MS, TTL_MS - GRACE_MS, TTL_MS];
            Pass(times[random.random_range(0..times.len())])
        }
        _ => Expire,
    }
}

/// Returns a state or patch. Some are longer than a state may be.
fn state(number: u64) -> Map<String, Value> {
    let value = match number {
        7 => json!("twenty bytes and twenty more"),
        _ => json!(number / 2),
    };
    [(format!("key {}", number % 2), value)]
        .into_iter()
        .collect()
}

/// The membership of a connection, as the model has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Membership {
    Outside,
    /// The connection joined this room when it was opened at this number. It may have been removed since.
    Joined(usize, u64),
    Expired,
}

/// A connection of a client.
struct Peer {
    client: Client,
    membership: Membership,
    /// The events that it must have got.
    expected: Vec<Value>,
}

/// A member of a room in the model.
struct Member {
    conn: String,
    /// The connection that it belongs to.
    owner: String,
    /// The client whose connection it is, unless that broke.
    client: Option<usize>,
    user: usize,
    state: Map<String, Value>,
    last_seen_ms: u64,
    epoch: u64,
    token: String,
    kept_until_ms: u64,
}

#[derive(Default)]
struct Room {
    /// The members that had entered any room before it was opened: no other room of this id has the number.
    opened: u64,
    seq: u64,
    members: Slab<Member>,
}

impl Room {
    fn key_of(&self, owner: &str) -> Option<usize> {
        let mut members = self.members.iter();
        members
            .find(|(_, member)| member.owner == owner)
            .map(|(key, _)| key)
    }

    fn snapshot(&self) -> Value {
        let members = self.members.iter().map(|(_, member)| {
            json!({"connId": member.conn, "userId": member.user.to_string(), "state": member.state,
                "lastSeenMs": member.last_seen_ms, "epoch": member.epoch})
        });
        members.collect()
    }
}

struct World {
    server: Server,
    peers: [Option<Peer>; CLIENTS],
    rooms: BTreeMap<usize, Room>,
    /// The tokens of each client, over all of its connections.
    tokens: [Vec<String>; CLIENTS],
    /// The epochs that the clients know.
    epochs: [u64; CLIENTS],
    connections: u64,
    entered: u64,
}

impl World {
    fn new() -> Self {
        Self {
            server: Server::new(settings()),
            peers: [const { None }; CLIENTS],
            rooms: BTreeMap::new(),
            tokens: [const { Vec::new() }; CLIENTS],
            epochs: [0; CLIENTS],
            connections: 0,
            entered: 0,
        }
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Connect(client) if self.peers[client].is_none() => {
                self.connections += 1;
                self.peers[client] = Some(Peer {
                    client: Client::new(&format!("c{}", self.connections)),
                    membership: Membership::Outside,
                    expected: Vec::new(),
                });
            }
            Join(client, room, user, number, token) => {
                self.join(client, room, user, number, token)?;
            }
            Heartbeat(client, epoch, number) => self.heartbeat(client, epoch, number)?,
            Leave(client) => {
                let expected = json!({"ok": true});
                if let Some(answer) = self.request(client, "leave", &Value::Null) {
                    equal("the answer to a leave", &answer, &expected)?;
                    self.end_membership(client, "leave", 0);
                }
            }
            Close(client) => self.disconnect(client, false)?,
            Break(client) => self.disconnect(client, true)?,
            Pass(ms) => self.server.pass(ms),
            Expire => {
                self.server.presence.remove_expired(self.server.now);
                for room in 0..ROOMS {
                    self.expire(room);
                }
            }
            Connect(_) => {}
        }
        self.check()
    }

    fn request(&self, client: usize, name: &str, argument: &Value) -> Option<Value> {
        let peer = self.peers[client].as_ref()?;
        Some(self.server.request(&peer.client, name, argument))
    }

    /// Compares the events that the clients have got, and the number of rooms.
    fn check(&mut self) -> Result<(), String> {
        self.close_empty_rooms();
        for peer in self.peers.iter_mut().flatten() {
            let events = Value::Array(peer.client.events());
            equal("events", &events, &mem::take(&mut peer.expected).into())?;
        }
        equal(
            "rooms",
            &json!(self.server.presence.rooms.len()),
            &json!(self.rooms.len()),
        )
    }

    fn join(
        &mut self,
        client: usize,
        room: usize,
        user: usize,
        number: Option<u64>,
        token: Resume,
    ) -> Result<(), String> {
        let token = match token {
            Resume::None => None,
            Resume::Last => self.tokens[client].last().cloned(),
            Resume::First => self.tokens[client].first().cloned(),
            Resume::Foreign => self.tokens[(client + 1) % CLIENTS].last().cloned(),
            Resume::Invented => Some("0".repeat(32)),
        };
        let state = number.map(state);
        let mut request = json!({"roomId": room.to_string(), "userId": user.to_string()});
        if let Some(state) = &state {
            request["state"] = json!(state);
        }
        if let Some(token) = &token {
            request["resume"] = json!(token);
        }
        let Some(mut answer) = self.request(client, "join", &request) else {
            return Ok(());
        };
        let entered = self.enter(client, room, user, state.as_ref(), token.as_ref());
        let (key, is_resumed) = match entered {
            Ok(entered) => entered,
            Err(code) => return equal("the code of a join", &answer["code"], &json!(code)),
        };
        let conns = answer["snapshot"].as_array().into_iter().flatten();
        let mut seen = HashSet::new();
        if let Some(twice) = conns
            .map(|member| &member["connId"])
            .find(|conn| !seen.insert(*conn))
        {
            return Err(format!("duplicate connection in a snapshot: {twice}"));
        }
        let token = answer["resume"].take();
        let token = token.as_str().ok_or("missing: a token")?.to_owned();
        let is_known = self.tokens.iter().flatten().any(|known| *known == token);
        let room = self.rooms.get_mut(&room).expect("it was entered");
        let member = &mut room.members[key];
        if is_known && (is_resumed || member.token != token) {
            return Err("reused: a token".to_owned());
        }
        member.token.clone_from(&token);
        self.epochs[client] = member.epoch;
        let mut expected = json!({"ok": true, "self": {"connId": member.conn, "epoch": member.epoch},
            "seq": room.seq, "resume": null, "snapshot": room.snapshot()});
        if is_resumed {
            expected["resumed"] = json!(true);
        }
        self.tokens[client].push(token);
        equal("the answer to a join", &answer, &expected)
    }

    /// Enters a room in the model. Returns the key of the member and true if that was resumed, or the code of the
    /// refusal.
    fn enter(
        &mut self,
        client: usize,
        room: usize,
        user: usize,
        state: Option<&Map<String, Value>>,
        token: Option<&String>,
    ) -> Result<(usize, bool), &'static str> {
        if state.is_some_and(is_too_large) {
            return Err("state_too_large");
        }
        let now = self.server.now;
        let peer = self.peers[client].as_ref().expect("it has asked");
        let (conn, membership) = (peer.client.conn.clone(), peer.membership);
        if let Membership::Joined(joined, opened) = membership
            && self
                .rooms
                .get(&joined)
                .is_some_and(|room| room.opened == opened)
        {
            self.expire(joined);
            if let Some(key) = self.rooms[&joined].key_of(&conn) {
                if joined != room {
                    return Err("already_joined");
                }
                self.rejoin(room, key, user, state);
                return Ok((key, false));
            }
            self.close_empty_rooms();
        }
        if self.rooms.len() >= settings().max_rooms && !self.rooms.contains_key(&room) {
            return Err("too_many_rooms");
        }
        self.expire(room);
        let users: usize = self.rooms.values().map(|room| room.members.len()).sum();
        let opened = self.entered;
        let found = self.rooms.entry(room).or_insert_with(|| Room {
            opened,
            ..Room::default()
        });
        let (members, opened) = (&mut found.members, found.opened);
        let is_token = |member: &Member| token == Some(&member.token);
        let kept = (members.iter_mut()).find(|(_, member)| is_token(member) && member.user == user);
        let key = if let Some((key, member)) = kept {
            member.owner = conn;
            member.client = Some(client);
            member.epoch += 1;
            member.last_seen_ms = now;
            member.kept_until_ms = u64::MAX;
            let is_changed = state.is_some_and(|state| *state != member.state);
            if is_changed {
                member.state = state.cloned().unwrap_or_default();
                self.publish(room, key, "update");
            }
            (key, true)
        } else if let Some((key, member)) = members.iter_mut().find(|(_, it)| it.conn == conn) {
            member.owner = conn;
            member.client = Some(client);
            member.kept_until_ms = u64::MAX;
            self.rejoin(room, key, user, state);
            (key, false)
        } else {
            let (count, limits) = (members.len(), settings());
            if count >= limits.max_room_members || users >= limits.max_users {
                let is_full = count >= limits.max_room_members;
                return Err(if is_full {
                    "room_full"
                } else {
                    "too_many_users"
                });
            }
            let key = members.insert(Member {
                owner: conn.clone(),
                conn,
                client: Some(client),
                user,
                state: state.cloned().unwrap_or_default(),
                last_seen_ms: now,
                epoch: now,
                token: String::new(),
                kept_until_ms: u64::MAX,
            });
            self.entered += 1;
            self.publish(room, key, "join");
            (key, false)
        };
        self.set_membership(client, Membership::Joined(room, opened));
        Ok(key)
    }

    fn rejoin(&mut self, room: usize, key: usize, user: usize, state: Option<&Map<String, Value>>) {
        let member = &mut self.rooms.get_mut(&room).expect("it has members").members[key];
        member.user = user;
        member.state = state.cloned().unwrap_or_default();
        member.epoch = self.server.now.max(member.epoch + 1);
        member.last_seen_ms = self.server.now;
        self.publish(room, key, "join");
    }

    fn heartbeat(
        &mut self,
        client: usize,
        epoch: Option<u64>,
        number: Option<u64>,
    ) -> Result<(), String> {
        let epoch = epoch.map(|more| self.epochs[client] + more);
        let mut request = json!({"patchState": number.map(state).unwrap_or_default()});
        if let Some(epoch) = epoch {
            request["epoch"] = json!(epoch);
        }
        let Some(answer) = self.request(client, "heartbeat", &request) else {
            return Ok(());
        };
        match self.beat(client, epoch, number) {
            Ok(expected) => equal("the answer to a heartbeat", &answer, &expected),
            Err(code) => equal("the code of a heartbeat", &answer["code"], &json!(code)),
        }
    }

    /// Handles a heartbeat in the model. Returns the answer, or the code of the refusal.
    fn beat(
        &mut self,
        client: usize,
        epoch: Option<u64>,
        number: Option<u64>,
    ) -> Result<Value, &'static str> {
        let now = self.server.now;
        let Some((room, key)) = self.member_of(client) else {
            let membership = self.peers[client].as_ref().map(|peer| peer.membership);
            if membership == Some(Membership::Outside) {
                return Err("not_joined");
            }
            self.set_membership(client, Membership::Expired);
            return Err("expired");
        };
        let member = &mut self.rooms.get_mut(&room).expect("it has members").members[key];
        if now >= member.last_seen_ms + TTL_MS {
            self.remove(room, key, "expired");
            self.set_membership(client, Membership::Expired);
            return Err("expired");
        }
        if epoch.is_some_and(|epoch| epoch != member.epoch) {
            return Err("stale_epoch");
        }
        let mut merged = member.state.clone();
        merged.extend(number.map(state).unwrap_or_default());
        let is_changed = merged != member.state;
        if is_changed && is_too_large(&merged) {
            return Err("state_too_large");
        }
        member.state = merged;
        member.last_seen_ms = now;
        let answer = json!({"ok": true, "changed": is_changed, "epoch": member.epoch});
        if is_changed {
            self.publish(room, key, "update");
        }
        Ok(answer)
    }

    fn disconnect(&mut self, client: usize, is_broken: bool) -> Result<(), String> {
        // It has read all that came before.
        self.check()?;
        if let Some(peer) = &self.peers[client] {
            let (presence, now) = (&self.server.presence, self.server.now);
            presence.disconnect(&peer.client.session, is_broken, now);
            let grace_ms = if is_broken { GRACE_MS } else { 0 };
            self.end_membership(client, "disconnect", grace_ms);
            let peer = self.peers[client].take();
            equal(
                "events",
                &json!(peer.map(|peer| peer.client.events())),
                &json!([]),
            )?;
        }
        Ok(())
    }

    /// Ends the membership of a client in the model, or keeps it for a time.
    fn end_membership(&mut self, client: usize, reason: &str, grace_ms: u64) {
        if let Some((room, key)) = self.member_of(client) {
            let member = &mut self.rooms.get_mut(&room).expect("it has members").members[key];
            if grace_ms == 0 {
                self.remove(room, key, reason);
            } else {
                member.client = None;
                member.owner = String::new();
                member.kept_until_ms = self.server.now + grace_ms;
            }
        }
        self.set_membership(client, Membership::Outside);
    }

    fn member_of(&self, client: usize) -> Option<(usize, usize)> {
        let peer = self.peers[client].as_ref()?;
        match peer.membership {
            Membership::Joined(room, _) => {
                let key = self.rooms.get(&room)?.key_of(&peer.client.conn)?;
                Some((room, key))
            }
            _ => None,
        }
    }

    fn set_membership(&mut self, client: usize, membership: Membership) {
        if let Some(peer) = &mut self.peers[client] {
            peer.membership = membership;
        }
    }

    /// Removes the members of a room that are past their time in the model.
    fn expire(&mut self, room: usize) {
        let now = self.server.now;
        for key in 0..CLIENTS {
            let member = self.rooms.get(&room).and_then(|room| room.members.get(key));
            match member {
                Some(member) if now >= member.last_seen_ms + TTL_MS => {
                    self.remove(room, key, "expired");
                }
                Some(member) if now >= member.kept_until_ms => {
                    self.remove(room, key, "disconnect");
                }
                _ => {}
            }
        }
    }

    /// Removes a member in the model.
    fn remove(&mut self, room: usize, key: usize, reason: &str) {
        let found = self.rooms.get_mut(&room).expect("it has members");
        let member = found.members.remove(key);
        let mut event = event("leave", room, &member, self.server.now);
        event["state"] = Value::Null;
        event["reason"] = json!(reason);
        self.send(room, event);
    }

    fn close_empty_rooms(&mut self) {
        self.rooms.retain(|_, room| !room.members.is_empty());
    }

    /// Publishes an event about a member in the model.
    fn publish(&mut self, room: usize, key: usize, kind: &str) {
        let member = &self.rooms[&room].members[key];
        let event = event(kind, room, member, self.server.now);
        self.send(room, event);
    }

    fn send(&mut self, room: usize, mut event: Value) {
        let room = self.rooms.get_mut(&room).expect("it has members");
        room.seq += 1;
        event["seq"] = json!(room.seq);
        for (_, member) in &room.members {
            if let Some(peer) = member.client.and_then(|client| self.peers[client].as_mut()) {
                peer.expected.push(event.clone());
            }
        }
    }

    /// Lets everybody leave, and all time pass. Nothing may stay.
    fn end(&mut self) -> Result<(), String> {
        for client in 0..CLIENTS {
            self.step(Break(client))?;
        }
        self.step(Pass(TTL_MS))?;
        self.step(Expire)?;
        for name in ["presence_rooms", "presence_members"] {
            equal(name, &json!(self.server.metric(name)), &json!(0))?;
        }
        let left = self.server.metric("presence_leaves_total");
        equal("leaves", &json!(left), &json!(self.entered))
    }
}

fn event(kind: &str, room: usize, member: &Member, ts: u64) -> Value {
    json!({"type": kind, "roomId": room.to_string(), "userId": member.user.to_string(),
        "connId": member.conn, "state": member.state, "ts": ts, "epoch": member.epoch})
}

fn is_too_large(state: &Map<String, Value>) -> bool {
    json!(state).to_string().len() > settings().max_state_bytes
}

fn equal(name: &str, actual: &Value, expected: &Value) -> Result<(), String> {
    if actual == expected {
        return Ok(());
    }
    Err(format!("{name}: {actual}, expected {expected}"))
}

/// Runs a world. Returns the number of its connections, or what went wrong.
fn run(steps: &[Step]) -> Result<u64, String> {
    let mut world = World::new();
    for step in steps {
        world.step(*step)?;
    }
    world.end()?;
    Ok(world.connections)
}

#[test]
fn users_get_the_answers_and_events_of_the_model_and_leave_nothing_behind() {
    let steps = |seed| {
        let mut random = StdRng::seed_from_u64(seed);
        (0..STEPS).map(|_| draw(&mut random)).collect()
    };
    let sessions = simulate(WORLDS, steps, run);
    assert!(sessions > scaled(WORLDS), "{sessions} sessions");
}

#[test]
fn a_connection_whose_membership_was_resumed_elsewhere_takes_it_back_with_a_join() {
    // Its id was in the room twice.
    run(&[
        Connect(1),
        Join(1, 1, 0, None, Resume::None),
        Connect(0),
        Join(0, 1, 0, None, Resume::Foreign),
        Join(1, 1, 1, Some(2), Resume::Last),
        Heartbeat(0, None, Some(1)),
        Heartbeat(1, None, Some(1)),
    ])
    .unwrap();
}
