//! The conversation of a plan, prepared: what is sent, and how answers and pushed events are read.

use load::plan::Invalid;
use load::schedule::Share;
use traffic::{Encoding, Names, RowReader, Rows, Source, Template, Values};

use crate::protocol::ProtocolError;
use crate::settings::{self, Protocol, Receivers, Settings};

mod access;
mod attachment;
mod message;
mod pointer;
mod scenario;
mod step;

pub(crate) use access::UserAccess;
pub(crate) use message::{Incomplete, ServerMessage, read, socket_id};
pub(crate) use pointer::{Pointer, find, text};
pub(crate) use scenario::Progress;
use scenario::{Choice, fields, scenarios};
pub(crate) use step::{Answer, Step};

/// The indexes of a user's own values. Captured values follow.
pub(crate) const ROOM: usize = 0;
pub(crate) const USER: usize = 1;
/// The start of the name of a column of the user's own row.
const OWN_ROW: &str = "user.";
/// The name of the id that a server of Socket.IO gave.
const SOCKET: &str = "socket";
/// The field of the rows, for messages.
const ROWS: &str = "driver.conversation.rows";

/// A prepared conversation.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) protocol: Protocol,
    /// The steps of each new connection.
    pub(crate) start: Vec<Step>,
    /// The steps of the load, of all scenarios.
    pub(crate) steps: Vec<Step>,
    /// The choice among several scenarios.
    choice: Option<Choice>,
    seed: u64,
    pub(crate) fan_out: Option<FanOut>,
    /// Finds the number of the message that a message answers.
    pub(crate) answer_id: Option<Pointer>,
    pub(crate) rows: Option<Rows>,
    /// The columns that are used.
    pub(crate) columns: Vec<usize>,
    /// The columns of the users' own rows, each with the index of its value.
    own_columns: Vec<(usize, usize)>,
    /// The texts with which each user asks for admission, if they differ.
    pub(crate) access: Option<UserAccess>,
    /// The index of the value that is the id of a user's connection, if the plan uses it.
    pub(crate) socket: Option<usize>,
    /// Number of values of each user.
    pub(crate) values: usize,
    /// True if an event answers a step.
    pub(crate) expects_events: bool,
    /// True if the bytes of an attachment are expected.
    pub(crate) compares_bytes: bool,
}

/// The rule by which messages reach others.
#[derive(Debug)]
pub(crate) struct FanOut {
    /// The pushed event; `None` for a message of a WebSocket.
    pub(crate) event: Option<String>,
    sender: Pointer,
    number: Option<Pointer>,
    /// The name of the sender, if that is not the name of its user.
    pub(crate) name: Option<Template>,
    pub(crate) to: Receivers,
}

/// The origin of a pushed event: its sender's name, and the number of the message.
pub(crate) type Origin<'a> = (std::borrow::Cow<'a, str>, u64);

impl Conversation {
    /// Prepares the conversation of a plan; `None` if users speak the presence protocol.
    ///
    /// # Errors
    /// The first field that is invalid, with the remedy.
    pub(crate) fn new(settings: &Settings, seed: u64) -> Result<Option<Self>, Invalid> {
        let Some(planned) = &settings.conversation else {
            return Ok(None);
        };
        let rows = planned.rows.as_deref();
        let rows = rows.map(|path| Rows::open(ROWS, path)).transpose()?;
        let texts = all_texts(settings)?;
        let (mut names, own_columns) = names_of_users(rows.as_ref(), &texts)?;
        let access = UserAccess::new(settings, planned.query.as_deref(), &names)?;
        let is_used = planned.protocol == Protocol::SocketIo && is_named(&texts, SOCKET);
        let socket = is_used.then(|| {
            names.values.push(SOCKET.to_owned());
            names.values.len() - 1
        });
        let own = names.values.len();
        let start = fields("start", &planned.start);
        let scenarios = scenarios(planned)?;
        let of_load = scenarios.iter().flat_map(|scenario| &scenario.steps);
        let all = || start.iter().chain(of_load.clone());
        let mut at_start = own;
        for (index, (field, step)) in all().enumerate() {
            step::add_names(field, step, own, &mut names)?;
            if index < start.len() {
                at_start = names.values.len();
            }
        }
        let mut steps = Vec::new();
        for (field, step) in all() {
            steps.push(Step::new(field, step, planned.protocol, &names)?);
        }
        let mut repeated = steps.split_off(planned.start.len());
        let (choice, next) = Choice::new(&scenarios, seed);
        for (step, next) in repeated.iter_mut().zip(next) {
            step.next = next;
        }
        for step in &steps {
            step.refuse_in_start()?;
        }
        let last = steps.last().filter(|last| last.answer == Answer::None);
        if let (Some(last), Some(_)) = (last, &planned.fan_out) {
            let problem = "is the last one before the load, and has no answer, so that it is not known from when on its user gets pushes: set `ack = true` or `expect`, or add a step that is answered";
            return Err(Invalid::new(&last.field, problem));
        }
        let every = || steps.iter().chain(&repeated);
        let own = own_columns.iter().map(|(column, _)| *column);
        let mut columns: Vec<usize> = every().flat_map(Step::columns).chain(own).collect();
        columns.sort_unstable();
        columns.dedup();
        Ok(Some(Self {
            protocol: planned.protocol,
            choice,
            seed,
            fan_out: FanOut::new(planned, &repeated, &names.values[..at_start])?,
            answer_id: answer_id(planned, &repeated)?,
            compares_bytes: all().any(|(_, step)| step::expects_bytes(step)),
            expects_events: every().any(|step| matches!(step.answer, Answer::Event(_))),
            start: steps,
            steps: repeated,
            rows,
            columns,
            own_columns,
            access,
            socket,
            values: names.values.len(),
        }))
    }

