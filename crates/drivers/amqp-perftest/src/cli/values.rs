//! Parsers for the values of options.

use std::time::Duration;

use load::plan::PlannedStage;
use load::{duration, number};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Values of PerfTest's `--flag`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Flag {
    Persistent,
    Mandatory,
}

/// Parses a duration longer than 0.
pub(super) fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = duration::parse(text)?;
    let problem = "must be longer than 0: leave it out to publish as fast as possible";
    (!interval.is_zero())
        .then_some(interval)
        .ok_or_else(|| problem.to_owned())
}

/// Parses `RATE:SECONDS`.
pub(super) fn parse_rate(text: &str) -> Result<PlannedStage, String> {
    let parts = text.split_once(':').and_then(|(rate, seconds)| {
        let over = duration::parse(seconds).ok()?;
        let rate = number::decimal(rate).ok()?;
        let right = rate >= 0.0 && rate.is_finite() && !over.is_zero();
        right.then(|| PlannedStage::to_rate(rate, over))
    });
    parts.ok_or_else(|| {
        "write it as RATE:SECONDS, such as 1000:30, with more than 0 seconds".to_owned()
    })
}

/// Properties of a message by PerfTest's names, each with its field in a plan (AMQP 0-9-1, class basic). The fourteenth
/// is `headers`: all other keys.
const PROPERTIES: [(&str, &str); 13] = [
    ("contentType", "content_type"),
    ("contentEncoding", "content_encoding"),
    ("deliveryMode", "delivery_mode"),
    ("priority", "priority"),
    ("correlationId", "correlation_id"),
    ("replyTo", "reply_to"),
    ("expiration", "expiration"),
    ("messageId", "message_id"),
    ("timestamp", "timestamp"),
    ("type", "type"),
    ("userId", "user_id"),
    ("appId", "app_id"),
    ("clusterId", "cluster_id"),
];

/// A value of `--message-properties`.
#[derive(Debug, Clone)]
pub(super) enum Property {
    /// A property, by its field in a plan.
    Field(&'static str, toml::Value),
    Header(String, toml::Value),
}

/// Parses a property, in PerfTest's spelling (`appId`) or with dashes (`app-id`), or a header. Another spelling of a
/// property is refused, because it would become a header.
pub(super) fn parse_property(text: &str) -> Result<Property, String> {
    let (key, value) = parse_argument(text)?;
    let letters = |name: &str| name.replace(['-', '_'], "").to_ascii_lowercase();
    if letters(&key) == "headers" {
        return Err("write each of the headers as a KEY=VALUE of its own".to_owned());
    }
    let mut known = PROPERTIES.into_iter();
    let Some((name, field)) = known.find(|(name, _)| letters(name) == letters(&key)) else {
        let problem = || "a key has at most 255 bytes: shorten it".to_owned();
        return if key.len() <= 255 {
            Ok(Property::Header(key, value))
        } else {
            Err(problem())
        };
    };
    if key != name && key != field.replace('_', "-") {
        return Err(format!(
            "`{key}` is not how the property is spelled: write {name}, or name the header otherwise"
        ));
    }
    // Leading zeros of a text are kept.
    let raw = text.split_once('=').map_or("", |(_, raw)| raw);
    let number = value.as_integer();
    let (value, problem) = match field {
        "delivery_mode" => (
            number.filter(|mode| (1..=2).contains(mode)).map(Into::into),
            "deliveryMode must be 1 (transient) or 2 (persistent)",
        ),
        "priority" => (
            number
                .filter(|number| (0..=255).contains(number))
                .map(Into::into),
            "priority must be 0 to 255",
        ),
        "timestamp" => (
            number
                .or_else(|| seconds(raw))
                .filter(|seconds| *seconds >= 0)
                .map(Into::into),
            "timestamp must be seconds since 1970 or a time such as 2007-12-03T10:15:30Z",
        ),
        "expiration" => (
            number.filter(|it| *it >= 0).map(|it| it.to_string().into()),
            "expiration must be a number of milliseconds",
        ),
        _ => (
            (raw.len() <= 255).then(|| raw.into()),
            "the text of a property has at most 255 bytes: shorten it",
        ),
    };
    let value = value.ok_or_else(|| problem.to_owned())?;
    Ok(Property::Field(field, value))
}

/// Returns the seconds since 1970 of a time as in RFC 3339.
fn seconds(text: &str) -> Option<i64> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    Some(time.unix_timestamp())
}

/// Parses `KEY=VALUE`. The value becomes a number if it is one, and text otherwise.
pub(super) fn parse_argument(text: &str) -> Result<(String, toml::Value), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| "write it as KEY=VALUE, such as x-max-length=1000".to_owned())?;
    let value = match (value.parse::<i64>(), value.parse::<bool>()) {
        (Ok(number), _) => toml::Value::Integer(number),
        (_, Ok(truth)) => toml::Value::Boolean(truth),
        _ => toml::Value::String(value.to_owned()),
    };
    Ok((key.to_owned(), value))
}
