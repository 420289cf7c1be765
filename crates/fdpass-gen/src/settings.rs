//! The driver's own settings: the `[driver]` table of a plan.

use std::time::Duration;

use load::duration;
use load::plan::{Invalid, Plan};
use serde::{Deserialize, Serialize};

use crate::expect::Expect;
use crate::handoff::{ClientKind, SocketType, payload_limit};

/// The default payload of the reference generator.
pub const DEFAULT_DATA: &str = r#"{"prompt":"benchmark test","user_id":1}"#;
/// Default number of records per stream of the mock backends.
pub const DEFAULT_MESSAGES: u32 = 18;
/// The golden ratio's fraction in 64 bits.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
/// Maximum connect retries: the pause doubles each time, so that more would wait for hours.
const MOST_RETRIES: u32 = 16;
/// Maximum time between two records.
const LONGEST_DELAY: Duration = Duration::from_secs(86_400);
/// Maximum records of a stream.
const MOST_MESSAGES: u32 = 60_000;

/// The driver's own settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Type of the daemon's socket.
    pub socket_type: SocketType,
    /// The kind of client to hand over.
    pub client: ClientKind,
    /// Payload of the handoff. An empty one is sent as one NUL byte, as the Apache module does.
    pub data: String,
    /// A payload of exactly this many bytes instead of `data`: JSON with a long prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<u32>,
    /// Timeout for a whole stream.
    #[serde(with = "duration")]
    pub stream_timeout: Duration,
    /// Timeout for the first byte; absent: `stream_timeout`.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub first_byte_timeout: Option<Duration>,
    /// Timeout between two reads; absent: `stream_timeout`.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<Duration>,
    /// Records per stream: a launched daemon is configured to send them, and they are expected. Absent: any number is
    /// accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u32>,
    /// Time between two records, for which a launched daemon is configured.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub message_delay: Option<Duration>,
    /// The reference for the contents of streams.
    pub expect: Expect,
    /// Retries of a connect when the accept queue is full or the daemon is not running, after 10, 20, 40 ms, …
    pub retries: u32,
    /// Records after which clients disconnect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abort_after: Option<u32>,
    /// Pause of clients after each small read.
    #[serde(with = "duration::optional", skip_serializing_if = "Option::is_none")]
    pub slow_reader: Option<Duration>,
    /// Clients never read, and disconnect after the stream timeout.
    pub never_read: bool,
    /// The share of the clients, from 0 to 1, to which `slow_reader` or `never_read` applies: spread evenly, and the
    /// same clients in each run. Their times are left out, so that the series cover only the other clients. Absent: it
    /// applies to all clients, and their times count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slow_share: Option<f64>,
    /// Logs each finished stream to stderr.
    pub verbose: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            socket_type: SocketType::default(),
            client: ClientKind::default(),
            data: DEFAULT_DATA.to_owned(),
            payload_bytes: None,
            stream_timeout: Duration::from_secs(120),
            first_byte_timeout: None,
            idle_timeout: None,
            messages: None,
            message_delay: None,
            expect: Expect::Auto,
            retries: 2,
            abort_after: None,
            slow_reader: None,
            never_read: false,
            slow_share: None,
            verbose: false,
        }
    }
}

