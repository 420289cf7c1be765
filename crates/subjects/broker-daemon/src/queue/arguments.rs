//! The arguments of queue.declare: what they limit, and which of them RabbitMQ refuses.

use std::fmt::Display;

use amq_protocol::types::{AMQPValue, FieldTable};

use crate::exchange::Name;
use crate::failure::{Failure, Result, precondition_failed};
use crate::message::LONGEST_TTL;

/// The handling of messages beyond the limits (x-overflow).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Overflow {
    #[default]
    DropHead,
    RejectPublish,
    RejectPublishDlx,
}

/// The arguments of queue.declare that have an effect here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    max_length: Option<u64>,
    max_bytes: Option<u64>,
    pub(crate) overflow: Overflow,
    message_ttl: Option<u64>,
    pub(crate) expires: Option<u64>,
    pub(crate) dead_letter_exchange: Option<Name>,
    pub(crate) dead_letter_key: Option<Box<[u8]>>,
    max_priority: u8,
    /// Delivers to a single consumer until it is gone (x-single-active-consumer).
    pub(crate) single_active: bool,
}

/// The properties of queue.declare besides the name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct QueueSettings {
    pub(crate) durable: bool,
    pub(crate) auto_delete: bool,
    pub(crate) arguments: FieldTable,
}

/// Returns the error of an argument; `what` is the queue.
fn invalid(name: &str, what: &str, why: impl Display) -> Failure {
    precondition_failed(format_args!("invalid arg '{name}' for {what}: {why}"))
}

impl Limits {
    /// Parses the arguments of queue.declare.
    ///
    /// # Errors
    /// 406 for an invalid value, as RabbitMQ's `rabbit_amqqueue:check_declare_arguments`.
    pub(crate) fn read(arguments: &FieldTable, what: &str) -> Result<Self> {
        let invalid = |name: &str, why: &str| invalid(name, what, why);
        let number = |name: &str| {
            let Some(value) = arguments.inner().get(name) else {
                return Ok(None);
            };
            let number = integer(value).ok_or_else(|| invalid(name, "{unacceptable_type}"))?;
            let negative = |_| invalid(name, &format!("{{value_negative,{number}}}"));
            u64::try_from(number).map(Some).map_err(negative)
        };
        let text = |name: &str| match arguments.inner().get(name) {
            None => Ok(None),
            Some(AMQPValue::LongString(text)) => {
                let text = std::str::from_utf8(text.as_bytes()).map(Some);
                text.map_err(|_| invalid(name, "not valid UTF-8"))
            }
            Some(_) => Err(invalid(name, "{unacceptable_type}")),
        };
        let limits = Self {
            max_length: number("x-max-length")?,
            max_bytes: number("x-max-length-bytes")?,
            overflow: match text("x-overflow")? {
                None | Some("drop-head") => Overflow::DropHead,
                Some("reject-publish") => Overflow::RejectPublish,
                Some("reject-publish-dlx") => Overflow::RejectPublishDlx,
                Some(other) => {
                    return Err(invalid("x-overflow", &format!("'{other}' is not allowed")));
                }
            },
            message_ttl: number("x-message-ttl")?,
            expires: number("x-expires")?,
            dead_letter_exchange: text("x-dead-letter-exchange")?.map(Name::from),
            dead_letter_key: text("x-dead-letter-routing-key")?.map(|key| key.as_bytes().into()),
            max_priority: match number("x-max-priority")?.map(u8::try_from) {
                None => 0,
                Some(Ok(max)) => max,
                Some(Err(_)) => return Err(invalid("x-max-priority", "{max_value_exceeded,255}")),
            },
            single_active: match arguments.inner().get("x-single-active-consumer") {
                None => false,
                Some(AMQPValue::Boolean(is_on)) => *is_on,
                Some(_) => return Err(invalid("x-single-active-consumer", "must be a boolean")),
            },
        };
        if limits.expires == Some(0) {
            return Err(invalid("x-expires", "{value_zero,0}"));
        }
        for (name, value) in [
            ("x-expires", limits.expires),
            ("x-message-ttl", limits.message_ttl),
        ] {
            if value.is_some_and(|value| value > LONGEST_TTL) {
                return Err(invalid(name, "{value_too_large}"));
            }
        }
        if limits.dead_letter_key.is_some() && limits.dead_letter_exchange.is_none() {
            let name = "x-dead-letter-routing-key";
            return Err(invalid(name, "routing_key_but_no_dlx_defined"));
        }
        // Both become short strings of a message.
        for name in ["x-dead-letter-exchange", "x-dead-letter-routing-key"] {
            if text(name)?.is_some_and(|text| text.len() > 255) {
                return Err(invalid(name, "it is longer than 255 bytes"));
            }
        }
        Ok(limits)
    }