    /// Reads the rows to their end.
    ///
    /// # Errors
    /// The first row that is wrong.
    pub(crate) fn check_rows(&mut self) -> Result<(), Invalid> {
        let rows = self.rows.iter_mut();
        rows.into_iter()
            .try_for_each(|rows| rows.check(ROWS, &self.columns))
    }

    /// Returns the reader of the users' own rows, if the plan uses them.
    pub(crate) fn own_rows(&self) -> Option<RowReader> {
        let rows = self
            .rows
            .as_ref()
            .filter(|_| !self.own_columns.is_empty())?;
        let columns: Vec<usize> = self.own_columns.iter().map(|(column, _)| *column).collect();
        Some(rows.reader(Share::ALL, &columns))
    }

    /// Takes the values of a user from its own row, if it has none: user k of the run has row k, both counted from 0, and the
    /// first row follows the last.
    pub(crate) fn take_own_row(
        &self,
        reader: &mut RowReader,
        user: u64,
        values: &mut [Option<Box<[u8]>>],
    ) {
        let has_row = self
            .own_columns
            .iter()
            .all(|(_, value)| values[*value].is_some());
        if let Some(rows) = self.rows.as_ref().filter(|_| !has_row) {
            reader.go_to(rows, user % rows.len().max(1));
            for (column, value) in &self.own_columns {
                values[*value] = Some(reader.field(*column).into());
            }
        }
    }

    /// Returns the number of the message that a message answers, if the plan says where it is: 0, which no message of the load
    /// has, for a message without a number.
    #[inline]
    pub(crate) fn answered_number(&self, message: &str) -> Option<u64> {
        let pointer = self.answer_id.as_ref()?;
        let number = find(message, [pointer]).ok().and_then(|[number]| number);
        let number = number.and_then(|number| text(number).parse().ok());
        Some(number.unwrap_or(0))
    }

    /// Returns true if the driver speaks WebSocket without Socket.IO.
    pub(crate) fn is_plain(&self) -> bool {
        self.protocol == Protocol::WebSocket
    }
}

impl FanOut {
    /// Prepares the rule of a plan. `names` are the values that a user has before the load.
    fn new(
        planned: &settings::Conversation,
        steps: &[Step],
        names: &[String],
    ) -> Result<Option<Self>, Invalid> {
        let Some(rule) = &planned.fan_out else {
            return Ok(None);
        };
        let field = |name: &str| in_conversation(&format!("fan_out.{name}"));
        if !steps.iter().any(|step| step.is_numbered) {
            let problem = "needs messages with a number: put {{user}} and {id} into the `data` of a step, as the server passes them on";
            return Err(Invalid::new(in_conversation("fan_out"), problem));
        }
        let needs_event = planned.protocol == Protocol::SocketIo;
        if needs_event != rule.event.is_some() {
            let problem = if needs_event {
                "is missing: name the event that the server pushes"
            } else {
                "is a name of Socket.IO, which a plain WebSocket does not have: leave it out"
            };
            return Err(Invalid::new(field("event"), problem));
        }
        let pointer = |name: &str, text: &str| {
            let pointer = Pointer::parse(&field(name), text)?;
            Ok(if needs_event {
                pointer.behind_name()
            } else {
                pointer
            })
        };
        let number = rule.number.as_deref();
        let number = number.map(|number| pointer("number", number));
        Ok(Some(Self {
            event: rule.event.clone(),
            sender: pointer("sender", &rule.sender)?,
            number: number.transpose()?,
            name: sender_name(&field("name"), rule.name.as_deref(), names)?,
            to: rule.to,
        }))
    }

