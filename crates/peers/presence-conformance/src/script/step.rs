//! The steps of a script.
//!
//! Requests of a client, which connects to `/` over a WebSocket unless a step before has opened its session:
//! - `alice join {…} -> {…}` sends `presence:join` and asserts that the answer has `ok` and these fields; `== {…}`
//!   asserts the whole answer, and `refused CODE WORD` a refusal whose text has this word. The request names `$room` and
//!   the client's own name, unless it has other fields; `"$absent"` removes a field. `bob@2` is a client of the other
//!   node. `beat {…}` is a heartbeat, `patch {…}` one that changes the state, and `leave` a leave.
//! - `alice sees leave bob disconnect -> {…}` takes the next event: type, client, and reason if there is one. If it is
//!   about another client, the client's own events are skipped. `alice sees nothing` asserts that there is none.
//! - `renews` begins to send heartbeats from time to time.
//!
//! Sessions and packets:
//! - `a websocket -> {…}` and `a polling -> {…}` open a session and assert the handshake, `connect` connects it to `/`.
//!   `upgrades` upgrades it, and `b probes a` opens a WebSocket for it.
//! - `a > PACKET` sends a packet, with `␞` between several of polling. `a < PACKET` takes the next one, apart from
//!   pings, and from events before an acknowledgement; `==` compares the whole. There are `binary:…`, `pong:…` and
//!   `end CODE` too. `receives` takes pings too.
//! - `frames` sends [`frames`], `closes CODE` a close frame. `lives` asserts that a ping is answered, `ends CODES` that
//!   the session ends, and `ends or answers` that it does or goes on.
//! - `disconnects`, `resets` and `drops` end the connection without a close frame.
//! - `polls` begins a GET, `polled -> STATUS` waits for its response, `cancels` does not. `posts BODY -> STATUS`.
//!
//! HTTP requests without a client: `GET QUERY -> STATUS`, in which `polling` and `websocket` stand for the query of a
//! transport; `with NAME: VALUE` sets a header. `body` (of a 200), `header`, `allows` and `denies` (the page of
//! the `Origin`) assert something about the last response. `refused QUERY -> STATUS` is a WebSocket. `path` sets the path of all.
//!
//! Steps can be joined with ` then `. `times 3 STEPS` repeats them, and counts in `$n`; `soon STEPS` repeats them until
//! they pass. `wait` waits, and `took LEAST MOST` compares the time since the beginning, in ms. `calls` calls a function.
//!
//! Variables and patterns are described in [`crate::pattern`]. `$room` and `$room2` to `$room4` are new rooms, `$now` is
//! the time in ms, and `$alice` the connection id of a client.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use serde_json::{Value, json};

use crate::cases::call;
use crate::expect::{seq, text};
use crate::handshake::query;
use crate::http::{self, Pending, Response};
use crate::member::{Member, is_event};
use crate::pattern::{Variables, bytes, fill, fits, packet_fits};
use crate::polling::Polling;
use crate::server::{LIMIT, Server, Stopwatch};
use crate::transport::Transport;
use crate::websocket::{Repeater, WebSocket, frames};

/// A case that is running.
pub(super) struct Run {
    server: Server,
    clients: BTreeMap<String, Member>,
    variables: Variables,
    /// The seq of the last join of each client.
    joined: BTreeMap<String, u64>,
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
            joined: BTreeMap::new(),
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
            "times" => self.times(rest),
            _ if line.contains(" then ") => {
                line.split(" then ").try_for_each(|step| self.step(step))
            }
            "wait" => {
                sleep(Duration::from_millis(rest.parse()?));
                Ok(())
            }
            "took" => self.took(rest),
            "calls" => call(rest, &self.server),
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

    /// Asserts the least and the most milliseconds that the case has taken.
    fn took(&self, limits: &str) -> anyhow::Result<()> {
        let (least, most) = word(limits);
        let ms = self.began.elapsed().as_millis();
        let is_early = ms < least.parse()?;
        let is_late = !most.is_empty() && ms > most.parse()?;
        ensure!(!is_early && !is_late, "{ms} ms after the beginning");
        Ok(())
    }

    /// Repeats steps. `$n` counts the repetitions.
    fn times(&mut self, rest: &str) -> anyhow::Result<()> {
        let (count, line) = word(rest);
        (0..count.parse()?).try_for_each(|number: u32| {
            self.variables.insert("n".to_owned(), number.into());
            self.step(line)
        })
    }

