//! The conversation of an application, as a plan describes it: the table `[driver.conversation]`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use traffic::{Repeat, ThinkTime};

/// The conversation that users have with a server instead of the presence protocol. In its texts, `{{user}}` and `{{room}}`
/// are the names of the user and its room, `{{socket}}` is the id that a server of Socket.IO gave, `{{name}}` is a column of the rows or a captured value, `{{user.name}}` is a column
/// of the user's own row, and `{id}` numbers the messages of each user that have it, from 1. `driver.auth` and
/// `driver.headers` have the names of the user, too.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    /// The protocol of the messages.
    #[serde(default)]
    pub protocol: Protocol,
    /// A CSV or JSON lines file: each message that names a column takes the next row. `{{user.name}}` is of the row of the user,
    /// which it keeps: the first user has the first row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<PathBuf>,
    /// The query of each user's requests, besides what the URL has, such as `token={{user.token}}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// The pause of a user of a closed loop after an answer; without it 1 / `heartbeats_per_sec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<ThinkTime>,
    /// The JSON pointer to the number of the message that a message of the server answers, which is its `{id}`. Without it,
    /// the messages of a WebSocket are answered in their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_id: Option<String>,
    /// The steps of each new connection, one after the other, before its user takes part in the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub start: Vec<Step>,
    /// The steps of the load: each operation is the next step of its user, in this order or by weight. They are one scenario, or
    /// with weights one each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// The scenarios of the load, instead of `steps`: a user draws one by weight, performs its steps in their order, and draws
    /// again. One whose connection was lost begins with a new one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scenarios: Vec<Scenario>,
    /// The rule by which messages with `{id}` reach others. Without it, pushed events are counted, and not compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan_out: Option<FanOut>,
}

impl Conversation {
    /// Returns the steps of the load, of all scenarios.
    pub(crate) fn load_steps(&self) -> impl Iterator<Item = &Step> {
        let of_scenarios = self.scenarios.iter().flat_map(|scenario| &scenario.steps);
        self.steps.iter().chain(of_scenarios)
    }
}

/// The protocol of a conversation's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub enum Protocol {
    /// Socket.IO 3 or newer.
    #[default]
    #[serde(rename = "socket.io")]
    SocketIo,
    /// Plain WebSocket.
    #[serde(rename = "websocket")]
    WebSocket,
}

/// Steps that belong together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its share of all draws, in proportion to the weights of the others; 1 without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Its steps, each of which is an operation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
}

/// A message, and its answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The event of Socket.IO.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emit: Option<String>,
    /// The arguments of the event, or the JSON value of a message on a WebSocket. The string `"{id}"` is sent as a number, and
    /// `"{{name:json}}"` as JSON. In an event, `"{binary:1024}"` is an attachment of as many random bytes,
    /// `"{binary:base64:AAEC}"` of these, and `"{binary:file:PATH}"` of the bytes of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The text of a message on a WebSocket, instead of `data`. `"{binary:1024}"` is a message of bytes, as in `data`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Sends the message of a WebSocket in a binary frame.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub binary: bool,
    /// Asks for an acknowledgement of Socket.IO, and waits for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ack: bool,
    /// The answer: the acknowledgement if `ack` is set, otherwise an event, or a message of a WebSocket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
    /// Values to take from the answer for later messages of the same user, such as "json:/0/token as token".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capture: Vec<String>,
    /// Number of times that its user performs it before the next step: a number such as 3, or "uniform:1:5", drawn each time. Once
    /// without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeat: Option<Repeat>,
    /// The pause of a user of a closed loop after its answer, instead of the conversation's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<ThinkTime>,
    /// Its share of the operations, in proportion to the other weights. Without weights, a user's steps follow each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
}

/// An expected answer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// The event that answers, if no acknowledgement does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The JSON pointer of a value that the answer must have: into the array of arguments, such as `/0/ok`, or into the message
    /// of a WebSocket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// The value there; any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is: Option<Value>,
}

/// The rule by which messages reach others.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FanOut {
    /// The event that a server of Socket.IO pushes for each message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The JSON pointer to the name of the sender in the pushed event.
    pub sender: String,
    /// The name of the sender there; `{{user}}` without it. `{{socket}}` is the id that a server of Socket.IO gave, and a value
    /// that a step of `start` captured is another one. Each user needs a name of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The JSON pointer to the number of the message, `{id}`. Without it, it follows the name of the sender behind a space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<String>,
    /// The users that must receive it.
    pub to: Receivers,
}

/// The users that must receive a pushed event. What is compared takes a byte for each pair of sender and receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Receivers {
    /// All users in the room of the sender, which receives it as well.
    #[default]
    Room,
    /// All users in the room but the sender.
    Others,
    /// All users of the run, in whichever room.
    Everybody,
    /// All users of the run but the sender.
    EverybodyElse,
}

impl Receivers {
    /// Returns true if users of other rooms receive a push.
    pub(crate) fn is_everybody(self) -> bool {
        matches!(self, Self::Everybody | Self::EverybodyElse)
    }

    /// Returns true if the sender receives no push.
    pub(crate) fn is_without_sender(self) -> bool {
        matches!(self, Self::Others | Self::EverybodyElse)
    }
}
