//! A step: a message as a template, and what is expected of its answer.

use load::plan::Invalid;
use serde_json::Value;
use traffic::{Capture, Encoding, Names, Origin, Repeat, Template, ThinkTime, Values};

use super::attachment;
use super::message::arguments;
use super::pointer::{Pointer, find};
use crate::outcome;
use crate::protocol::ProtocolError;
use crate::protocol::json::append as append_json;
use crate::protocol::transport::{Transport, TransportContext};
use crate::settings::{self, Protocol};

/// The number of the message as a JSON number, and the end of a name whose value is JSON.
const ID: &str = "{id}";
pub(super) const JSON_END: &str = ":json}}";

/// A prepared step.
#[derive(Debug)]
pub(crate) struct Step {
    /// The field of the plan, for messages.
    pub(crate) field: String,
    /// The message, for messages: its event, or its text as the plan has it.
    pub(crate) name: String,
    /// The array of an event with its name, or the message of a WebSocket.
    pub(crate) text: Template,
    form: Form,
    pub(crate) answer: Answer,
    /// True if it has the number of the message, which it advances.
    pub(crate) is_numbered: bool,
    pub(crate) uses_rows: bool,
    /// Number of times that it is performed before the next one; once without it.
    pub(super) repeat: Option<Repeat>,
    /// The pause after its answer, if it has one of its own.
    pub(crate) think: Option<ThinkTime>,
    /// The index of the next step of its scenario.
    pub(super) next: u16,
    expect: Option<(Pointer, Option<Template>)>,
    /// The values to take from its answer, by their index.
    captures: Vec<(usize, Capture)>,
}

/// The form in which a step is sent.
#[derive(Debug)]
enum Form {
    /// An event of Socket.IO.
    Event,
    /// An event of Socket.IO with attachments.
    Attached(Vec<Box<[u8]>>),
    /// A message of a WebSocket, in a text or binary frame.
    Text,
    Binary,
    /// A message of a WebSocket that is these bytes.
    Bytes(Box<[u8]>),
}

/// The kind of message that answers a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// None: the step is done when it is sent.
    None,
    /// An acknowledgement of Socket.IO.
    Ack,
    /// An event of Socket.IO with this name.
    Event(String),
    /// A message of a WebSocket.
    Message,
}

/// Adds the names that a step captures. The first `own` values are not captured.
///
/// # Errors
/// A capture that is invalid, or whose name is taken.
pub(super) fn add_names(
    field: &str,
    step: &settings::Step,
    own: usize,
    names: &mut Names,
) -> Result<(), Invalid> {
    let field = format!("{field}.capture");
    for text in &step.capture {
        let capture = Capture::parse(&field, text)?;
        if let Origin::Header(_) = capture.origin {
            let problem = format!(
                "`{text}` is of HTTP, and a message has no header fields: take it from json: or regex:"
            );
            return Err(Invalid::new(field, problem));
        }
        let is_own = |name: &String| *name == capture.name;
        if names.columns.iter().chain(&names.values[..own]).any(is_own) {
            let problem = format!(
                "`{}` is a column of the rows, or a name of the driver's own: use another name",
                capture.name
            );
            return Err(Invalid::new(field, problem));
        }
        if !names.values.contains(&capture.name) {
            names.values.push(capture.name);
        }
    }
    Ok(())
}

impl Step {
    pub(super) fn new(
        field: &str,
        step: &settings::Step,
        protocol: Protocol,
        names: &Names,
    ) -> Result<Self, Invalid> {
        let (name, text, form) = match protocol {
            Protocol::SocketIo => event(field, step, names)?,
            Protocol::WebSocket => message(field, step, names)?,
        };
        let answer = answer(field, step, protocol)?;
        if answer == Answer::None && !step.capture.is_empty() {
            let problem = "has no answer to take values from: set `ack = true`, or `expect`";
            return Err(Invalid::new(format!("{field}.capture"), problem));
        }
        let mut captures = Vec::new();
        for text in &step.capture {
            let capture = Capture::parse(field, text)?;
            let index = names.values.iter().position(|name| *name == capture.name);
            captures.push((index.expect("the name was added"), capture));
        }
        let mut expect = expect(field, step, protocol, names)?;
        if let Answer::Event(_) = answer {
            expect = expect.map(|(pointer, is)| (pointer.behind_name(), is));
        }
        let uses_rows = super::columns(text.sources()).next().is_some();
        Ok(Self {
            expect,
            is_numbered: text.uses_number(),
            uses_rows,
            form,
            repeat: step.repeat,
            think: step.think,
            next: 0,
            field: field.to_owned(),
            name,
            text,
            answer,
            captures,
        })
    }