    /// Repeats steps until all of them pass. An attempt that fails leaves no client and no variable behind.
    /// `$attempt` counts them.
    fn soon(&mut self, line: &str) -> anyhow::Result<()> {
        let began = Stopwatch::new();
        let variables = self.variables.clone();
        let names: Vec<String> = self.clients.keys().cloned().collect();
        let mut attempt = 0;
        loop {
            self.variables.insert("attempt".to_owned(), attempt.into());
            match self.step(line) {
                Err(_) if began.elapsed() < LIMIT => {
                    self.clients.retain(|name, _| names.contains(name));
                    self.variables.clone_from(&variables);
                    attempt += 1;
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
        let (headers, body) = (&self.headers, body.as_bytes());
        let request = http::request(&self.server, method, &target, headers, body)?;
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
            "body" if response.status != 200 => Ok(()),
            "body" => packet_fits(rest, response.text()?, false, &mut self.variables),
            "header" => {
                let (name, word) = split(rest, ": ");
                let value = response.header(name).context("no such header")?;
                let mut words = value.split(',');
                let is_there = words.any(|it| word == "?" || it.trim().eq_ignore_ascii_case(word));
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
    fn open(&mut self, name: &str, session: Box<dyn Transport>, rest: &str) -> anyhow::Result<()> {
        let pattern = json(split(rest, "-> ").1)?;
        if !pattern.is_null() {
            fits(&pattern, session.handshake(), false, &mut self.variables)?;
        }
        self.clients.insert(name.to_owned(), Member::over(session));
        Ok(())
    }

    fn act(&mut self, name: &str, verb: &str, rest: &str) -> anyhow::Result<()> {
        let name = fill(name, &self.variables);
        let (name, node) = split(&name, "@");
        let server = match node {
            "" => self.server.clone(),
            _ => self.server.nodes()?[1].clone(),
        };
        let is_new = !self.clients.contains_key(name);
        match verb {
            "polling" => return self.open(name, Box::new(Polling::open(&server)?), rest),
            "probes" => {
                let probe = self.client(rest).polling()?.probe()?;
                return self.open(name, Box::new(probe), "");
            }
            "websocket" => return self.open(name, Box::new(WebSocket::session(&server)?), rest),
            _ if is_new => self.open(name, Box::new(WebSocket::session(&server)?), "")?,
            _ => {}
        }
        let member = self
            .clients
            .get_mut(name)
            .expect("it is there or was added");
        let is_request = matches!(verb, "join" | "beat" | "patch" | "leave" | "connect");
        if is_new || (is_request && member.id().is_empty()) {
            member.connect()?;
            self.variables.insert(name.to_owned(), member.id().into());
        }
        let rest = &*fill(rest, &self.variables);
        match verb {
            "connect" => Ok(()),
            "join" | "beat" | "patch" | "leave" => self.call(name, verb, rest),
            "sees" => self.sees(name, rest),
            "<" | "==" | "receives" => {
                let packet = match verb {
                    "receives" => member.transport.receive()?.to_string(),
                    _ => member.take(is_event(rest))?,
                };
                packet_fits(rest, &packet, verb == "==", &mut self.variables)
            }
            "polls" => {
                self.poll = Some(member.polling()?.poll()?);
                Ok(())
            }
            "cancels" => {
                self.poll = None;
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
            "renews" => {
                self.renewals.push(member.renew()?);
                Ok(())
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
        if let ("join", Ok(seq)) = (verb, seq(&answer)) {
            self.joined.insert(name.to_owned(), seq);
        }
        let ("refused", reason) = word(answered) else {
            return self.fits(usual, answered, &answer);
        };
        let (code, part) = word(reason);
        let refusal = json!({"ok": false, "code": code, "error": "?!="});
        fits(&refusal, &answer, false, &mut self.variables)?;
        let is_named = text(&answer, "/error")?.contains(part);
        ensure!(is_named, "the error does not name {part}: {answer}");
        Ok(())
    }

    /// Takes the next event, and asserts what it is.
    fn sees(&mut self, name: &str, rest: &str) -> anyhow::Result<()> {
        if rest == "nothing" {
            return self.client(name).sees_nothing();
        }
        let (event, answered) = split_answer(rest);
        let (kind, about) = word(event.trim_end());
        let (about, reason) = word(about);
        let event = loop {
            let member = self.client(name);
            let event = if about == name {
                member.event()?
            } else {
                member.event_of_other()?
            };
            // An event of the other node may arrive after a snapshot that includes it.
            let joined = self.joined.get(name).copied();
            if self.server.nodes().is_err() || seq(&event).ok() >= joined {
                break event;
            }
        };
        let id = self.variables.get(about).context("no such client")?;
        let mut usual = json!({"type": kind, "connId": id});
        if !reason.is_empty() {
            usual["reason"] = reason.into();
        }
        self.fits(usual, answered, &event)
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
}

/// Performs a step that needs nothing but its client.
fn act_alone(member: &mut Member, verb: &str, rest: &str) -> anyhow::Result<()> {
    match (verb, rest) {
        (">", packet) => match packet.strip_prefix("binary:") {
            Some(payload) => member.transport.send_binary(&bytes(payload)?),
            None => {
                let packets = String::from_utf8(bytes(packet)?)?;
                member.transport.send(&packets)
            }
        },
        ("frames", frame) => member.websocket()?.send_raw(&frames(frame)?),
        ("closes", code) => {
            let [high, low] = code.parse::<u16>()?.to_be_bytes();
            let close = frames(&format!("fin+close:\\x{high:02x}\\x{low:02x}"))?;
            member.websocket()?.send_raw(&close)
        }
        ("lives", "") => member.websocket()?.is_alive(),
        ("upgrades", "") => {
            let upgraded = member.polling()?.clone().upgrade()?;
            member.transport = Box::new(upgraded);
            Ok(())
        }
        ("ends", "or answers") => member.ends_or_answers(),
        ("ends", codes) => member.transport.ends(&numbers(codes)?),
        _ => bail!("the step `{verb} {rest}` is unknown"),
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
