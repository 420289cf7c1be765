//! Objectives: limits on the times of one operation, such as `response < 200ms`. Operations that meet all objectives of
//! a plan are its goodput.

use crate::result::RunResult;
use crate::similar::suggest;
use crate::spec::Spec;
use crate::tally::{HIGHEST_NS, Series};
use crate::threshold::{Malformed, number_in};
use crate::units::Unit;

/// A limit on every value that one operation has of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Objective {
    /// The series, by its index in the driver's list.
    pub series: Series,
    /// Values below this limit meet the objective, nanoseconds: 1 ns to 1 h.
    pub limit_ns: u64,
}

impl Objective {
    /// Parses `<series> < <time>`; the operator may also be `<=`.
    ///
    /// # Errors
    /// The driver has no such series (the message names those that it has), or the text has another form.
    pub fn parse(text: &str, spec: &Spec) -> Result<Self, Malformed> {
        parse_parts(text, spec).map_err(|problem| Malformed {
            text: text.to_owned(),
            problem,
        })
    }
}

/// Parses an objective; the error says what to write.
fn parse_parts(text: &str, spec: &Spec) -> Result<Objective, String> {
    let example = || {
        let series = spec.series_names();
        let series = series.first().copied().unwrap_or("lag");
        format!("write an objective such as `{series} < 200ms`")
    };
    let (name, bound) = text
        .split_once('<')
        .ok_or_else(|| format!("has no `<`: {}", example()))?;
    let (name, bound) = (name.trim(), bound.trim());
    let (bound, is_inclusive) = match bound.strip_prefix('=') {
        Some(bound) => (bound.trim(), true),
        None => (bound, false),
    };
    let names = spec.series_names();
    let series = names.iter().position(|known| *known == name);
    let series = series.ok_or_else(|| match name.split_once('.') {
        Some((series, _)) if names.contains(&series) => format!(
            "`{name}` is a figure of all operations, and an objective is a limit for each: write `{series} < …`, or make it a threshold"
        ),
        _ => {
            let suggestion = suggest(name, names.iter().copied());
            format!("there is no series `{name}`: {suggestion}")
        }
    })?;
    let limit_ns = number_in(Unit::Nanoseconds, bound)
        .map_err(|remedy| format!("`{bound}` does not suit `{name}`: {remedy}"))?;
    let limit_ns = limit_ns.floor() as u64 + u64::from(is_inclusive);
    if limit_ns == 0 {
        return Err(format!(
            "no operation takes less than no time: {}",
            example()
        ));
    }
    if limit_ns > HIGHEST_NS {
        return Err("the longest time that is recorded is an hour: write a shorter one".to_owned());
    }
    Ok(Objective {
        series: Series(series),
        limit_ns,
    })
}

impl RunResult {
    /// Returns the objectives of the plan, as written.
    pub fn objectives(&self) -> impl Iterator<Item = &str> {
        let texts = self.plan.get("objectives").and_then(|list| list.as_array());
        texts.into_iter().flatten().filter_map(|text| text.as_str())
    }

    /// Returns the number of operations that were due, by a schedule or by a client of a closed loop: those started and
    /// those missed.
    pub fn due(&self) -> u64 {
        self.operations.started + self.operations.missed
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::spec::{SeriesRole, SeriesSpec};

    const SERIES: &[SeriesSpec] = &[
        SeriesSpec::new("response", SeriesRole::Headline),
        SeriesSpec::new("first_byte", SeriesRole::Main),
    ];

    fn parse(text: &str) -> Result<(usize, u64), String> {
        let spec = Spec {
            series: Cow::Borrowed(SERIES),
            ..Spec::UNKNOWN
        };
        let objective = Objective::parse(text, &spec).map_err(|malformed| malformed.to_string())?;
        Ok((objective.series.0, objective.limit_ns))
    }

    #[test]
    fn an_objective_is_a_limit_of_a_series() {
        assert_eq!(parse("response < 200ms"), Ok((0, 200_000_000)));
        assert_eq!(parse("first_byte<=1.5us"), Ok((1, 1_501)));
        assert_eq!(parse(" first_byte <= 0ns "), Ok((1, 1)));
    }

    #[test]
    fn an_error_says_what_to_write() {
        for (text, part) in [
            (
                "response",
                "has no `<`: write an objective such as `response < 200ms`",
            ),
            ("response > 1ms", "has no `<`"),
            ("respnse < 1ms", "did you mean `response`?"),
            ("other < 1ms", "use one of response, first_byte"),
            (
                "response.p99 < 1ms",
                "`response < …`, or make it a threshold",
            ),
            ("response < 200", "write a time such as 50ms"),
            (
                "response < 61m",
                "the longest time that is recorded is an hour",
            ),
            ("response < 0ms", "no operation takes less than no time"),
            ("response < -1ms", "no operation takes less than no time"),
        ] {
            let error = parse(text).expect_err("it is not an objective");
            assert!(error.starts_with(&format!("`{text}`: ")), "{error}");
            assert!(error.contains(part), "{part:?} is not in: {error}");
        }
    }
}
