//! The check before a run with a conversation: its first users have it once, and every answer and push is verified.

use load::duration;
use load::plan::Invalid;
use load::schedule::Share;
use traffic::{RowReader, Values};

use super::client::Client;
use crate::conversation::{
    Answer, Conversation, FanOut, ROOM, ServerMessage, Step, USER, read, values_of,
};
use crate::roles::population::Part;
use crate::settings;
use crate::shared::{Server, Shared};

/// Most bytes of a message that is shown.
const SHOWN: usize = 300;

/// A user of the check.
struct CheckedUser<'a> {
    client: Client<'a>,
    name: String,
    values: Vec<Option<Box<[u8]>>>,
}

/// The check of one server.
struct Check<'a> {
    shared: &'a Shared,
    conversation: &'a Conversation,
    planned: &'a settings::Conversation,
    rows: Option<RowReader>,
}

/// Lets the first users of the run have their conversation with a server: one of them sends each step once.
///
/// # Errors
/// What was expected, what came instead, and which field of the plan to change.
pub(super) fn verify(server: &Server, shared: &Shared) -> anyhow::Result<()> {
    let (Some(conversation), Some(planned)) =
        (&shared.conversation, &shared.settings().conversation)
    else {
        return Ok(());
    };
    let rows = conversation.rows.as_ref();
    let mut check = Check {
        shared,
        conversation,
        planned,
        rows: rows.map(|rows| rows.reader(Share::ALL, &conversation.columns)),
    };
    let mut users = Vec::new();
    for user in check.members() {
        let mut user = check.connect(server, user)?;
        for (step, planned) in conversation.start.iter().zip(&planned.start) {
            check.perform(&mut user, (step, planned), 0)?;
        }
        check.take_name(&mut user, users.first())?;
        users.push(user);
    }
    let mut number = 0;
    for (step, planned) in conversation.steps.iter().zip(planned.load_steps()) {
        number += u32::from(step.is_numbered);
        check.perform(&mut users[0], (step, planned), number)?;
        if let Some(rule) = conversation.fan_out.as_ref().filter(|_| step.is_numbered) {
            let sender = users[0].name.clone();
            let first = usize::from(rule.to.is_without_sender());
            for receiver in users.iter_mut().skip(first) {
                check.expect_push(receiver, rule, (&sender, number))?;
            }
        }
    }
    Ok(())
}

impl<'a> Check<'a> {
    /// Returns the users of the check: the first one, and one that must receive its messages.
    fn members(&self) -> impl Iterator<Item = u32> + use<> {
        let population = self.shared.population;
        let second = match &self.conversation.fan_out {
            Some(rule) if rule.to.is_everybody() && population.rooms > 1 => {
                Some(population.users_per_room)
            }
            Some(_) if population.users_per_room > 1 => Some(1),
            _ => None,
        };
        [Some(0), second]
            .into_iter()
            .flatten()
            .map(|user| user as u32)
    }

    /// Takes the name that pushes have of a user, and verifies that another one has not the same.
    fn take_name(
        &self,
        user: &mut CheckedUser<'_>,
        other: Option<&CheckedUser<'_>>,
    ) -> Result<(), Invalid> {
        let rule = self.conversation.fan_out.as_ref();
        let Some(name) = rule.and_then(|rule| rule.name.as_ref()) else {
            return Ok(());
        };
        let name = name.bytes(values_of(&user.values, 0));
        user.name = String::from_utf8_lossy(&name).into_owned();
        let problem = match other {
            _ if user.name.is_empty() => "is empty after the steps of `start`: use {{socket}}, or capture what the application calls the user".to_owned(),
            Some(other) if other.name == user.name => format!(
                "is `{}` for two users: use {{{{socket}}}}, or a value that differs",
                shorten(&user.name)
            ),
            _ => return Ok(()),
        };
        Err(Invalid::new("driver.conversation.fan_out.name", problem))
    }

