//! Thresholds: a figure of a result, an operator and a bound, such as `lag.p99 <= 50ms`.

use std::cmp::Ordering;
use std::fmt;

use crate::imported::SeriesSummary;
use crate::metrics::{self, Metric, STATISTICS, Statistic};
use crate::result::{RunResult, ThresholdResult};
use crate::similar::{similar, suggest};
use crate::spec::Spec;
use crate::tally::GOODPUT;
use crate::units::Unit;
use crate::warning::Verdict;

/// A requirement that a run must meet.
#[derive(Debug, Clone)]
pub struct Threshold {
    text: String,
    subject: Subject,
    operator: Operator,
    /// In the unit of the subject; a verdict by its rank.
    bound: f64,
}

/// The reason why a text is not a threshold, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`: {problem}")]
pub struct Malformed {
    /// The text.
    pub text: String,
    /// The problem and the remedy.
    pub problem: String,
}

/// The figure of a result that a threshold limits.
#[derive(Debug, Clone)]
enum Subject {
    Series(String, SeriesStatistic),
    Metric(&'static Metric),
    Error(String),
    Count(String),
    Verdict,
}

/// A figure of a series.
#[derive(Debug, Clone, Copy)]
enum SeriesStatistic {
    Stored(&'static Statistic),
    /// A quantile of the stored histogram.
    Quantile(f64),
}

/// Decides by the comparison of a value with the bound.
type Operator = fn(Ordering) -> bool;

/// Longer operators come first: `<=` begins with `<`.
const OPERATORS: [(&str, Operator); 6] = [
    ("<=", Ordering::is_le),
    (">=", Ordering::is_ge),
    ("==", Ordering::is_eq),
    ("!=", Ordering::is_ne),
    ("<", Ordering::is_lt),
    (">", Ordering::is_gt),
];

impl Threshold {
    /// Parses `<figure> <operator> <bound>`; `series` are the series of the driver.
    ///
    /// # Errors
    /// The figure is unknown (the message lists all), or the bound does not suit it (the message shows one that does).
    pub fn parse(text: &str, series: &[&str]) -> Result<Self, Malformed> {
        let text = text.to_owned();
        match parse_parts(&text, series) {
            Ok((subject, operator, bound)) => Ok(Self {
                text,
                subject,
                operator,
                bound,
            }),
            Err(problem) => Err(Malformed { text, problem }),
        }
    }

    /// Parses a threshold on results of a driver, as [`Self::parse`] does.
    ///
    /// # Errors
    /// As [`Self::parse`]; or the driver has no such error kind or counter: the message lists those that it has.
    pub fn parse_for(text: &str, spec: &Spec) -> Result<Self, Malformed> {
        let threshold = Self::parse(text, &spec.series_names())?;
        let problem = match &threshold.subject {
            Subject::Error(kind) => unknown_error(kind, spec),
            Subject::Count(name) => unknown_counter(name, spec),
            _ => None,
        };
        match problem {
            Some(problem) => Err(Malformed {
                text: threshold.text,
                problem,
            }),
            None => Ok(threshold),
        }
    }

    /// Returns true if the threshold is about operations that meet the objectives of a plan.
    #[must_use]
    pub fn needs_objectives(&self) -> bool {
        match &self.subject {
            Subject::Metric(metric) => metric.key.starts_with(GOODPUT),
            Subject::Count(name) => name == GOODPUT,
            _ => false,
        }
    }

    /// Evaluates thresholds for a result.
    pub fn judge_all(thresholds: &[Self], result: &mut RunResult) {
        result.thresholds = thresholds.iter().map(|own| own.judge(result)).collect();
    }

    /// Evaluates the threshold for a result.
    #[must_use]
    pub fn judge(&self, result: &RunResult) -> ThresholdResult {
        let value = self.subject.read(result);
        let shown = |value| match self.subject.unit() {
            Some(unit) => unit.precise(value),
            None => result.verdict.to_string(),
        };
        let ordering = value.and_then(|value| value.partial_cmp(&self.bound));
        ThresholdResult {
            text: self.text.clone(),
            measured: value.map(shown),
            met: ordering.is_some_and(self.operator),
        }
    }
}

impl Threshold {
    /// Returns true if it limits a figure of a series.
    #[must_use]
    pub fn reads_series(&self, name: &str) -> bool {
        matches!(&self.subject, Subject::Series(own, _) if own == name)
    }