/// Returns a payload of `bytes` bytes by padding the prompt.
fn long_prompt(bytes: usize) -> Vec<u8> {
    let (before, after) = (r#"{"prompt":""#, r#"","user_id":1}"#);
    let prompt = bytes.saturating_sub(before.len() + after.len());
    [before, &"a".repeat(prompt), after].concat().into_bytes()
}

impl Settings {
    /// Returns the nominal duration of a stream: one delay between each two records.
    #[must_use]
    pub fn nominal(&self) -> Option<Duration> {
        self.message_delay?
            .checked_mul(self.messages?.saturating_sub(1))
    }

    /// Returns the bytes of the handoff.
    #[must_use]
    pub fn payload(&self) -> Vec<u8> {
        match self.payload_bytes {
            Some(bytes) => long_prompt(bytes as usize),
            None if self.data.is_empty() => vec![0],
            None => self.data.clone().into_bytes(),
        }
    }

    /// Returns true if the client of a start, counted over all workers, reads slowly or never. The multiples of the
    /// golden ratio are spread evenly over the unit interval, and follow no other rhythm.
    #[must_use]
    pub fn is_slow(&self, index: u64) -> bool {
        if self.slow_reader.is_none() && !self.never_read {
            return false;
        }
        self.slow_share.is_none_or(|share| {
            let place = index.wrapping_mul(GOLDEN) >> 11;
            (place as f64) < share * (1_u64 << 53) as f64
        })
    }

    /// Checks the settings and the shape of the load.
    ///
    /// # Errors
    /// The first invalid field, with the remedy.
    pub fn validate(plan: &Plan<Self>) -> Result<(), Invalid> {
        let settings = &plan.driver;
        settings.validate_payload()?;
        settings.validate_share()?;
        let limit = payload_limit().map_err(|error| {
            Invalid::new(
                "driver.data",
                format!("cannot read the payload limit: {error}"),
            )
        })?;
        let bytes = settings
            .payload_bytes
            .map_or(settings.data.len(), |bytes| bytes as usize);
        if bytes > limit {
            let problem = format!(
                "{bytes} bytes exceed the record limit of {limit}: send fewer, or raise net.core.wmem_default"
            );
            let field = match settings.payload_bytes {
                Some(_) => "driver.payload_bytes",
                None => "driver.data (--data, --data-file)",
            };
            return Err(Invalid::new(field, problem));
        }
        let timeouts = [
            ("stream_timeout", Some(settings.stream_timeout)),
            ("first_byte_timeout", settings.first_byte_timeout),
            ("idle_timeout", settings.idle_timeout),
            ("slow_reader", settings.slow_reader),
        ];
        for (field, timeout) in timeouts {
            if timeout.is_some_and(|timeout| timeout.is_zero() || timeout > LONGEST_DELAY) {
                return Err(Invalid::new(
                    format!("driver.{field}"),
                    "must be between 1ns and 24h: give a time such as 30s",
                ));
            }
        }
        if settings.retries > MOST_RETRIES {
            return Err(Invalid::new(
                "driver.retries",
                format!("exceeds {MOST_RETRIES}: lower it, since the pause doubles each time"),
            ));
        }
        if settings
            .messages
            .is_some_and(|messages| messages > MOST_MESSAGES)
        {
            return Err(Invalid::new(
                "driver.messages",
                format!("exceeds {MOST_MESSAGES}: lower it"),
            ));
        }
        if settings
            .message_delay
            .is_some_and(|delay| delay > LONGEST_DELAY)
        {
            return Err(Invalid::new(
                "driver.message_delay",
                "exceeds 24h: give a time such as 50ms",
            ));
        }
        if settings.abort_after == Some(0) {
            return Err(Invalid::new(
                "driver.abort_after",
                "must be at least 1: use never_read for clients that read nothing",
            ));
        }
        if settings.never_read && (settings.slow_reader.is_some() || settings.abort_after.is_some())
        {
            return Err(Invalid::new(
                "driver.never_read",
                "excludes slow_reader and abort_after: use only one of them",
            ));
        }
        let mut groups = plan.groups.iter();
        let closed = groups.position(|group| group.is_closed() && group.ops != Some(1));
        if let Some(place) = closed {
            let problem = "a client is used for one stream: set `ops = 1`, or give the group a `rate` to replace streams that end";
            return Err(Invalid::new(format!("groups[{place}].ops"), problem));
        }
        Ok(())
    }

    fn validate_payload(&self) -> Result<(), Invalid> {
        let least = long_prompt(0).len();
        let problem = match self.payload_bytes {
            Some(_) if self.data != DEFAULT_DATA => {
                "replaces `data`: use only one of them".to_owned()
            }
            Some(bytes) if (bytes as usize) < least => {
                format!("{bytes} bytes are fewer than the {least} of an empty prompt: raise it")
            }
            _ => return Ok(()),
        };
        Err(Invalid::new("driver.payload_bytes", problem))
    }

    fn validate_share(&self) -> Result<(), Invalid> {
        let problem = match self.slow_share {
            Some(share) if !(share > 0.0 && share < 1.0) => {
                "must be between 0 and 1 (0.1 is every tenth client): correct it, or leave it out for all"
            }
            Some(_) if self.slow_reader.is_none() && !self.never_read => {
                "needs `slow_reader` or `never_read`: add one of them"
            }
            _ => return Ok(()),
        };
        Err(Invalid::new("driver.slow_share", problem))
    }

    /// Describes the driver's part of a plan in a sentence.
    #[must_use]
    pub fn sentence(plan: &Plan<Self>) -> String {
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
            "Hand over {client} with {} bytes each and read the streams{nominal} that come back{behaviour}: {}; give up a stream after {}{compared}.",
            settings.payload().len(),
            plan.load_sentence(),
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
            let slow = (0..100).filter(|place| settings.is_slow(hundred * 100 + place));
            assert!((8..=12).contains(&slow.count()), "{hundred}");
        }
        for instances in 2..7 {
            let of_first = (0..10_000).filter(|place| settings.is_slow(place * instances));
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