    fn connect(&self, server: &'a Server, user: u32) -> anyhow::Result<CheckedUser<'a>> {
        let part = Part {
            population: self.shared.population,
            share: Share::ALL,
        };
        let names = part.names(user);
        let mut values = vec![None; self.conversation.values];
        values[ROOM] = Some(names.room.into_bytes().into());
        values[USER] = Some(names.user.as_bytes().into());
        if let Some(reader) = &mut self.conversation.own_rows() {
            (self.conversation).take_own_row(reader, part.index_of(user), &mut values);
            if let Some(problem) = reader.take_failure() {
                anyhow::bail!(problem);
            }
        }
        let access = self.conversation.access.as_ref();
        let endpoint =
            access.map(|access| access.endpoint(&server.endpoint, values_of(&values, 0)));
        let endpoint = endpoint.unwrap_or_else(|| server.endpoint.clone());
        let mut client = Client::connect(server, endpoint, self.shared)?;
        client.timeout = self.shared.settings().ack_timeout;
        client.compares_bytes = self.conversation.compares_bytes;
        if let Some(socket) = self.conversation.socket {
            values[socket] = Some(client.connection().as_bytes().into());
        }
        Ok(CheckedUser {
            client,
            name: names.user,
            values,
        })
    }

    /// Sends a step, and verifies its answer.
    fn perform(
        &mut self,
        user: &mut CheckedUser<'_>,
        (step, planned): (&Step, &settings::Step),
        number: u32,
    ) -> Result<(), Invalid> {
        if let (Some(reader), Some(rows), true) =
            (&mut self.rows, &self.conversation.rows, step.uses_rows)
        {
            reader.advance(rows);
        }
        let own = user.values.clone();
        let values = Values {
            row: self.rows.as_ref(),
            own: &own,
            ..Values::from_number(number.into())
        };
        let message = step.text.bytes(values);
        let id = user.client.take_id();
        let is_plain = self.conversation.is_plain();
        let number_of_ack = (step.answer == Answer::Ack).then_some(id as u32);
        let sent = user.client.send_step(step, number_of_ack, &message);
        let missing = |user: &CheckedUser<'_>, why: &anyhow::Error, others: &[String]| {
            self.no_answer(user, (step, planned, number), why, others)
        };
        sent.map_err(|error| missing(user, &error, &[]))?;
        if step.answer == Answer::None {
            return Ok(());
        }
        let namespace = &self.shared.servers[0].endpoint.access.namespace;
        // Answers of the right kind that do not fit.
        let mut others = Vec::new();
        let answer = user.client.take_message(&step.name, |text| {
            let answer = answer_in(text, namespace, is_plain, (step, id))?;
            let answered = self.conversation.answered_number(answer);
            let is_its = answered.is_none_or(|it| it == u64::from(number));
            if is_its && step.fits(answer, values) == Ok(true) {
                return Some(answer.to_owned());
            }
            others.push(answer.to_owned());
            None
        });
        let answer = answer.map_err(|error| missing(user, &error, &others))?;
        step.capture(&answer, &mut user.values).map_err(|_| {
            let problem = format!(
                "expected a value to take from {}, and `{}` came: correct the pointer or the pattern",
                step.expected(planned),
                shorten(&answer)
            );
            Invalid::new(format!("{}.capture", step.field), problem)
        })
    }

    /// Says which answer did not come.
    fn no_answer(
        &self,
        user: &CheckedUser<'_>,
        (step, planned, number): (&Step, &settings::Step, u32),
        why: &anyhow::Error,
        others: &[String],
    ) -> Invalid {
        let instead = match others.last() {
            Some(other) => format!("`{}` came", shorten(other)),
            None => self.received_instead(user, why),
        };
        let (field, remedy) = match (&step.answer, others.is_empty()) {
            (_, false) => (
                ".expect",
                "correct `pointer` and `is`, or send what the application accepts",
            ),
            (Answer::Ack, true) => (
                ".ack",
                "leave it out if the application calls no callback, or correct `emit` and `data`",
            ),
            (Answer::Event(_), true) => (
                ".expect.event",
                "name the event that the application sends, or correct `emit` and `data`",
            ),
            (Answer::Message | Answer::None, true) => {
                ("", "correct the message, or leave out `expect`")
            }
        };
        let answer_id = self.planned.answer_id.as_ref().filter(|_| number > 0);
        let (field, remedy, at_id) = match answer_id {
            Some(pointer) if !others.is_empty() => (
                ".expect",
                "correct `expect`, or driver.conversation.answer_id",
                format!(" and {number} at {pointer}"),
            ),
            _ => (field, remedy, String::new()),
        };
        let problem = format!(
            "expected {}{at_id} within {} after `{}`, and {instead}: {remedy}",
            step.expected(planned),
            duration::format(user.client.timeout),
            step.name,
        );
        Invalid::new(format!("{}{field}", step.field), problem)
    }