    /// Finds the origin of a pushed event: the array of its name and arguments, or a message of a WebSocket. Returns `None` if
    /// a field is missing, or is not a number.
    ///
    /// # Errors
    /// The event is not JSON.
    #[inline]
    pub(crate) fn origin<'a>(&self, event: &'a str) -> Result<Option<Origin<'a>>, ProtocolError> {
        let Some(number) = &self.number else {
            let [sender] = find(event, [&self.sender])?;
            return Ok(sender.and_then(|sender| {
                let text = text(sender);
                let (sender, rest) = text.split_once(' ')?;
                let number = rest.split(|it: char| !it.is_ascii_digit()).next()?.parse();
                Some((sender.to_owned().into(), number.ok()?))
            }));
        };
        let [sender, number] = find(event, [&self.sender, number])?;
        let number = number.and_then(|number| text(number).parse().ok());
        Ok(sender.map(text).zip(number))
    }
}

/// Returns the name of a field of the conversation, for messages.
fn in_conversation(name: &str) -> String {
    format!("driver.conversation.{name}")
}

fn answer_id(planned: &settings::Conversation, steps: &[Step]) -> Result<Option<Pointer>, Invalid> {
    let Some(pointer) = &planned.answer_id else {
        return Ok(None);
    };
    let field = in_conversation("answer_id");
    let unnumbered = steps
        .iter()
        .find(|step| !step.is_numbered && step.answer == Answer::Message);
    let problem = match unnumbered {
        _ if planned.protocol == Protocol::SocketIo => {
            "is for plain WebSocket: acknowledgements of Socket.IO have a number of their own; leave it out".to_owned()
        }
        Some(step) => format!("needs the number of the message: put {{id}} into {}", step.field),
        None => return Pointer::parse(&field, pointer).map(Some),
    };
    Err(Invalid::new(field, problem))
}

/// Returns the names that users have before they connect, and the columns of their own rows among them, each with the index of
/// its value.
fn names_of_users(
    rows: Option<&Rows>,
    texts: &str,
) -> Result<(Names, Vec<(usize, usize)>), Invalid> {
    let mut names = Names {
        columns: rows.map_or_else(Vec::new, |rows| rows.columns().to_vec()),
        values: vec!["room".to_owned(), "user".to_owned()],
    };
    let mut own = Vec::new();
    for (index, column) in names.columns.iter().enumerate() {
        let name = format!("{OWN_ROW}{column}");
        // Only those that are used take memory for each user.
        if is_named(texts, &name) {
            own.push((index, names.values.len()));
            names.values.push(name);
        }
    }
    let own_names = names.values.iter().map(String::as_str).chain([SOCKET]);
    let is_taken = |name: &&str| names.columns.iter().any(|column| column == name);
    if let Some(name) = own_names.into_iter().find(is_taken) {
        let problem = format!(
            "has a column `{name}`, which is a name of the driver's own: rename the column"
        );
        return Err(Invalid::new(ROWS, problem));
    }
    Ok((names, own))
}

/// Returns all texts of a plan in which names may be.
fn all_texts(settings: &Settings) -> Result<String, Invalid> {
    let texts = (&settings.conversation, &settings.auth, &settings.headers);
    let texts = serde_json::to_string(&texts);
    texts.map_err(|error| Invalid::new("driver.conversation", error.to_string()))
}

/// Returns true if a text has this name, to be replaced.
fn is_named(text: &str, name: &str) -> bool {
    ["}}", step::JSON_END]
        .iter()
        .any(|end| text.contains(&format!("{{{{{name}{end}")))
}

/// Prepares the name of a sender in pushes; `None` if it is the name of its user.
fn sender_name(
    field: &str,
    name: Option<&str>,
    names: &[String],
) -> Result<Option<Template>, Invalid> {
    let Some(name) = name.filter(|name| *name != "{{user}}") else {
        return Ok(None);
    };
    let names = Names {
        columns: Vec::new(),
        values: names.to_vec(),
    };
    let template = Template::parse(field, name.as_bytes(), &names, Encoding::Body)?;
    if template.uses_number() || template.sources().next().is_none() {
        let problem = format!(
            "`{name}` is not a name that each user has for itself: use {{{{socket}}}}, or a value that a step of `start` captures"
        );
        return Err(Invalid::new(field, problem));
    }
    Ok(Some(template))
}

/// Returns values of a user, without a row.
pub(crate) fn values_of(own: &[Option<Box<[u8]>>], number: u32) -> Values<'_> {
    Values {
        own,
        ..Values::from_number(number.into())
    }
}

/// Returns the columns among sources.
fn columns(sources: impl Iterator<Item = Source>) -> impl Iterator<Item = usize> {
    sources.filter_map(|source| match source {
        Source::Column(column) => Some(column),
        Source::Value(_) => None,
    })
}