    /// Judges a run that goes on, by its figures until now: returns the threshold if it is missed. A number that only grows
    /// misses it once it is too large; whether it is large enough, and the verdict, is judged at the end. So are figures that
    /// only the end knows.
    #[must_use]
    pub fn missed_by_now(&self, result: &RunResult) -> Option<ThresholdResult> {
        let unit = self.subject.unit()?;
        let ordering = self.subject.read(result)?.partial_cmp(&self.bound)?;
        let is_final = unit != Unit::Count || ordering.is_gt();
        (is_final && !(self.operator)(ordering)).then(|| self.judge(result))
    }
}

fn unknown_error(kind: &str, spec: &Spec) -> Option<String> {
    let known = spec.errors.iter().map(|error| error.name.as_ref());
    let is_known = known.clone().any(|known| known == kind);
    (!is_known).then(|| format!("there is no error kind `{kind}`: {}", suggest(kind, known)))
}

/// Finds fault with a counter that the driver never counts: a bound above 0 would be met whatever happens.
fn unknown_counter(name: &str, spec: &Spec) -> Option<String> {
    let mut known = spec.counter_names();
    let suggestion = suggest(name, known.clone());
    let is_known = known.any(|known| known == name);
    (!is_known).then(|| format!("there is no counter `{name}`: {suggestion}"))
}

/// Parses the parts of a threshold; the error says what to write.
fn parse_parts(text: &str, series: &[&str]) -> Result<(Subject, Operator, f64), String> {
    let sign = text.find(['<', '>', '=', '!']);
    let (name, rest) = sign
        .map(|sign| text.split_at(sign))
        .ok_or("has no operator: write a threshold such as `lag.p99 <= 50ms`")?;
    let mut operators = OPERATORS.into_iter();
    let (sign, operator) = operators
        .find(|(sign, _)| rest.starts_with(sign))
        .ok_or("unknown operator: use one of < <= == != >= >")?;
    let name = name.trim();
    let subject = Subject::parse(name, series).ok_or_else(|| unknown_figure(name, series))?;
    let bound = rest[sign.len()..].trim();
    let bound = subject
        .bound(bound)
        .map_err(|remedy| format!("`{bound}` does not suit `{name}`: {remedy}"))?;
    match (subject, sign) {
        (Subject::Verdict, "<" | "<=" | ">" | ">=") => {
            Err("a verdict supports only == and !=".to_owned())
        }
        (subject, _) => Ok((subject, operator, bound)),
    }
}

/// Returns true if the threshold `text` decides whether failures of this kind are acceptable. `errors.KIND` decides for
/// that kind; `errors`, `errors.rate`, `checks.errors` and `success` decide for all.
pub fn judges(text: &str, kind: &str) -> bool {
    let name = text.split(['<', '>', '=', '!']).next().unwrap_or_default();
    match name.trim() {
        "errors" | "errors.rate" | "checks.errors" | "success" => true,
        name => name.strip_prefix("errors.") == Some(kind),
    }
}

/// Returns a figure of a run by its name in thresholds, with its unit and the direction in which it is better. The value is
/// `None` if it was not measured.
///
/// # Errors
/// The name is not of a figure that is a number; the message says what to write.
pub(crate) fn figure(
    name: &str,
    run: &RunResult,
) -> Result<(Option<f64>, Unit, metrics::Better), String> {
    let series = run.spec.series_names();
    let subject = Subject::parse(name, &series);
    let subject = subject.ok_or_else(|| unknown_figure(name, &series))?;
    let unit = subject
        .unit()
        .ok_or("a verdict is not a number: name a figure such as errors.rate")?;
    let better = match &subject {
        Subject::Metric(metric) => metric.better,
        Subject::Count(_) => metrics::Better::Neither,
        _ if unit == Unit::Count && !matches!(subject, Subject::Error(_)) => {
            metrics::Better::Neither
        }
        _ => metrics::Better::Lower,
    };
    Ok((subject.read(run), unit, better))
}

/// Returns the figure of a threshold and its bound, in nanoseconds, bytes or percent. Returns `None` for a verdict and
/// for a text that is not a threshold.
pub(crate) fn limit<'t>(text: &'t str, series: &[&str]) -> Option<(&'t str, f64)> {
    let (subject, _, bound) = parse_parts(text, series).ok()?;
    let name = text.split(['<', '>', '=', '!']).next()?;
    (!matches!(subject, Subject::Verdict)).then_some((name.trim(), bound))
}

impl Subject {
    fn parse(name: &str, series: &[&str]) -> Option<Self> {
        if name == "verdict" {
            return Some(Self::Verdict);
        }
        if let Some(metric) = metrics::find(name) {
            return Some(Self::Metric(metric));
        }
        let (group, member) = name
            .split_once('.')
            .filter(|(_, member)| !member.is_empty())?;
        match group {
            "errors" => Some(Self::Error(member.to_owned())),
            "counts" => Some(Self::Count(member.to_owned())),
            _ if series.contains(&group) || group == "lag" => {
                let stored = metrics::statistic_by_key(member).map(SeriesStatistic::Stored);
                let statistic = stored.or_else(|| percentile(member))?;
                Some(Self::Series(group.to_owned(), statistic))
            }
            _ => None,
        }
    }