    /// Waits for a push, and verifies its origin.
    fn expect_push(
        &self,
        receiver: &mut CheckedUser<'_>,
        rule: &FanOut,
        (sender, number): (&str, u32),
    ) -> Result<(), Invalid> {
        let namespace = &self.shared.servers[0].endpoint.access.namespace;
        let is_plain = self.conversation.is_plain();
        let mut others = Vec::new();
        let mut has_origin = false;
        let event = rule.event.as_deref();
        let pushed = receiver.client.take_message("a push", |text| {
            let push = match read(text, namespace) {
                _ if is_plain => text,
                Ok(ServerMessage::Event(name, push)) if Some(&*name) == event => push,
                _ => return None,
            };
            match rule.origin(push) {
                Ok(Some((name, n))) if name == sender && n == u64::from(number) => return Some(()),
                Ok(Some(_)) => has_origin = true,
                _ => {}
            }
            others.push(push.to_owned());
            None
        });
        let Err(why) = pushed else {
            return Ok(());
        };
        let planned = self.planned.fan_out.as_ref();
        let at = planned.map(|rule| (rule.sender.as_str(), rule.number.as_deref()));
        let (at_sender, at_number) = at.unwrap_or_default();
        let (field, expected, remedy) = match others.last() {
            None => (
                "event",
                "a push",
                "name the event that the application pushes, or correct `to` if it reaches others only",
            ),
            Some(_) if has_origin && rule.name.is_some() => (
                "name",
                "a push",
                "correct what the application calls the sender, or point `sender` and `number` to it and to {id}",
            ),
            Some(_) if has_origin => (
                "sender",
                "a push",
                "point to the texts that the step sends as {{user}} and {id}",
            ),
            Some(_) => (
                "sender",
                "a push with these fields",
                "point to where the sender and the number are",
            ),
        };
        let instead = match others.last() {
            Some(other) => format!("`{}` came", shorten(other)),
            None => self.received_instead(receiver, &why),
        };
        let event = event.map_or_else(String::new, |event| format!("`{event}` "));
        let problem = format!(
            "expected {expected} {event}at {} with {sender} at {at_sender} and {number} {}, and {instead}: {remedy}",
            receiver.name,
            at_number.map_or("behind it".to_owned(), |at| format!("at {at}")),
        );
        Err(Invalid::new(
            format!("driver.conversation.fan_out.{field}"),
            problem,
        ))
    }

    /// Says what came instead of the expected.
    fn received_instead(&self, user: &CheckedUser<'_>, why: &anyhow::Error) -> String {
        match (user.client.end_reason(), user.client.messages().last()) {
            (Some(reason), _) => reason.to_owned(),
            (None, Some(other)) => format!("`{}` came", shorten(other)),
            (None, None) if user.client.incomplete().is_some() => {
                let (text, missing) = user.client.incomplete().unwrap_or_default();
                format!(
                    "`{}` came, without {missing} of its attachments",
                    shorten(text)
                )
            }
            (None, None) if user.client.has_binary() => "a binary message came".to_owned(),
            (None, None) => format!("nothing came ({why:#})"),
        }
    }
}

/// Returns the content of a message if it is of the kind that answers a step.
fn answer_in<'t>(
    text: &'t str,
    namespace: &str,
    is_plain: bool,
    (step, id): (&Step, u64),
) -> Option<&'t str> {
    if is_plain {
        return Some(text);
    }
    match (&step.answer, read(text, namespace).ok()?) {
        (Answer::Ack, ServerMessage::Ack(number, arguments)) if number == id => Some(arguments),
        (Answer::Event(expected), ServerMessage::Event(name, event)) if *expected == name => {
            Some(event)
        }
        _ => None,
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
