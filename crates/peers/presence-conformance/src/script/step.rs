//! The steps of a script.
//!
//! Steps of a client, which connects to `/` over a WebSocket unless another step has opened it before:
//! - `alice join {…} -> {…}` sends `presence:join` and asserts that the answer has `ok` and these fields; `== {…}`
//!   asserts the whole answer, and `refused CODE WORD` a refusal whose text has this word. The request names `$room` and
//!   the client's own name, unless it has other fields; `"$absent"` removes a field. `beat`, `patch` (a heartbeat that
//!   changes the state) and `leave` are likewise. `bob@2` is a client of the other node.
//! - `alice sees leave bob disconnect -> {…}` takes the next event, its own ones aside if it is about another client.
//!   `alice sees nothing` asserts that there is none.
//! - `a websocket -> {…}` and `a polling -> {…}` open a session and assert the handshake, `a connect` connects it to `/`.
//! - `a > PACKET` sends a packet, with `␞` between several of polling. `a < PACKET` takes the next one, events before an
//!   acknowledgement aside. There are `binary:…`, `pong:…` and `end CODE` too.
//!
//! Steps without a client are HTTP requests, in which `polling` and `websocket` stand for the query of a transport, and
//! `soon STEP`, which repeats a step until it passes. Variables are described in [`crate::pattern`]. `$room` and
//! `$room2` to `$room4` are new rooms, `$now` is the time in ms, and `$alice` the connection id of a client.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use crate::expect::{expect_refused, text};
use crate::handshake::query;
use crate::http::{self, Pending, Response};
use crate::member::Member;
use crate::packet::Packet;
use crate::pattern::{Variables, bytes, fill, fits, packet_fits};
use crate::polling::Polling;
use crate::server::{LIMIT, Server, Stopwatch};
use crate::socket::Socket;
use crate::transport::Transport;
use crate::websocket::{Repeater, WebSocket, frames};

/// The interval of heartbeats that renew a lease of 2 s.
const RENEWAL: Duration = Duration::from_millis(400);

/// A case that is running.
pub(super) struct Run {
    server: Server,
    clients: BTreeMap<String, Member>,
    variables: Variables,
    /// The headers of requests.
    headers: BTreeMap<String, String>,
    /// The heartbeats of clients that renew their lease.
    renewals: Vec<Repeater>,
    began: Stopwatch,
    /// The open GET of a client.
    poll: Option<Pending>,
    /// The last response.
    response: Option<Response>,
}

impl Run {
    pub(super) fn new(server: &Server) -> Self {
        let rooms = ["room", "room2", "room3", "room4"];
        let rooms = rooms.map(|name| (name.to_owned(), server.name("room").into()));
        let mut variables = Variables::from(rooms);
        let now = load::clock::unix_ns() / 1_000_000;
        variables.insert("now".to_owned(), now.into());
        Self {
            server: server.clone(),
            clients: BTreeMap::new(),
            variables,
            renewals: Vec::new(),
            began: Stopwatch::new(),
            headers: BTreeMap::new(),
            poll: None,
            response: None,
        }
    }

    pub(super) fn step(&mut self, line: &str) -> anyhow::Result<()> {
        let (first, rest) = word(line);
        let filled = fill(rest, &self.variables);
        match first {
            "soon" => self.soon(rest),
            "wait" => {
                sleep(Duration::from_millis(rest.parse()?));
                Ok(())
            }
            "took" => self.took(rest),
            "path" => {
                self.server = self.server.with_path(rest);
                Ok(())
            }
            "with" => {
                let (name, value) = split(rest, ": ");
                self.headers.insert(name.to_owned(), value.to_owned());
                Ok(())
            }
            "refused" => {
                let (target, statuses) = split(&filled, " -> ");
                let target = self.server.target(&query(target));
                WebSocket::is_refused(&self.server, &target, &numbers(statuses)?)
            }
            "GET" | "POST" | "PUT" | "DELETE" | "OPTIONS" => self.request(first, &filled),
            "body" | "header" | "allows" | "denies" => self.has(first, &filled),
            client => {
                let (verb, rest) = word(rest);
                self.act(client, verb, rest)
            }
        }
    }