    fn unit(&self) -> Option<Unit> {
        match self {
            Self::Series(_, SeriesStatistic::Stored(statistic)) => Some(statistic.unit),
            Self::Series(_, SeriesStatistic::Quantile(_)) => Some(Unit::Nanoseconds),
            Self::Error(_) | Self::Count(_) => Some(Unit::Count),
            Self::Metric(metric) => Some(metric.unit),
            Self::Verdict => None,
        }
    }

    /// Parses a bound of this figure; the error says what to write.
    fn bound(&self, text: &str) -> Result<f64, &'static str> {
        match self.unit() {
            Some(unit) => number_in(unit, text),
            None => [Verdict::Valid, Verdict::Suspect, Verdict::Invalid]
                .into_iter()
                .find(|verdict| verdict.to_string() == text)
                .map(rank)
                .ok_or("write VALID, SUSPECT or INVALID"),
        }
    }

    fn read(&self, result: &RunResult) -> Option<f64> {
        match self {
            Self::Verdict => Some(rank(result.verdict)),
            Self::Metric(metric) => (metric.read)(result),
            Self::Error(kind) => Some(result.errors.get(kind).copied().unwrap_or(0) as f64),
            Self::Count(name) => Some(result.count(name) as f64),
            Self::Series(name, statistic) => statistic.read(result, name),
        }
    }
}

fn rank(verdict: Verdict) -> f64 {
    f64::from(verdict as u8)
}

impl SeriesStatistic {
    fn read(self, result: &RunResult, name: &str) -> Option<f64> {
        let series = match name {
            "lag" => result.lag.as_ref(),
            name => result.series(name),
        };
        let quantile = |quantile| Some(series?.distribution().ok()?.quantile(quantile)? as f64);
        match self {
            Self::Quantile(share) => quantile(share),
            Self::Stored(statistic) => match series.map(SeriesSummary::from) {
                // Older results store fewer quantiles.
                Some(found) => (statistic.read)(&found).or_else(|| quantile(statistic.quantile?)),
                None => (statistic.unit == Unit::Count).then_some(0.0),
            },
        }
    }
}

/// Parses any other percentile, such as `p97.5`. Values above 100 are rejected, so that `p9999` is not read as p99.99.
fn percentile(member: &str) -> Option<SeriesStatistic> {
    let text = member.strip_prefix('p')?;
    let is_plain = text.starts_with(|letter: char| letter.is_ascii_digit())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
    let percent: f64 = text.parse().ok().filter(|_| is_plain)?;
    (percent <= 100.0).then_some(SeriesStatistic::Quantile(percent / 100.0))
}

