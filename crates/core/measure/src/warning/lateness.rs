//! The lateness of the driver, compared with the response time.

use super::{Kind, Severity, Warning};
use crate::tally::Distribution;
use crate::units;

/// A quantile shown in reports, with the lateness that it tolerates.
struct LagLimit {
    quantile: f64,
    name: &'static str,
    /// Tolerated lateness in nanoseconds.
    limit_ns: u64,
    /// Tolerated lateness as a share of the response time.
    share: f64,
}

/// The quantiles shown in reports. Below p99.9, lateness is too large above 1 ms (a wake-up on a shared machine) and a
/// tenth of the response time. From p99.9 on, where a single wake-up is visible, the limits are 10 ms (a stall) and
/// half of the response time: beyond that, the quantile describes the driver more than the daemon.
const LAG_LIMITS: [LagLimit; 5] = [
    LagLimit::body(0.5, "p50"),
    LagLimit::body(0.9, "p90"),
    LagLimit::body(0.99, "p99"),
    LagLimit::tail(0.999, "p99.9"),
    LagLimit::tail(1.0, "max"),
];

/// Tolerated share of the response time for the lateness of up to a hundredth of the starts.
const BODY_SHARE: f64 = 0.1;
/// Starts that must lie beyond a quantile before its lateness is more than a note, so that one late wake-up is not
/// enough.
const MIN_BEYOND: f64 = 5.0;

impl LagLimit {
    const fn body(quantile: f64, name: &'static str) -> Self {
        Self {
            quantile,
            name,
            limit_ns: 1_000_000,
            share: BODY_SHARE,
        }
    }

    const fn tail(quantile: f64, name: &'static str) -> Self {
        Self {
            quantile,
            name,
            limit_ns: 10_000_000,
            share: 0.5,
        }
    }
}

impl Warning {
    /// Compares the driver's lateness with the response time, if there is one, at every quantile shown in reports.
    ///
    /// Returns a note if fewer than five starts lie beyond the quantile, and in a closed loop, where only the first
    /// start of each client has a due time. The lateness that the plan asks for, because it has operations start together
    /// at each tick of `tick_ns`, is a note.
    pub fn generator_late(
        lag: &Distribution,
        responses: &Distribution,
        is_paced: bool,
        tick_ns: Option<u64>,
    ) -> Option<Self> {
        let mut late = Vec::new();
        for limit in &LAG_LIMITS {
            let lag_ns = lag.quantile(limit.quantile)?;
            let response = responses.quantile(limit.quantile);
            let is_large = response.is_none_or(|all| lag_ns as f64 > limit.share * all as f64);
            let tolerated_ns = limit.limit_ns.saturating_add(tick_ns.unwrap_or(0));
            if lag_ns <= tolerated_ns || !is_large {
                continue;
            }
            // Quantiles are computed in floating point: 50 starts have five beyond their p90.
            let beyond = lag.len() as f64 * (1.0 - limit.quantile) + 1e-6;
            let severity = if is_paced && beyond >= MIN_BEYOND {
                Severity::Invalid
            } else {
                Severity::Note
            };
            late.push((severity, lag_at(limit.name, lag_ns, response)));
        }
        if late.is_empty()
            && let Some(tick_ns) = tick_ns
        {
            return Self::ticks(tick_ns, lag, responses);
        }
        if late.is_empty() {
            let (lag_ns, response) = (lag.quantile(0.99)?, responses.quantile(0.99)?);
            if lag_ns as f64 <= BODY_SHARE * response as f64 {
                return None;
            }
            late.push((Severity::Note, lag_at("p99", lag_ns, Some(response))));
        }
        let most_severe = late.iter().map(|(severity, _)| *severity).max()?;
        late.retain(|(severity, _)| *severity == most_severe);
        let shown: Vec<String> = late.into_iter().map(|(_, text)| text).collect();
        Some(Kind::GeneratorLate.warning(
            most_severe,
            format!("the driver started operations late: {}", shown.join(", ")),
            "lower the rate, give the driver its own cores, or split it (--processes)",
        ))
    }
}