    /// Asserts that the case has taken at least and at most so many milliseconds.
    fn took(&self, limits: &str) -> anyhow::Result<()> {
        let (least, most) = word(limits);
        let ms = self.began.elapsed().as_millis();
        ensure!(ms >= least.parse()?, "{ms} ms after the beginning");
        ensure!(
            most.is_empty() || ms <= most.parse()?,
            "{ms} ms after the beginning"
        );
        Ok(())
    }

    /// Repeats a step until it passes. An attempt that fails leaves no client and no variable behind.
    fn soon(&mut self, line: &str) -> anyhow::Result<()> {
        let began = Stopwatch::new();
        let variables = self.variables.clone();
        let names: Vec<String> = self.clients.keys().cloned().collect();
        loop {
            match self.step(line) {
                Err(_) if began.elapsed() < LIMIT => {
                    self.clients.retain(|name, _| names.contains(name));
                    self.variables.clone_from(&variables);
                    sleep(Duration::from_millis(10));
                }
                outcome => return outcome,
            }
        }
    }

    fn request(&mut self, method: &str, rest: &str) -> anyhow::Result<()> {
        let (request, statuses) = split(rest, " -> ");
        let (target, body) = word(request);
        let target = self.server.target(&query(target));
        let headers = self.headers.iter();
        let headers: Vec<(&str, &str)> = headers.map(|(name, value)| (&**name, &**value)).collect();
        let request = http::request_with(&self.server, method, &target, &headers, body.as_bytes())?;
        self.answered(request.response()?, statuses)
    }

    fn answered(&mut self, response: Response, statuses: &str) -> anyhow::Result<()> {
        if !statuses.is_empty() {
            response.has_status(&numbers(statuses)?)?;
        }
        self.response = Some(response);
        Ok(())
    }

    /// Asserts something about the last response.
    fn has(&mut self, what: &str, rest: &str) -> anyhow::Result<()> {
        let response = self.response.as_ref().context("there was no request")?;
        match what {
            "body" => packet_fits(rest, response.text()?, &mut self.variables),
            "header" => {
                let (name, word) = split(rest, ": ");
                let value = response.header(name).unwrap_or_default();
                let mut words = value.split(',');
                let is_there = words.any(|found| found.trim().eq_ignore_ascii_case(word));
                ensure!(is_there, "{name} is {value:?}, without {word}");
                Ok(())
            }
            _ => {
                let origin = self.headers.get("Origin").map(String::as_str);
                let allowed = response.header("access-control-allow-origin");
                let is_allowed = allowed == Some("*") || allowed == origin;
                let is_right = is_allowed == (what == "allows");
                ensure!(is_right, "Access-Control-Allow-Origin is {allowed:?}");
                Ok(())
            }
        }
    }

    /// Adds a client of this session, whose handshake fits a pattern.
    fn open(
        &mut self,
        name: &str,
        session: impl Transport + 'static,
        rest: &str,
    ) -> anyhow::Result<()> {
        let pattern = json(split(rest, "-> ").1)?;
        fits(
            &merged(json!({}), pattern),
            session.handshake(),
            false,
            &mut self.variables,
        )?;
        let member = Member::over(Socket::over(session));
        self.clients.insert(name.to_owned(), member);
        Ok(())
    }