/// Says what to write instead of a figure that does not exist.
fn unknown_figure(name: &str, series: &[&str]) -> String {
    let statistics = STATISTICS.map(|statistic| statistic.key);
    let of_series = || series.iter().copied().chain(["lag"]);
    let (group, member) = name.split_once('.').unwrap_or((name, ""));
    let is_statistic = statistics.contains(&name) || percentile(name).is_some();
    if let (true, Some(headline)) = (is_statistic, series.first()) {
        return format!("`{name}` is of no series: did you mean `{headline}.{name}`?");
    }
    if of_series().any(|series| series == group) {
        let problem = match member {
            "" => format!("`{name}` is a series and needs a statistic"),
            member => format!("`{group}` has no statistic `{member}`"),
        };
        return format!(
            "{problem}: write {group}.p99, with one of {} or any percentile such as p97.5",
            statistics.join(" ")
        );
    }
    let times =
        of_series().flat_map(|series| statistics.map(|statistic| format!("{series}.{statistic}")));
    let keys = metrics::all().map(|metric| metric.key.to_owned());
    let others = [
        "verdict".to_owned(),
        format!("errors.{member}"),
        format!("counts.{member}"),
    ];
    let known: Vec<String> = keys.chain(times).chain(others).collect();
    let is_statistic = statistics.contains(&name) || percentile(name).is_some();
    let meant = match series.first().filter(|_| is_statistic) {
        Some(series) => Some(format!("{series}.{name}")),
        // Nothing is similar to a name that is missing.
        None if name.ends_with('.') => None,
        None => similar(name, known.iter().map(String::as_str)).map(str::to_owned),
    };
    match meant {
        Some(meant) => format!("unknown figure `{name}`: did you mean `{meant}`?"),
        None => format!(
            "unknown figure `{name}`: use one of {}",
            list_figures(series, group)
        ),
    }
}

/// Lists series, and figures: of one group in full, the other groups by name alone.
fn list_figures(series: &[&str], group: &str) -> String {
    let series = series.iter().chain(&["lag"]).copied();
    let statistics = STATISTICS.map(|statistic| statistic.key).join(" ");
    let mut figures: Vec<String> = metrics::all()
        .map(|metric| match metric.key.split_once('.') {
            Some((other, _)) if other != group => format!("{other}.…"),
            _ => metric.key.to_owned(),
        })
        .collect();
    figures.sort_unstable();
    figures.dedup();
    format!(
        "{} with one of {statistics} (as in lag.p99) or any percentile such as p97.5, {}, errors.KIND, counts.NAME, verdict",
        series.collect::<Vec<_>>().join(", "),
        figures.join(", ")
    )
}

const TIMES: [(&str, f64); 6] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
];
const SIZES: [(&str, f64); 9] = [
    ("B", 1.0),
    ("kB", 1e3),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("", 1.0),
];

/// Parses a size, such as `300MiB`, into bytes.
///
/// # Errors
/// A sentence that says what to write.
pub fn bytes(text: &str) -> Result<u64, &'static str> {
    number_in(Unit::Bytes, text).map(|bytes| bytes.round() as u64)
}

/// Parses a number in a unit; the error says what to write.
pub(crate) fn number_in(unit: Unit, text: &str) -> Result<f64, &'static str> {
    let (units, remedy): (&[(&str, f64)], _) = match unit {
        Unit::Nanoseconds => (&TIMES, "write a time such as 50ms, 800us or 1.5s"),
        Unit::Bytes => (&SIZES, "write a size such as 300MiB or 1.5GB"),
        Unit::Percent => (&[("%", 1.0), ("", 1.0)], "write a share such as 0.1%"),
        Unit::Count | Unit::PerSecond => (&[("", 1.0)], "write a number such as 256"),
    };
    let is_of_unit = |letter: char| !letter.is_ascii_digit() && !"._-".contains(letter);
    let (number, suffix) = text.split_at(text.find(is_of_unit).unwrap_or(text.len()));
    let number: f64 = number.replace('_', "").parse().map_err(|_| remedy)?;
    let scale = units.iter().find(|(name, _)| *name == suffix.trim());
    let (_, scale) = scale.ok_or(remedy)?;
    Ok(number * scale)
}

