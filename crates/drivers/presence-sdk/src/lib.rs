//! A client for presence rooms over Socket.IO, with automatic heartbeats and reconnection.
//!
//! Presence answers the question who is in a room right now. A [`RealtimeClient`] connects to a presence server and joins
//! a room. The [`RoomHandle`] updates the client's own state, lists the members, and reports what the others do. The
//! client repeats heartbeats, opens a broken connection again, and joins its room again with its last state.
//!
//! ```
//! # #[path = "../tests/suite/server.rs"] mod server;
//! use presence_sdk::{Event, RealtimeClient};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), presence_sdk::Error> {
//! # let url = server::start().await;
//! let client = RealtimeClient::connect(&url).await?;
//! let mut events = client.events();
//! let room = client.join_room_with("lobby", "ada", &json!({"mood": "calm"})).await?;
//! room.update_state(&json!({"typing": true})).await?;
//!
//! // The first event is the client's own join.
//! while let Some(event) = events.next().await {
//!     match event {
//!         Event::Join(event) => assert_eq!(&*event.member.user_id, "ada"),
//!         Event::Update(event) => {
//!             assert_eq!(event.member.state.as_json(), r#"{"mood":"calm","typing":true}"#);
//!             break;
//!         }
//!         Event::Disconnected(cause) => eprintln!("{cause}; reconnecting"),
//!         _ => {}
//!     }
//! }
//! assert_eq!(room.members().len(), 1);
//! room.leave().await?;
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Runtime and cost
//!
//! A client needs a Tokio runtime with I/O and time, of either flavor. It is one task with one connection, one timer and
//! small buffers, so that a process can hold tens of thousands of clients. `examples/memory.rs` measures the user memory
//! of a joined client and the CPU time of an update; the README has the figures.
//!
//! # Heartbeats
//!
//! A server removes a member that has sent no heartbeat for its TTL, 30 s by default. The client sends one every 10 s
//! ([`Options::heartbeat_interval`]). The server must answer within the ack timeout ([`Options::ack_timeout`]); after two
//! heartbeats without an answer ([`Options::missed_heartbeats`]), or without a ping of the server within `pingInterval` +
//! `pingTimeout`, the connection is considered broken. A member that was removed even so joins again
//! ([`Event::MembershipLost`], then [`Event::Rejoined`]).
//!
//! # Broken connections
//!
//! The client opens a broken connection again, with exponential backoff and full jitter ([`Reconnect`]), without end by
//! default. It joins its room again with the state of all acknowledged updates and of those that wait, and with the
//! resume token if the server gave one; [`Event::Reconnected`] says if the membership was kept. The table of
//! [`RealtimeClient`] has what each call does meanwhile. Events of the time in between are lost: read the
//! [members](RoomHandle::members) again. This also applies if the server closes the connection with a Socket.IO
//! disconnect packet. A program that knows that its network has changed calls [`RealtimeClient::reconnect`] instead of
//! waiting for a timeout.
//!
//! # Lost events
//!
//! A server numbers the events of a room. When a number is missing, the client reports [`Event::Gap`], joins again to get
//! a new snapshot, and reports [`Event::Rejoined`]. Events with a number that was received before are dropped.
//!
//! # Slow readers
//!
//! A program that does not read its events holds up neither the server nor its own client: the client goes on reading the
//! connection, sending heartbeats and keeping the list of members. Events wait in one queue of
//! [`Options::event_capacity`] at most, 256 by default; then the oldest are dropped, and the reader gets
//! [`Event::Lagged`] with their number once it reads again. A client without an [`Events`] stream keeps none.
//!
//! # Cancel safety
//!
//! All futures may be dropped at any time. A call that was passed on is carried out, its answer is dropped, and later
//! answers are not mixed up: each request has an id of its own. The exception is [`RealtimeClient::join_room`]: if it is
//! dropped, the room is left.

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod client;
mod endpoint;
mod error;
mod event;
mod event_log;
mod events;
mod member;
mod message;
mod object;
mod options;
mod packet;
mod reconnect;
mod room;
mod room_view;
mod session;
mod shared;
mod task;
mod transport;
mod upgrade;
mod wire;

pub use client::RealtimeClient;
pub use error::{Code, Error};
pub use event::{DisconnectCause, Event, LeaveReason, MemberEvent, RejoinCause};
pub use events::Events;
pub use member::{Member, Snapshot, State};
pub use options::Options;
pub use reconnect::Reconnect;
pub use room::RoomHandle;
pub use shared::Heartbeat;