    fn act(&mut self, name: &str, verb: &str, rest: &str) -> anyhow::Result<()> {
        let (name, node) = name.split_once('@').unwrap_or((name, ""));
        let server = match node {
            "" => self.server.clone(),
            _ => self.server.nodes()?[1].clone(),
        };
        match verb {
            "websocket" => return self.open(name, WebSocket::session(&server)?, rest),
            "polling" => return self.open(name, Polling::open(&server)?, rest),
            "probes" => {
                let polling = self.clients.get_mut(rest).context("no such client")?;
                let probe = polling.polling()?.probe()?;
                self.clients
                    .insert(name.to_owned(), Member::over(Socket::over(probe)));
                return Ok(());
            }
            _ => {}
        }
        let is_new = !self.clients.contains_key(name);
        if is_new {
            self.open(name, WebSocket::session(&server)?, "")?;
        }
        let member = self
            .clients
            .get_mut(name)
            .expect("it is there or was added");
        if is_new || verb == "connect" {
            member.socket.connect()?;
            self.variables.insert(name.to_owned(), member.id().into());
        }
        let rest = &*fill(rest, &self.variables);
        match verb {
            "connect" => Ok(()),
            "join" | "beat" | "patch" | "leave" => self.call(name, verb, rest),
            "sees" => self.sees(name, rest),
            "<" => self.takes(name, rest),
            "receives" => {
                let packet = member.socket.transport.receive()?.to_string();
                packet_fits(rest, &packet, &mut self.variables)
            }
            "renews" => {
                let heartbeat = "42[\"presence:heartbeat\",null]";
                let renewal = member.websocket()?.repeat(heartbeat, RENEWAL)?;
                self.renewals.push(renewal);
                Ok(())
            }
            "polls" => {
                self.poll = Some(member.polling()?.poll()?);
                Ok(())
            }
            "polled" => {
                let response = self.poll.take().context("no open GET")?.response()?;
                self.answered(response, split(rest, "-> ").1)
            }
            "posts" => {
                let (payload, statuses) = split(rest, "-> ");
                let response = member.polling()?.post(&bytes(payload.trim_end())?)?;
                self.answered(response, statuses)
            }
            "drops" | "disconnects" | "resets" => {
                let mut member = self.clients.remove(name).expect("it is there");
                match verb {
                    "drops" => Ok(()),
                    "resets" => member.websocket()?.reset(),
                    _ => member.websocket()?.disconnect(),
                }
            }
            _ => act_alone(member, verb, rest),
        }
    }

    /// Sends a request, and asserts its answer.
    fn call(&mut self, name: &str, verb: &str, rest: &str) -> anyhow::Result<()> {
        let (argument, answered) = split_answer(rest);
        let argument = json(argument)?;
        let (event, argument, usual) = match verb {
            "join" => {
                let usual = json!({"roomId": self.variables["room"], "userId": name});
                let mut argument = merged(usual, argument);
                if let Value::Object(fields) = &mut argument {
                    fields.retain(|_, value| *value != "$absent");
                }
                ("presence:join", argument, json!({"ok": true}))
            }
            "patch" => {
                let usual = json!({"ok": true, "changed": true});
                ("presence:heartbeat", json!({"patchState": argument}), usual)
            }
            "beat" => ("presence:heartbeat", argument, json!({"ok": true})),
            _ => ("presence:leave", argument, json!({"ok": true})),
        };
        let answer = self.client(name).call(event, &argument)?;
        if let ("refused", reason) = word(answered) {
            let (code, part) = word(reason);
            expect_refused(&answer, code)?;
            let error = text(&answer, "/error")?;
            ensure!(
                error.contains(part),
                "the error {error:?} does not name {part}"
            );
            return Ok(());
        }
        self.fits(usual, answered, &answer)
    }

    /// Takes the next event, and asserts what it is.
    fn sees(&mut self, name: &str, rest: &str) -> anyhow::Result<()> {
        let member = self.client(name);
        if rest == "nothing" {
            return member.sees_nothing();
        }
        let (event, answered) = split_answer(rest);
        let (kind, about) = word(event.trim_end());
        let (about, reason) = word(about);
        let event = match about == name {
            true => member.event()?,
            false => member.event_of_other()?,
        };
        let id = self.variables.get(about).context("no such client")?;
        let mut usual = json!({"type": kind, "connId": id});
        if !reason.is_empty() {
            usual["reason"] = reason.into();
        }
        self.fits(usual, answered, &event.0)
    }

