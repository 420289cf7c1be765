//! The steps of scripts, on one channel.

use amq_protocol::protocol::{BasicProperties, basic, queue};
use amq_protocol::types::AMQPValue;
use anyhow::{Context as _, bail, ensure};
use harness::verify::conformance::expect_eq;

use super::channel::{Channel, PUBLISH, content_header};
use super::connection::Event;
use super::method::{Method as _, answer_ids, build, ids};
use super::wire::BODY;
use super::words::{Arguments, entry, expect_text, header, split, texts};

impl Channel<'_> {
    /// Performs steps. Beside methods these are the verbs:
    ///
    /// | verb | what it does |
    /// | --- | --- |
    /// | `queue Q` | Declares an exclusive queue with a name from the broker. |
    /// | `bound Q E a b` | Declares an exclusive queue and binds it with each of these keys. |
    /// | `publish E a b`, `send Q a b` | Publishes messages with these keys, which are their bodies too; with these bodies to a queue. |
    /// | `get Q a b` | Fetches messages, which must be ready by now and need acknowledgements. |
    /// | `fetched Q a b` | Does `queue`, `send` and `get`. |
    /// | `take Q a b` | Fetches messages without acknowledgements, and waits for them. |
    /// | `delivers a b` | Waits for deliveries. |
    /// | `seen key=value`, `death 0 …` | Asserts something of the last message; an entry of its x-death. |
    /// | `yields Q a b` | Fetches all messages of a queue: exactly these. |
    /// | `empty Q`, `holds Q 3 0` | Asserts that no message is ready; waits for numbers of messages and consumers. |
    /// | `loses Q` | Waits until a queue does not exist. |
    /// | `confirmed 3` | Waits for confirms of the messages up to this tag. |
    /// | `quiet` | Asserts that the broker sends nothing by itself. |
    /// | `pass 200` | Waits for these milliseconds by the broker's clock. |
    /// | `carries key=value` | Asserts that properties arrive as they were sent. |
    /// | `header 60 3`, `body x`, `frame 1 00ff` | Writes one frame: class and size, a body, any type and payload. |
    /// | `bytes 01 00ff` | Writes any bytes. |
    /// | `reopen`, `leave`, `hang-up` | Closes the channel and opens it again; closes the connection, the socket. |
    pub(super) fn run(&self, steps: &str) -> anyhow::Result<()> {
        let mut steps = steps.split("; ");
        steps.try_for_each(|step| self.step(step).with_context(|| format!("`{step}`")))
    }

    fn step(&self, step: &str) -> anyhow::Result<()> {
        let Some((request, outcome)) = step.split_once(" -> ") else {
            return self.perform(&split(step));
        };
        let words = split(request);
        let sent = self.send_words(words.strip_prefix(&[">"]).unwrap_or(&words))?;
        match outcome {
            "end" => self.connection.is_given_up(),
            code => self.is_closed(code.parse()?, sent),
        }
    }

    /// Sends what needs no answer, or a method without awaiting it. Returns the ids of a method.
    fn send_words(&self, words: &[&str]) -> anyhow::Result<Option<(u16, u16)>> {
        let (verb, rest) = words.split_first().context("a step needs a verb")?;
        let mut arguments = Arguments::new(self.scope(), rest);
        let mut next = || arguments.words.pop_front().unwrap_or_default();
        match *verb {
            "publish" | "send" => return self.publish_words(*verb == "send", arguments),
            "header" => {
                let (class, size) = (next().parse()?, next().parse()?);
                let frame = content_header(self.id, class, size, &BasicProperties::default());
                self.connection.wire.write(&frame)?;
            }
            "body" => self.send_raw(BODY, next().as_bytes())?,
            "frame" => {
                let (kind, payload) = (
                    next().parse()?,
                    arguments.words.drain(..).collect::<String>(),
                );
                self.send_raw(kind, &bytes(&payload)?)?;
            }
            "bytes" => {
                let all: String = arguments.words.drain(..).collect();
                self.connection.wire.write(&bytes(&all)?)?;
            }
            name => {
                let method = build(name, &mut arguments)?;
                arguments.finish()?;
                let ids = ids(&method);
                self.connection.send_class(self.id, method)?;
                return Ok(Some(ids));
            }
        }
        arguments.finish().map(|()| None)
    }

    fn publish_words(
        &self,
        to_queue: bool,
        mut arguments: Arguments<'_>,
    ) -> anyhow::Result<Option<(u16, u16)>> {
        let properties = arguments.take_properties()?;
        let (mandatory, immediate) = (
            arguments.take_flag("mandatory"),
            arguments.take_flag("immediate"),
        );
        let target = arguments.words.pop_front().context("it needs a target")?;
        for body in std::mem::take(&mut arguments.words) {
            let (exchange, key) = if to_queue {
                ("", &target)
            } else {
                (&*target, &body)
            };
            let publish = basic::Publish {
                exchange: exchange.into(),
                routing_key: key.as_str().into(),
                mandatory,
                immediate,
            };
            self.publish(publish, &properties, body.as_bytes())?;
        }
        arguments.finish().map(|()| Some(PUBLISH))
    }

    fn perform(&self, words: &[&str]) -> anyhow::Result<()> {
        let (verb, rest) = words.split_first().context("a step needs a verb")?;
        let text = |index: usize| {
            rest.get(index)
                .map_or(String::new(), |word| self.scope().text(word))
        };
        let number = |index: usize| text(index).parse::<u32>().context("it needs a number");
        match *verb {
            ">" => self.send_words(rest).map(drop),
            "publish" | "send" | "header" | "body" | "frame" | "bytes" => {
                self.send_words(words).map(drop)
            }
            "<" => {
                let event = self.pushed(&text(0))?;
                self.scope().expect_all(&event, &rest[1..])
            }
            "queue" => {
                self.send_words(&[&["queue.declare", "\"\"", "exclusive"], &rest[1..]].concat())?;
                let declared = queue::DeclareOk::unwrap(self.answer((50, 11))?.method)?;
                self.scope().define(rest[0], declared.queue.as_str());
                Ok(())
            }
            "bound" => {
                self.perform(&["queue", rest[0]])?;
                let keys = if rest.len() > 2 {
                    &rest[2..]
                } else {
                    &["\"\""]
                };
                keys.iter()
                    .try_for_each(|key| self.perform(&["queue.bind", rest[0], rest[1], key]))
            }
            "fetched" => {
                self.perform(&["queue", rest[0]])?;
                self.send_words(&[&["send"], rest].concat())?;
                rest[1..]
                    .iter()
                    .try_for_each(|body| self.perform(&["get", rest[0], body]))
            }
            "get" => self.messages(&rest[1..], || {
                self.fetch(&text(0), false)?.context("no message is ready")
            }),
            "take" => self.messages(&rest[1..], || self.take(&text(0))),
            "delivers" => self.messages(rest, || self.pushed(basic::Deliver::NAME)),
            "seen" => self.seen(rest),
            "death" => self.death(rest),
            "empty" => expect_eq(
                "the next message",
                self.fetch(&text(0), false)?.map(|message| message.body()),
                None,
            ),
            "yields" => {
                let bodies: Vec<String> = rest[1..]
                    .iter()
                    .flat_map(|word| texts(self.scope(), word))
                    .collect();
                self.yields(&text(0), &bodies)
            }
            "holds" => self.holds(&text(0), number(1)?, number(2).ok()),
            "loses" => self.loses(&text(0)),
            "confirmed" => self.confirmed(number(0)?.into()),
            "quiet" => self.is_quiet(),
            "pass" => {
                self.run("queue TOCK")?;
                self.run("queue TICK x-dead-letter-exchange=\"\" x-dead-letter-routing-key=TOCK")?;
                self.run(&format!(
                    "send TICK tick expiration={}; take TOCK tick",
                    number(0)?
                ))
            }
            "carries" => self.carries(rest),
            "reopen" => {
                self.close()?;
                self.open()
            }
            "leave" => self
                .connection
                .close_with(text(0).parse().unwrap_or(200), &text(1)),
            "hang-up" => {
                self.connection.wire.hang_up();
                Ok(())
            }
            _ => self.ask(words),
        }
    }

    /// Sends a method, awaits its answer, and asserts fields of it.
    fn ask(&self, words: &[&str]) -> anyhow::Result<()> {
        let mut parts = words.splitn(2, |word| *word == "=");
        let (request, expected) = (parts.next().unwrap_or_default(), parts.next());
        let sent = self.send_words(request)?;
        match sent.and_then(answer_ids) {
            Some(ids) if !request.contains(&"nowait") => {
                let answer = self.answer(ids)?;
                self.scope()
                    .expect_all(&answer, expected.unwrap_or_default())
            }
            _ => {
                ensure!(expected.is_none(), "no answer is awaited");
                Ok(())
            }
        }
    }

    /// Asserts the bodies of the next messages, and the same other things of each.
    fn messages(
        &self,
        words: &[&str],
        next: impl Fn() -> anyhow::Result<Event>,
    ) -> anyhow::Result<()> {
        let (checks, bodies): (Vec<&str>, Vec<&str>) =
            words.iter().partition(|word| entry(word).is_some());
        ensure!(!bodies.is_empty(), "it needs a body");
        for body in bodies.iter().flat_map(|word| texts(self.scope(), word)) {
            let message = next()?;
            expect_text("the body", &message.body(), &body)?;
            self.scope().expect_all(&message, &checks)?;
            self.message.replace(Some(message));
        }
        Ok(())
    }

    /// Asserts something of the last message.
    fn seen(&self, checks: &[&str]) -> anyhow::Result<()> {
        let message = self.message.borrow();
        let message = message.as_ref().context("no message was received")?;
        self.scope().expect_all(message, checks)
    }

    /// Asserts an entry of the last message's x-death; its time only has to exist.
    fn death(&self, words: &[&str]) -> anyhow::Result<()> {
        let [index, reason, queue, exchange, key, count] = words else {
            bail!("it needs an index, a reason, a queue, an exchange, a key and a count");
        };
        let checks = [
            format!("reason={reason}"),
            format!("queue={queue}"),
            format!("exchange={exchange}"),
            format!("routing-keys=[{key}]"),
            format!("count={{\"LongLongInt\":{count}}}"),
        ];
        for check in checks {
            self.seen(&[&format!("x-death.{index}.{check}")])?;
        }
        let message = self.message.borrow();
        let content = message
            .as_ref()
            .and_then(|message| message.content.as_ref());
        let time = content
            .and_then(|content| header(&content.properties, &format!("x-death.{index}.time")));
        ensure!(
            matches!(time, Some(AMQPValue::Timestamp(_))),
            "time is {time:?}"
        );
        Ok(())
    }

    /// Waits until all messages up to this tag are confirmed; a nack is an error.
    fn confirmed(&self, up_to: u64) -> anyhow::Result<()> {
        let mut highest = 0;
        while highest < up_to {
            let ack = basic::Ack::unwrap(self.next_pushed()?.method)?;
            highest = highest.max(ack.delivery_tag);
        }
        expect_eq("the last confirmed tag", highest, up_to)
    }

    /// Asserts that properties arrive as they were sent, byte by byte.
    fn carries(&self, words: &[&str]) -> anyhow::Result<()> {
        self.run("queue Q")?;
        self.send_words(&[&["send", "Q", "x"], words].concat())?;
        let sent = Arguments::new(self.scope(), words).take_properties()?;
        let content = self
            .take(&self.scope().text("Q"))?
            .content
            .unwrap_or_default();
        expect_eq("the properties", &content.properties, &sent)?;
        let frame = content_header(1, 60, 0, &sent);
        let flags_and_list = &frame[7 + 12..frame.len() - 1];
        expect_eq(
            "the bytes of the properties",
            content.raw_properties,
            flags_and_list,
        )
    }
}

/// Reads hexadecimal digits.
fn bytes(digits: &str) -> anyhow::Result<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2).map(std::str::from_utf8);
    pairs
        .map(|pair| Ok(u8::from_str_radix(pair?, 16)?))
        .collect()
}
