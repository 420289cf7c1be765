//! Parsers for the values of options.

use std::time::Duration;

use load::plan::PlannedStage;
use load::{duration, number};

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

/// Parses a property or a header. Refuses values that brokers cannot accept.
pub(super) fn parse_property(text: &str) -> Result<(String, toml::Value), String> {
    let (key, value) = parse_argument(text)?;
    let fits = match (key.as_str(), &value) {
        ("priority", value) => value
            .as_integer()
            .is_some_and(|it| u8::try_from(it).is_ok()),
        ("expiration", value) => value.as_integer().is_some_and(|it| it >= 0),
        _ => key.len() <= 255,
    };
    fits.then_some((key, value)).ok_or_else(|| {
        "priority must be 0 to 255, expiration a number of milliseconds, and a key at most 255 bytes".to_owned()
    })
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