    /// Returns true if a queue may not have this many ready messages and bytes in their bodies.
    #[inline]
    pub(super) fn are_exceeded_by(&self, count: u64, bytes: u64) -> bool {
        self.max_length.is_some_and(|max| count > max)
            || self.max_bytes.is_some_and(|max| bytes > max)
    }

    /// Returns the time to live of a message in milliseconds; `own` is its `expiration`.
    #[inline]
    pub(super) fn time_to_live(&self, own: Option<u64>) -> Option<u64> {
        [self.message_ttl, own].into_iter().flatten().min()
    }

    /// Returns the rank of a message by its priority; 0 goes first.
    #[inline]
    pub(super) fn rank(&self, priority: u8) -> u8 {
        self.max_priority.saturating_sub(priority)
    }
}

/// Arguments of other queue types, which a classic queue refuses, as in RabbitMQ.
const OF_OTHER_TYPES: [&str; 9] = [
    "x-delivery-limit",
    "x-max-in-memory-length",
    "x-max-in-memory-bytes",
    "x-quorum-initial-group-size",
    "x-initial-cluster-size",
    "x-queue-leader-locator",
    "x-dead-letter-strategy",
    "x-max-age",
    "x-stream-max-segment-size-bytes",
];

/// Returns the queue type that these arguments declare; `None` if it is unknown.
pub(crate) fn queue_type(arguments: &FieldTable) -> Option<&str> {
    match arguments.inner().get("x-queue-type") {
        None => Some("classic"),
        Some(AMQPValue::LongString(name)) => std::str::from_utf8(name.as_bytes()).ok(),
        Some(_) => None,
    }
}

impl QueueSettings {
    /// Checks arguments that configure how RabbitMQ stores messages and have no effect visible to clients.
    ///
    /// # Errors
    /// 406 for a value that RabbitMQ does not accept.
    fn check_hints(&self, what: &str) -> Result {
        let get = |name: &str| self.arguments.inner().get(name);
        let is_mode = match get("x-queue-mode") {
            None => true,
            Some(AMQPValue::LongString(mode)) => matches!(mode.as_bytes(), b"default" | b"lazy"),
            Some(_) => false,
        };
        let version = get("x-queue-version").map(integer);
        let is_version = matches!(version, None | Some(Some(1 | 2)));
        for (name, is_known) in [("x-queue-mode", is_mode), ("x-queue-version", is_version)] {
            if !is_known {
                return Err(invalid(name, what, "unsupported value"));
            }
        }
        Ok(())
    }

    /// Checks the type of a queue. Returns a warning if it runs as another type than declared.
    ///
    /// # Errors
    /// 406 for an unsupported type, for a quorum queue unless it may run as a classic one, and for arguments of other
    /// types.
    pub(crate) fn check_type(
        &self,
        what: &str,
        is_exclusive: bool,
        quorum_as_classic: bool,
    ) -> Result<Option<String>> {
        let refused = |why: &str| Err(invalid("x-queue-type", what, why));
        let of_others = || {
            let is_there = |name: &&str| self.arguments.inner().contains_key(*name);
            OF_OTHER_TYPES.iter().copied().filter(is_there)
        };
        self.check_hints(what)?;
        match queue_type(&self.arguments) {
            Some("classic") => match of_others().next() {
                None => Ok(None),
                Some(name) => Err(precondition_failed(format_args!(
                    "invalid arg '{name}' for {what} of queue type classic"
                ))),
            },
            Some("quorum") if quorum_as_classic => {
                for (property, is_wrong) in [
                    ("non-durable", !self.durable),
                    ("exclusive-owner", is_exclusive),
                    ("auto-delete", self.auto_delete),
                ] {
                    if is_wrong {
                        return Err(precondition_failed(format_args!(
                            "invalid property '{property}' for {what}"
                        )));
                    }
                }
                let ignored: Vec<&str> = of_others().collect();
                let without = match &ignored[..] {
                    [] => String::new(),
                    names => format!("; without effect: {}", names.join(", ")),
                };
                Ok(Some(format!(
                    "declared as a quorum queue, runs as a durable classic queue{without}"
                )))
            }
            Some("quorum") => refused(
                "'quorum' is not supported; with --quorum-as-classic (BROKER_QUORUM_AS_CLASSIC=true) such queues run as \
                 durable classic ones",
            ),
            Some(other) => refused(&format!("'{other}' is not supported, only 'classic' is")),
            None => refused("must be a string"),
        }
    }
}

