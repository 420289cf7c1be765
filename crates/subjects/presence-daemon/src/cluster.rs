//! Several nodes that share their rooms in Redis.
//!
//! Each write to Redis is one part of a script: it stores a member, takes the next number of the room, and publishes the
//! event to the nodes with members in that room, in one act. The writes that arrive while a script runs go together in
//! the next one. A node's own events need no message: the answer has their numbers, and the room puts all events in
//! order.
//!
//! ```text
//! presence:members:ROOM   hash: connection id → NODE LAST_SEEN MEMBER
//! presence:nodes:ROOM     hash: node → number of its members in the room
//! presence:seq:ROOM       number of the last event
//! presence:rooms:NODE     set: rooms with members of the node
//! presence:lease:NODE     exists while the node lives
//! presence:alive          set: nodes that have not been cleared away
//! presence:store          random; a Redis that lost its data has another one
//! presence:node:NODE      channel: events for the node
//! ```

mod connection;
mod counts;
mod messages;
mod node;
mod scripts;

use std::time::Duration;

pub(crate) use self::counts::NodeCounts;
pub(crate) use self::node::Node;

/// The settings of a node.
#[derive(Debug, Clone)]
pub struct ClusterSettings {
    /// The address of Redis: `redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]`.
    pub url: String,
    /// Time after which a node that does not extend its lease is dead.
    pub lease: Duration,
    /// Time for Redis to answer.
    pub timeout: Duration,
}