impl Warning {
    /// Returns the note that operations started at ticks, as planned.
    fn ticks(tick_ns: u64, lag: &Distribution, responses: &Distribution) -> Option<Self> {
        let lag = lag_at("p50", lag.quantile(0.5)?, responses.quantile(0.5));
        let message = format!(
            "the driver started due operations together every {}, as the plan asks; response times include the wait: {lag}",
            units::duration(tick_ns)
        );
        let hint = "leave out --tick to start each operation when it is due";
        Some(Kind::GeneratorLate.note(message, hint))
    }
}

/// Formats a quantile of the driver's lateness next to the same quantile of the response time.
fn lag_at(quantile: &str, lag_ns: u64, response_ns: Option<u64>) -> String {
    let lag = units::duration(lag_ns);
    match response_ns {
        Some(response) => format!(
            "{quantile} {lag} against a response {quantile} of {}",
            units::duration(response)
        ),
        None => format!("{quantile} {lag}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Records `short` values of 10 µs, and `long` ones of a given number of milliseconds.
    fn times(short: u64, long: u64, ms: u64) -> Distribution {
        let mut times = Distribution::default();
        (0..short).for_each(|_| times.record(10_000));
        (0..long).for_each(|_| times.record(ms * MS));
        times
    }

    fn late(lag: &Distribution, responses: &Distribution, is_paced: bool) -> Option<Severity> {
        Warning::generator_late(lag, responses, is_paced, None).map(|warning| warning.severity)
    }

    #[test]
    fn lateness_is_judged_at_every_quantile_that_reports_show() {
        let of = |short, long, ms| late(&times(short, long, ms), &times(0, 10_000, 55), true);
        let invalid = Some(Severity::Invalid);
        assert_eq!(of(10_000, 0, 0), None);
        // A driver that was stopped for 0.5 s in 60 s at 200 operations per second: the p99 does not show it.
        assert_eq!(of(11_900, 100, 400), invalid);
        assert_eq!(
            of(11_990, 10, 400),
            Some(Severity::Note),
            "the maximum alone"
        );
        // Half of a response of 55 ms, and less.
        assert_eq!((of(9_950, 50, 28), of(9_950, 50, 27)), (invalid, None));
        // A tenth of it.
        assert_eq!((of(9_500, 500, 6), of(9_500, 500, 5)), (invalid, None));
        assert_eq!(
            (of(8_000, 2_000, 6), of(4_000, 6_000, 6)),
            (invalid, invalid)
        );
        let warning =
            Warning::generator_late(&times(11_900, 100, 400), &times(0, 9, 55), true, None);
        assert_eq!(
            warning.unwrap().message,
            "the driver started operations late: p99.9 400 ms against a response p99.9 of 55.0 ms"
        );
    }

    #[test]
    fn one_late_wake_up_of_few_starts_and_a_late_beginning_of_a_closed_loop_are_notes() {
        let note = Some(Severity::Note);
        let fast = times(0, 1_000, 2);
        assert_eq!(late(&times(99, 1, 5), &fast, true), None);
        assert_eq!(late(&times(98, 2, 5), &fast, true), note);
        assert_eq!(late(&times(46, 4, 5), &fast, true), note);
        assert_eq!(
            late(&times(40, 10, 5), &fast, true),
            Some(Severity::Invalid)
        );
        assert_eq!(late(&times(40, 10, 5), &fast, false), note);
        // Late by less than a millisecond, and by more than a tenth.
        assert_eq!(late(&times(1_000, 0, 0), &times(1_000, 0, 0), true), note);
        assert_eq!(late(&Distribution::default(), &fast, true), None);
    }

    #[test]
    fn a_wait_for_the_planned_tick_is_a_note_and_more_is_late() {
        let tick = Some(5 * MS);
        let late = |lag| Warning::generator_late(&lag, &times(0, 1_000, 6), true, tick).unwrap();
        let noted = late(times(500, 500, 5));
        assert_eq!(noted.severity, Severity::Note);
        assert!(
            noted.message.contains("together every 5.00 ms"),
            "{noted:?}"
        );
        assert_eq!(late(times(0, 1_000, 7)).severity, Severity::Invalid);
    }
}