/// Returns a field value as a number, whatever its width.
pub(crate) fn integer(value: &AMQPValue) -> Option<i64> {
    Some(match *value {
        AMQPValue::ShortShortInt(number) => number.into(),
        AMQPValue::ShortShortUInt(number) => number.into(),
        AMQPValue::ShortInt(number) => number.into(),
        AMQPValue::ShortUInt(number) => number.into(),
        AMQPValue::LongInt(number) => number.into(),
        AMQPValue::LongUInt(number) => number.into(),
        AMQPValue::LongLongInt(number) => number,
        AMQPValue::Timestamp(number) => i64::try_from(number).ok()?,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_queue_is_refused_or_runs_as_a_classic_one_and_says_so() {
        let mut arguments = FieldTable::default();
        for (name, value) in [("x-queue-type", "quorum"), ("x-delivery-limit", "3")] {
            arguments.insert(name.into(), AMQPValue::LongString(value.into()));
        }
        let mut settings = QueueSettings {
            durable: true,
            auto_delete: false,
            arguments,
        };
        let refused = settings.check_type("queue 'q'", false, false).unwrap_err();
        assert!(refused.text.contains("--quorum-as-classic"), "{refused:?}");
        let said = settings.check_type("queue 'q'", false, true).unwrap();
        assert!(said.unwrap().contains("x-delivery-limit"));
        assert_eq!(settings.check_type("", true, true).unwrap_err().code, 406);
        settings.durable = false;
        assert_eq!(settings.check_type("", false, true).unwrap_err().code, 406);
    }

    #[test]
    fn arguments_that_make_no_sense_are_refused() {
        let read = |name: &str, value: AMQPValue| {
            let mut table = FieldTable::default();
            table.insert(name.into(), value);
            Limits::read(&table, "queue 'q'").map_err(|failure| failure.code)
        };
        let text = |text: &str| AMQPValue::LongString(text.into());
        assert_eq!(read("x-expires", AMQPValue::LongInt(0)), Err(406));
        assert_eq!(read("x-message-ttl", AMQPValue::LongInt(-1)), Err(406));
        for name in ["x-message-ttl", "x-expires"] {
            let read = |ttl| read(name, AMQPValue::LongLongInt(ttl)).is_ok();
            assert!(read(315_360_000_000) && !read(315_360_000_001), "{name}");
        }
        assert_eq!(read("x-message-ttl", text("1")), Err(406));
        assert_eq!(read("x-overflow", text("burst")), Err(406));
        assert_eq!(read("x-dead-letter-routing-key", text("k")), Err(406));
        assert_eq!(read("x-single-active-consumer", text("true")), Err(406));
        for (name, value) in [
            ("x-queue-mode", text("fast")),
            ("x-queue-version", AMQPValue::LongInt(3)),
        ] {
            let mut arguments = FieldTable::default();
            arguments.insert(name.into(), value);
            let settings = QueueSettings {
                arguments,
                ..QueueSettings::default()
            };
            assert_eq!(
                settings.check_type("q", false, false).unwrap_err().code,
                406
            );
        }
        let long = "x".repeat(256);
        assert_eq!(read("x-dead-letter-exchange", text(&long)), Err(406));
        assert_eq!(
            read("x-max-length", AMQPValue::ShortShortUInt(3))
                .unwrap()
                .max_length,
            Some(3)
        );
    }
}