    /// Refuses what the steps before the load do not have.
    pub(super) fn refuse_in_start(&self) -> Result<(), Invalid> {
        let problem =
            "is of the load, and a step of `start` is performed once, at once: leave it out";
        for (name, is_set) in [
            ("repeat", self.repeat.is_some()),
            ("think", self.think.is_some()),
        ] {
            if is_set {
                return Err(Invalid::new(format!("{}.{name}", self.field), problem));
            }
        }
        if self.is_numbered {
            let problem = "has `{id}`, the number of a message of the load: use {{user}} there";
            return Err(Invalid::new(&self.field, problem));
        }
        Ok(())
    }

    /// Returns the columns that it uses.
    pub(super) fn columns(&self) -> impl Iterator<Item = usize> {
        super::columns(self.text.sources())
    }

    /// Sends it with this text; `number` is the number of its acknowledgement.
    #[inline]
    pub(crate) fn send(
        &self,
        transport: &mut Transport,
        cx: &mut TransportContext,
        number: Option<u32>,
        text: &[u8],
    ) {
        let packet = |out: &mut Vec<u8>| {
            if let Some(number) = number {
                append_json(out, &number);
            }
            out.extend_from_slice(text);
        };
        match &self.form {
            Form::Event => transport.send(cx, |out| {
                out.push(b'2');
                packet(out);
            }),
            Form::Attached(attachments) => transport.send_attached(cx, attachments, packet),
            Form::Text => transport.send_plain(cx, false, packet),
            Form::Binary => transport.send_plain(cx, true, packet),
            Form::Bytes(bytes) => {
                transport.send_plain(cx, true, |out| out.extend_from_slice(bytes))
            }
        }
    }

    /// Compares an answer with what is expected. Returns true if it fits.
    ///
    /// # Errors
    /// The answer is not JSON.
    #[inline]
    pub(crate) fn fits(&self, answer: &str, values: Values<'_>) -> Result<bool, ProtocolError> {
        let Some((pointer, is)) = &self.expect else {
            return Ok(true);
        };
        let [found] = find(answer, [pointer])?;
        Ok(match (found, is) {
            (Some(found), Some(is)) => is_equal(found.as_bytes(), &is.bytes(values)),
            (found, _) => found.is_some(),
        })
    }

    /// Takes the values from an answer.
    ///
    /// # Errors
    /// The kind of failure if there is none.
    #[inline]
    pub(crate) fn capture(
        &self,
        answer: &str,
        values: &mut [Option<Box<[u8]>>],
    ) -> Result<(), &'static str> {
        if self.captures.is_empty() {
            return Ok(());
        }
        let answer = match self.answer {
            Answer::Event(_) => arguments(answer),
            _ => answer.into(),
        };
        let mut json = None;
        for (index, capture) in &self.captures {
            let value = capture.take(answer.as_bytes(), &mut json, |_| None);
            values[*index] = Some(value.ok_or(outcome::CAPTURE)?);
        }
        Ok(())
    }

    /// Returns true if a late answer can be taken for the answer to a later message: only their order tells them apart.
    pub(crate) fn has_answers_in_order(&self) -> bool {
        let is = self.expect.as_ref().and_then(|(_, is)| is.as_ref());
        let is_numbered = is.is_some_and(Template::uses_number);
        matches!(self.answer, Answer::Event(_) | Answer::Message) && !is_numbered
    }

    /// Describes what its answer must have.
    pub(crate) fn expected(&self, planned: &settings::Step) -> String {
        let kind = match &self.answer {
            Answer::Event(event) => format!("the event `{event}`"),
            Answer::Message => "a message".to_owned(),
            Answer::Ack | Answer::None => "an acknowledgement".to_owned(),
        };
        let expect = planned.expect.as_ref();
        match expect.and_then(|expect| Some((expect.pointer.as_ref()?, &expect.is))) {
            Some((pointer, Some(is))) => format!("{kind} with {is} at {pointer}"),
            Some((pointer, None)) => format!("{kind} with a value at {pointer}"),
            None => kind,
        }
    }
}