    /// Asserts that a value is as a step expects, after `==` or `->`; in the latter case with the usual fields.
    fn fits(&mut self, usual: Value, expected: &str, value: &Value) -> anyhow::Result<()> {
        let (how, pattern) = word(expected);
        let pattern = json(pattern)?;
        match how {
            "==" => fits(&pattern, value, true, &mut self.variables),
            _ => fits(&merged(usual, pattern), value, false, &mut self.variables),
        }
    }

    fn client(&mut self, name: &str) -> &mut Member {
        self.clients.get_mut(name).expect("a step opens its client")
    }

    /// Takes the next packet. Events before another packet are kept.
    fn takes(&mut self, name: &str, pattern: &str) -> anyhow::Result<()> {
        let is_event = |packet: &str| packet.starts_with("42") || packet.starts_with("45");
        loop {
            let socket = &mut self.client(name).socket;
            let packet = socket.transport.packet()?.to_string();
            if is_event(pattern) || !is_event(&packet) {
                return packet_fits(pattern, &packet, &mut self.variables);
            }
            socket.keep(Packet::parse(&packet[1..])?);
        }
    }
}

/// Performs a step that needs nothing but its client.
fn act_alone(member: &mut Member, verb: &str, rest: &str) -> anyhow::Result<()> {
    match (verb, rest) {
        (">", packet) => match packet.strip_prefix("binary:") {
            Some(payload) => member.socket.transport.send_binary(&bytes(payload)?),
            None => {
                let packets = String::from_utf8(bytes(packet)?)?;
                member.socket.transport.send(&packets)
            }
        },
        ("frames", frame) => member.websocket()?.send_raw(&frames(frame)?),
        ("closes", code) => member.websocket()?.send_close(code.parse()?),
        ("lives", "") => member.websocket()?.is_alive(),
        ("upgrades", "") => {
            let upgraded = member.polling()?.clone().upgrade()?;
            member.socket.transport = Box::new(upgraded);
            Ok(())
        }
        ("ends", "") => member.socket.ends(),
        ("ends", "or answers") => member.socket.ends_or_answers(),
        ("ends", codes) => member.websocket()?.ends_with(&numbers(codes)?),
        _ => bail!("there is no step {verb} {rest}"),
    }
}

/// Adds fields to an object, or takes them instead of its own. What is no object stands for itself.
fn merged(mut usual: Value, other: Value) -> Value {
    match (&mut usual, other) {
        (Value::Object(usual), Value::Object(other)) => usual.extend(other),
        (_, Value::Null) => {}
        (_, other) => return other,
    }
    usual
}

/// Splits a text at its first space.
fn word(text: &str) -> (&str, &str) {
    split(text, " ")
}

fn split<'a>(text: &'a str, separator: &str) -> (&'a str, &'a str) {
    text.split_once(separator).unwrap_or((text, ""))
}

/// Splits a request from its answer, which begins with `->`, `==` or `refused`.
fn split_answer(text: &str) -> (&str, &str) {
    let starts = ["-> ", "== ", "refused "].map(|start| text.find(start));
    text.split_at(starts.into_iter().flatten().min().unwrap_or(text.len()))
}

/// Parses JSON. No text is `null`.
fn json(text: &str) -> anyhow::Result<Value> {
    match text.trim() {
        "" => Ok(Value::Null),
        text => serde_json::from_str(text).with_context(|| format!("the JSON {text}")),
    }
}

fn numbers(text: &str) -> anyhow::Result<Vec<u16>> {
    let numbers = text.split_whitespace().map(str::parse);
    Ok(numbers.collect::<Result<_, _>>()?)
}