impl fmt::Display for Threshold {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERIES: &[&str] = &["first_byte", "gap"];

    fn problem(text: &str) -> String {
        Threshold::parse(text, SERIES).unwrap_err().to_string()
    }

    #[test]
    fn a_bound_has_the_unit_of_its_figure_and_an_error_says_which() {
        for (text, part) in [
            ("first_byte.p99 <= 50", "50ms"),
            ("first_byte.p99 <= 50%", "50ms"),
            ("daemon.rss.peak < 5ms", "MiB"),
            ("errors == 1%", "number"),
            ("errors.rate < 0.1ms", "0.1%"),
            ("verdict == GOOD", "VALID"),
            ("verdict < VALID", "== and !="),
            ("gap.p101 < 1ms", "p97.5"),
            ("gap.p9999 < 1ms", "p97.5"),
            ("gap.p < 1ms", "p97.5"),
            ("gap.p-1 < 1ms", "p97.5"),
            ("gap.p1e1 < 1ms", "p97.5"),
            ("gap.p99.9.9 < 1ms", "p97.5"),
            ("gap.pinf < 1ms", "p97.5"),
            ("gap.p97.5 < 5", "50ms"),
            ("gap < 1ms", "write gap.p99"),
            ("p99 < 1ms", "did you mean `first_byte.p99`?"),
            ("p99.9 < 1ms", "did you mean `first_byte.p99.9`?"),
            ("lats.p99 < 1ms", "did you mean `lag.p99`?"),
            ("frist_byte.p95 < 1ms", "did you mean `first_byte.p95`?"),
            ("daemon.rss.peek < 1MB", "did you mean `daemon.rss.peak`?"),
            ("error.timeout == 0", "did you mean `errors.timeout`?"),
            ("p99 < 1ms", "did you mean `first_byte.p99`?"),
            ("xyz.p99 < 1ms", "first_byte, gap, lag"),
            ("xyz.p99 < 1ms", "daemon.…"),
            ("daemon. < 1ms", "daemon.rss.peak"),
            ("errors", "no operator"),
            ("errors = 0", "unknown operator"),
            ("errors == ", "number"),
            ("counts. == 0", "counts.NAME"),
            ("== 0", "unknown figure"),
        ] {
            let problem = problem(text);
            assert!(
                problem.contains(part) && problem.contains(text),
                "{text}: {problem}"
            );
        }
    }

    #[test]
    fn bounds_are_read_in_every_unit() {
        let bound = |text: &str| Threshold::parse(text, SERIES).unwrap().bound;
        for (text, expected) in [
            ("first_byte.p99<=50ms", 50e6),
            ("gap.p99.9 < 1.5s", 1.5e9),
            ("gap.max < 800 µs", 800e3),
            ("daemon.rss.peak <= 1.5GB", 1.5e9),
            ("daemon.rss.growth <= 2 MiB", 2_097_152.0),
            ("daemon.cpu.average <= 50%", 50.0),
            ("success >= 99.9", 99.9),
            ("backlog.peak <= 4_096", 4096.0),
            ("daemon.fds.trend <= 0.5", 0.5),
            ("down <= 2s", 2e9),
        ] {
            assert!((bound(text) - expected).abs() < 1e-6, "{text}");
        }
    }

    #[test]
    fn a_kind_of_failure_is_judged_by_what_speaks_of_it_or_of_all() {
        for (text, of_lost) in [
            ("errors == 0", true),
            (" errors.rate <= 1%", true),
            ("success>= 99%", true),
            ("errors.lost <= 3", true),
            ("errors.rejected == 0", false),
            ("errors.lost_too == 0", false),
            ("unfinished == 0", false),
        ] {
            assert_eq!(judges(text, "lost"), of_lost, "{text}");
        }
    }

    #[test]
    fn no_text_makes_the_parser_panic() {
        for text in [
            "",
            "<",
            "é<é",
            "a.b<=",
            ".<1",
            "gap.p99 <= é",
            "gap.p99 <= 1é",
        ] {
            assert!(Threshold::parse(text, SERIES).is_err(), "{text}");
        }
    }
}