/// Returns the name of an event, and the array with its arguments.
fn event(
    field: &str,
    step: &settings::Step,
    names: &Names,
) -> Result<(String, Template, Form), Invalid> {
    let Some(name) = &step.emit else {
        let problem =
            "is missing: name the event, or set driver.conversation.protocol = \"websocket\"";
        return Err(Invalid::new(format!("{field}.emit"), problem));
    };
    for (other, is_set) in [("text", step.text.is_some()), ("binary", step.binary)] {
        if is_set {
            let problem = "is of plain WebSocket: give the arguments in `data`, or set driver.conversation.protocol = \"websocket\"";
            return Err(Invalid::new(format!("{field}.{other}"), problem));
        }
    }
    let field = format!("{field}.data");
    let arguments: &[Value] = match &step.data {
        None => &[],
        Some(Value::Array(arguments)) => arguments,
        Some(_) => {
            let problem =
                "is not an array: an event of Socket.IO has arguments; write [ … ] around it";
            return Err(Invalid::new(field, problem));
        }
    };
    let mut text = Template::fixed(&format!("[{}", Value::from(name.as_str())));
    let mut attachments = Vec::new();
    for argument in arguments {
        text.append(Template::fixed(","));
        append_with(&field, argument, names, &mut text, &mut attachments)?;
    }
    text.append(Template::fixed("]"));
    let form = match attachments.as_slice() {
        [] => Form::Event,
        _ => Form::Attached(attachments),
    };
    Ok((name.clone(), text, form))
}

/// Returns the text of a WebSocket message, as the plan has it and as a template.
fn message(
    field: &str,
    step: &settings::Step,
    names: &Names,
) -> Result<(String, Template, Form), Invalid> {
    for (other, is_set) in [("emit", step.emit.is_some()), ("ack", step.ack)] {
        if is_set {
            let problem = "is of Socket.IO: give the message in `data` or `text`, or set driver.conversation.protocol = \"socket.io\"";
            return Err(Invalid::new(format!("{field}.{other}"), problem));
        }
    }
    let form = if step.binary {
        Form::Binary
    } else {
        Form::Text
    };
    match (&step.data, &step.text) {
        (Some(data), None) => {
            let mut text = Template::default();
            append(&format!("{field}.data"), data, names, &mut text)?;
            Ok((data.to_string(), text, form))
        }
        (None, Some(text)) => {
            let field = format!("{field}.text");
            if let Some(bytes) = attachment::parse(&field, text)? {
                return Ok((text.clone(), Template::default(), Form::Bytes(bytes)));
            }
            let template = Template::parse(&field, text.as_bytes(), names, Encoding::Body)?;
            Ok((text.clone(), template, form))
        }
        _ => {
            let problem = "needs a message: give either `data`, a JSON value, or `text`";
            Err(Invalid::new(field, problem))
        }
    }
}

/// Appends a JSON value whose strings are templates, without attachments.
pub(super) fn append(
    field: &str,
    value: &Value,
    names: &Names,
    out: &mut Template,
) -> Result<(), Invalid> {
    let mut attachments = Vec::new();
    append_with(field, value, names, out, &mut attachments)?;
    if attachments.is_empty() {
        return Ok(());
    }
    let problem = "has an attachment, which only the `data` of an event of Socket.IO has: leave it out; a message on plain WebSocket is one as `text`";
    Err(Invalid::new(field, problem))
}

