//! The driver's own settings: the `[driver]` table of a plan.

use std::time::Duration;

use clap::Args;
use harness::cli::default_settings;
use load::duration;
use load::plan::Plan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::expect::Expect;
use fdpass_client::handoff::{ClientKind, DEFAULT_DATA, SocketType, long_prompt};

/// Heading of the help on what all clients do.
pub(crate) const HANDOFFS: &str = "Handoffs and streams";
/// Heading of the help on clients that do not read their whole stream at once.
const UNUSUAL_CLIENTS: &str = "Unusual clients";
/// The golden ratio's fraction in 64 bits.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The driver's own settings. Those that are also options have their help as documentation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[command(next_help_heading = HANDOFFS)]
pub struct Settings {
    /// Type of the daemon's socket.
    #[arg(skip)]
    pub socket_type: SocketType,
    /// Hand over one end of a Unix socket pair (unix), or a TCP connection as behind a web server (tcp)
    #[arg(long, value_enum, default_value = "unix")]
    pub client: ClientKind,
    /// Set the payload of the handoff
    // An empty one is sent as one NUL byte, as the Apache module does.
    #[arg(long, value_name = "JSON", default_value = DEFAULT_DATA, hide_default_value = true)]
    pub data: String,
    /// A payload of exactly this many bytes instead of `data`: JSON with a long prompt.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<u32>,
    /// Number of records per stream; a launched daemon is configured to send them.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u32>,
    /// Time between two records. A launched daemon is told; otherwise it is used for the nominal duration of streams.
    #[arg(skip)]
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<duration::Text>")]
    pub message_delay: Option<Duration>,
    /// Compare the contents of streams with this; a differing text fails with protocol_content
    #[arg(long, value_name = "WITH", value_enum, default_value = "auto")]
    pub expect: Expect,
    /// Limit the duration of a whole stream
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = duration::parse)]
    #[serde(with = "duration")]
    #[schemars(with = "duration::Text")]
    pub stream_timeout: Duration,
    /// Limit the time to the first byte [default: --stream-timeout]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<duration::Text>")]
    pub first_byte_timeout: Option<Duration>,
    /// Limit the time between two reads [default: --stream-timeout]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<duration::Text>")]
    pub idle_timeout: Option<Duration>,
    /// Retry a connect this often when the accept queue is full or the daemon is not running, after 10, 20, 40 ms, …
    #[arg(long = "retry", value_name = "N", default_value_t = 2)]
    pub retries: u32,
    /// Make clients disconnect after N records
    #[arg(long, value_name = "RECORDS", help_heading = UNUSUAL_CLIENTS)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abort_after: Option<u32>,
    /// Make clients read 64 bytes and then pause for this long
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = UNUSUAL_CLIENTS)]
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<duration::Text>")]
    pub slow_reader: Option<Duration>,
    /// Make clients never read
    // They disconnect after the stream timeout.
    #[arg(long, help_heading = UNUSUAL_CLIENTS)]
    pub never_read: bool,
    /// The share of the clients, from 0 to 1, to which `slow_reader` or `never_read` applies: spread evenly, and the
    /// same clients in each run. Their times are left out, so that the series cover only the other clients. Absent: it
    /// applies to all clients, and their times count.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_share: Option<f64>,
    /// Log each finished stream to stderr
    #[arg(long, short)]
    pub verbose: bool,
}

impl Default for Settings {
    fn default() -> Self {
        default_settings()
    }
}

impl Settings {
    /// Returns the nominal duration of a stream: one delay between each two records.
    pub(crate) fn nominal(&self) -> Option<Duration> {
        self.message_delay?
            .checked_mul(self.messages?.saturating_sub(1))
    }

    /// Returns the bytes of the handoff.
    pub(crate) fn payload(&self) -> Vec<u8> {
        match self.payload_bytes {
            Some(bytes) => long_prompt(bytes as usize),
            None if self.data.is_empty() => vec![0],
            None => self.data.clone().into_bytes(),
        }
    }

    /// Returns true if the client of a start, counted over all workers, reads slowly or never. The multiples of the
    /// golden ratio are spread evenly over the unit interval, and follow no other rhythm.
    pub(crate) fn is_slow(&self, index: u64) -> bool {
        if self.slow_reader.is_none() && !self.never_read {
            return false;
        }
        self.slow_share.is_none_or(|share| {
            let position = index.wrapping_mul(GOLDEN) >> 11;
            (position as f64) < share * (1_u64 << 53) as f64
        })
    }

    /// Describes the driver's part of a plan in a sentence.
    pub(crate) fn sentence(plan: &Plan<Self>) -> String {
        let settings = &plan.driver;
        let client = match settings.client {
            ClientKind::Unix => "Unix socket pairs",
            ClientKind::Tcp => "TCP connections",
        };
        let of = settings.slow_share.map_or_else(String::new, |share| {
            format!(" in {} % of the cases", share * 100.0)
        });
        let behaviour = match (
            settings.never_read,
            settings.abort_after,
            settings.slow_reader,
        ) {
            (true, ..) => format!(", whose clients never read{of}"),
            (_, Some(records), _) => format!(", whose clients disconnect after {records} records"),
            (_, _, Some(rest)) => format!(
                ", whose clients read slowly (pause {}){of}",
                duration::format(rest)
            ),
            _ => String::new(),
        };
        let nominal = settings.nominal().map_or_else(String::new, |nominal| {
            format!(" of {}", duration::format(nominal))
        });
        let compared = match settings.expect {
            Expect::Auto => "",
            Expect::Transcript => "; compare their contents with the shared transcript",
            Expect::First => "; compare their contents with the first stream",
            Expect::Any => "; do not compare their contents",
        };
        format!(
            "Hand over {client} with {} bytes each and read the streams{nominal} that come back{behaviour}: {}; at most {} in all; give up a stream after {}{compared}.",
            settings.payload().len(),
            plan.load_sentence(),
            duration::format(plan.timeline.warmup + plan.timeline.measure),
            duration::format(settings.stream_timeout),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_has_the_bytes_that_were_asked_for_and_is_json() {
        for bytes in [25, 39, 10_240, 102_400] {
            let settings = Settings {
                payload_bytes: Some(bytes),
                ..Settings::default()
            };
            let payload = settings.payload();
            assert_eq!(payload.len(), bytes as usize);
            let read: serde_json::Value = serde_json::from_slice(&payload).unwrap();
            assert_eq!(read["user_id"], 1);
        }
    }

    #[test]
    fn the_share_of_slow_clients_is_held_in_every_hundred_and_on_every_instance() {
        let settings = Settings {
            never_read: true,
            slow_share: Some(0.1),
            ..Settings::default()
        };
        for hundred in 0..50 {
            let slow = (0..100).filter(|index| settings.is_slow(hundred * 100 + index));
            assert!((8..=12).contains(&slow.count()), "{hundred}");
        }
        for instances in 2..7 {
            let of_first = (0..10_000).filter(|index| settings.is_slow(index * instances));
            assert!((900..1_100).contains(&of_first.count()), "{instances}");
        }
        let all = Settings {
            slow_share: None,
            ..settings.clone()
        };
        assert!((0..100).all(|index| all.is_slow(index)));
        assert!(!Settings::default().is_slow(0));
    }
}
