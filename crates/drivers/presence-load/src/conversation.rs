//! The conversation of a plan, prepared: what is sent, and how answers and pushed events are read.

use load::plan::Invalid;
use traffic::{Names, Rows, Source, Weights};

use crate::protocol::ProtocolError;
use crate::settings::{self, Protocol, Receivers, Settings};

mod message;
mod pointer;
mod step;

pub(crate) use message::{ServerMessage, read};
pub(crate) use pointer::{Pointer, find, text};
pub(crate) use step::{Answer, Step};

/// The indexes of a user's own values. Captured values follow.
pub(crate) const ROOM: usize = 0;
pub(crate) const USER: usize = 1;
/// The field of the rows, for messages.
const ROWS: &str = "driver.conversation.rows";

/// A prepared conversation.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) protocol: Protocol,
    /// The steps of each new connection.
    pub(crate) start: Vec<Step>,
    /// The steps of the load.
    pub(crate) steps: Vec<Step>,
    /// The choice among the steps of the load; in turn without one.
    choice: Option<Weights>,
    pub(crate) fan_out: Option<FanOut>,
    /// Finds the number of the message that a message answers.
    pub(crate) answer_id: Option<Pointer>,
    pub(crate) rows: Option<Rows>,
    /// The columns that are used.
    pub(crate) columns: Vec<usize>,
    /// Number of values of each user.
    pub(crate) values: usize,
    /// True if an event answers a step.
    pub(crate) expects_events: bool,
}

/// The rule by which messages reach others.
#[derive(Debug)]
pub(crate) struct FanOut {
    /// The pushed event; `None` for a message of a WebSocket.
    pub(crate) event: Option<String>,
    sender: Pointer,
    number: Option<Pointer>,
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
        let mut names = Names {
            columns: rows
                .iter()
                .flat_map(|rows| rows.columns().to_vec())
                .collect(),
            values: vec!["room".to_owned(), "user".to_owned()],
        };
        for own in &names.values {
            if names.columns.contains(own) {
                let problem = format!(
                    "has a column `{own}`, which is a name of the driver's own: rename the column"
                );
                return Err(Invalid::new(ROWS, problem));
            }
        }
        let all = [("start", &planned.start), ("steps", &planned.steps)];
        let fields = || {
            all.into_iter().flat_map(|(list, steps)| {
                let numbered = steps.iter().enumerate();
                numbered
                    .map(move |(index, step)| (in_conversation(&format!("{list}[{index}]")), step))
            })
        };
        for (field, step) in fields() {
            step::add_names(&field, step, &mut names)?;
        }
        let mut steps = Vec::new();
        for (field, step) in fields() {
            steps.push(Step::new(field, step, planned.protocol, &names)?);
        }
        let repeated = steps.split_off(planned.start.len());
        if let Some(step) = steps.iter().find(|step| step.is_numbered) {
            let problem = "has `{id}`, the number of a message of the load: use {{user}} there";
            return Err(Invalid::new(&step.field, problem));
        }
        if repeated.is_empty() {
            let problem = "are missing: add [[driver.conversation.steps]] with what users send during the load";
            return Err(Invalid::new(in_conversation("steps"), problem));
        }
        let last = steps.last().filter(|last| last.answer == Answer::None);
        if let (Some(last), Some(_)) = (last, &planned.fan_out) {
            let problem = "is the last one before the load, and has no answer, so that it is not known from when on its user gets pushes: set `ack = true` or `expect`, or add a step that is answered";
            return Err(Invalid::new(&last.field, problem));
        }
        let every = || steps.iter().chain(&repeated);
        let mut columns: Vec<usize> = every().flat_map(Step::columns).collect();
        columns.sort_unstable();
        columns.dedup();
        Ok(Some(Self {
            protocol: planned.protocol,
            choice: choice(&planned.steps, seed)?,
            fan_out: FanOut::new(planned, &repeated)?,
            answer_id: answer_id(planned, &repeated)?,
            expects_events: every().any(|step| matches!(step.answer, Answer::Event(_))),
            start: steps,
            steps: repeated,
            rows,
            columns,
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

    /// Returns the index of a user's step with this number, counted from 0.
    #[inline]
    pub(crate) fn pick(&self, user: u64, number: u32) -> u16 {
        let index = match &self.choice {
            Some(choice) => choice.pick(user << 32 | u64::from(number)),
            None => number as usize % self.steps.len(),
        };
        index as u16
    }

    /// Returns the number of the message that a message answers, if the plan says where it is.
    ///
    /// # Errors
    /// The message is not JSON.
    #[inline]
    pub(crate) fn answered_number(&self, message: &str) -> Result<Option<u64>, ProtocolError> {
        let Some(pointer) = &self.answer_id else {
            return Ok(None);
        };
        let [number] = find(message, [pointer])?;
        // No message of the load has the number 0.
        let number = number.and_then(|number| text(number).parse().ok());
        Ok(Some(number.unwrap_or(0)))
    }

    /// Returns true if the driver speaks WebSocket without Socket.IO.
    pub(crate) fn is_plain(&self) -> bool {
        self.protocol == Protocol::WebSocket
    }
}

impl FanOut {
    fn new(planned: &settings::Conversation, steps: &[Step]) -> Result<Option<Self>, Invalid> {
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

fn choice(steps: &[settings::Step], seed: u64) -> Result<Option<Weights>, Invalid> {
    if steps.iter().all(|step| step.weight.is_none()) {
        return Ok(None);
    }
    let weights: Vec<u32> = steps.iter().map(|step| step.weight.unwrap_or(1)).collect();
    if weights.iter().all(|weight| *weight == 0) {
        let problem = "has a weight of 0, as all others: nothing would be sent; give it a weight of 1 or more";
        return Err(Invalid::new(in_conversation("steps[0].weight"), problem));
    }
    Ok(Some(Weights::new(&weights, seed)))
}

/// Returns the columns among sources.
fn columns(sources: impl Iterator<Item = Source>) -> impl Iterator<Item = usize> {
    sources.filter_map(|source| match source {
        Source::Column(column) => Some(column),
        Source::Value(_) => None,
    })
}