/// Appends a JSON value whose strings are templates, or attachments.
fn append_with(
    field: &str,
    value: &Value,
    names: &Names,
    out: &mut Template,
    attachments: &mut Vec<Box<[u8]>>,
) -> Result<(), Invalid> {
    let mut comma = "";
    match value {
        Value::String(text) => match attachment::parse(field, text)? {
            None => out.append(string(field, text, names)?),
            Some(bytes) => {
                let number = attachments.len();
                let placeholder = format!("{{\"_placeholder\":true,\"num\":{number}}}");
                out.append(Template::fixed(&placeholder));
                attachments.push(bytes);
            }
        },
        Value::Array(values) => {
            out.append(Template::fixed("["));
            for value in values {
                out.append(Template::fixed(std::mem::replace(&mut comma, ",")));
                append_with(field, value, names, out, attachments)?;
            }
            out.append(Template::fixed("]"));
        }
        Value::Object(object) => {
            out.append(Template::fixed("{"));
            for (key, value) in object {
                let key = Value::from(key.as_str());
                out.append(Template::fixed(&format!("{comma}{key}:")));
                append_with(field, value, names, out, attachments)?;
                comma = ",";
            }
            out.append(Template::fixed("}"));
        }
        plain => out.append(Template::fixed(&plain.to_string())),
    }
    Ok(())
}

fn string(field: &str, text: &str, names: &Names) -> Result<Template, Invalid> {
    if let Some(name) = text.strip_suffix(JSON_END)
        && name.starts_with("{{")
    {
        return Template::parse(
            field,
            format!("{name}}}}}").as_bytes(),
            names,
            Encoding::Body,
        );
    }
    if text == ID {
        return Template::parse(field, text.as_bytes(), names, Encoding::Body);
    }
    let quoted = Value::from(text).to_string();
    Template::parse(field, quoted.as_bytes(), names, Encoding::JsonString)
}

fn answer(field: &str, step: &settings::Step, protocol: Protocol) -> Result<Answer, Invalid> {
    let event = step
        .expect
        .as_ref()
        .and_then(|expect| expect.event.as_ref());
    let wrong = |problem: &str| Err(Invalid::new(format!("{field}.expect.event"), problem));
    match (protocol, event) {
        (Protocol::WebSocket, Some(_)) => {
            wrong("is a name of Socket.IO, which a plain WebSocket does not have: leave it out")
        }
        (Protocol::WebSocket, None) if step.expect.is_some() => Ok(Answer::Message),
        (_, Some(_)) if step.ack => {
            wrong("can't answer besides an acknowledgement: leave out one of `ack` and `event`")
        }
        (_, Some(event)) => Ok(Answer::Event(event.clone())),
        (_, None) if step.ack => Ok(Answer::Ack),
        (_, None) if step.expect.is_some() => {
            wrong("is missing: name the event that answers, or set `ack = true`")
        }
        (_, None) => Ok(Answer::None),
    }
}

fn expect(
    field: &str,
    step: &settings::Step,
    protocol: Protocol,
    names: &Names,
) -> Result<Option<(Pointer, Option<Template>)>, Invalid> {
    let Some(expect) = &step.expect else {
        return Ok(None);
    };
    let field = |name: &str| format!("{field}.expect.{name}");
    let Some(pointer) = &expect.pointer else {
        return match expect.is {
            Some(_) => Err(Invalid::new(
                field("pointer"),
                "is missing: say where the value is, such as /0/ok",
            )),
            None => Ok(None),
        };
    };
    let pointer = Pointer::parse(&field("pointer"), pointer)?;
    // The row of a message may be another one when its answer comes.
    let names = Names {
        columns: Vec::new(),
        ..names.clone()
    };
    let is = expect.is.clone().map(|mut is| {
        let mut text = Template::default();
        if protocol == Protocol::SocketIo {
            attachment::replace(&field("is"), &mut is)?;
        }
        append(&field("is"), &is, &names, &mut text)?;
        Ok(text)
    });
    Ok(Some((pointer, is.transpose()?)))
}

/// Returns true if the bytes of an attachment are expected in the answer.
pub(super) fn expects_bytes(step: &settings::Step) -> bool {
    let is = step.expect.as_ref().and_then(|expect| expect.is.as_ref());
    is.is_some_and(attachment::is_in)
}

/// Returns true if two texts are the same JSON value.
fn is_equal(found: &[u8], expected: &[u8]) -> bool {
    if found == expected {
        return true;
    }
    let [found, expected] =
        [found, expected].map(|text| serde_json::from_slice::<Value>(text).ok());
    found.is_some() && found == expected
}
