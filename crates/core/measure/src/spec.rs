//! The specification of a driver: its series, errors and counters, each with its role.
//!
//! A result stores the specification of its driver, and reports, thresholds, audit and exit codes read only the roles.
//! A new driver is therefore complete without a line outside its crate.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::counters::CORE;
use crate::tally::WARMUP;

/// A text that is static in a driver and owned in a result.
pub type Text = Cow<'static, str>;

/// The specification of a driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spec {
    /// Name of the driver and of its program.
    pub driver: Text,
    /// Name of the protocol in daemon manifests and plan folders.
    pub protocol: Text,
    /// The kind of its operations.
    pub operation: OperationKind,
    /// True if the workers share state, so that they must run in one process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub single_process: bool,
    /// The daemon's gauge for what is open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_gauge: Option<Text>,
    /// The daemon's gauge for the most that was open at once, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_gauge: Option<Text>,
    /// The series, in the order of reports; a [`Series`](crate::tally::Series) is an index into this list.
    pub series: Cow<'static, [SeriesSpec]>,
    /// The kinds of failures that it counts.
    pub errors: Cow<'static, [ErrorSpec]>,
    /// The counters that have a role, in the order of reports. Counters that are not listed are details.
    pub counters: Cow<'static, [CounterSpec]>,
}

impl Default for Spec {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

/// The kind of a driver's operations, which decides what a connection is and what memory is divided by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// An operation holds a connection for as long as it is open.
    #[default]
    Connection,
    /// An operation is a request over a connection that serves several.
    Request,
    /// An operation is a message. It does not hold a connection, and the daemon's memory is its backlog's.
    Message,
}

/// A series of a driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeriesSpec {
    /// Name in results and thresholds.
    pub name: Text,
    /// Name in tables.
    pub label: Text,
    /// Its place in reports.
    pub role: SeriesRole,
    /// A sentence for readers who may know the label with another meaning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Text>,
    /// True if the short report shows it beside the headline series.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_brief: bool,
}

/// The place of a series in reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SeriesRole {
    /// The series to show if only one is shown. It is also a main series.
    Headline,
    /// Shown in the tables of every report.
    Main,
    /// Shown only where all series are.
    Detail,
}

/// A kind of failure of a driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorSpec {
    /// Name in results and thresholds.
    pub name: Text,
    /// Its cause, which decides if it fails the run.
    pub cause: ErrorCause,
    /// True if the operation was lost: it began well, and its end never came. Tables of faults show the number.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_loss: bool,
}

/// The cause of a failure, which decides if it fails the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCause {
    /// The daemon or the network; it fails the run.
    Failure,
    /// The plan asks for it; it is counted and fails no run.
    Expected,
    /// A planned fault may cause it; in the seconds of a fault it fails no run.
    Fault,
    /// The driver had no descriptor or port left; the result says nothing about the daemon and is INVALID. A counter of
    /// the same name counts attempts that belong to no operation.
    Exhausted,
}

/// A counter of a driver.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CounterSpec {
    /// Name in results and thresholds.
    pub name: Text,
    /// Name in tables.
    pub label: Text,
    /// The unit of its values.
    pub unit: CounterUnit,
    /// Its meaning.
    pub role: CounterRole,
    /// Metrics of daemons that count the same; the two counts are compared after a run.
    #[serde(default, skip_serializing_if = "<[Text]>::is_empty")]
    pub daemon_metrics: Cow<'static, [Text]>,
}

/// The unit of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CounterUnit {
    /// A plain number.
    Count,
    /// Bytes.
    Bytes,
    /// Milliseconds.
    Milliseconds,
}

/// The meaning of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CounterRole {
    /// Shown only in the list of counters.
    Detail,
    /// Shown as a rate, and as a ratio between daemons.
    Rate,
    /// Shown as a rate that follows another one, so without a ratio.
    DependentRate,
    /// Complete answers, whatever their content: a rate, and the divisor of bytes and connections.
    Answers,
    /// Bytes received, including all protocol overhead.
    BytesReceived,
    /// Bytes sent, including all protocol overhead.
    BytesSent,
    /// Bytes of the bodies of answers.
    BodyBytes,
    /// The expected number of body bytes: for each answer the body length of its target before the run.
    ExpectedBodyBytes,
    /// Bytes received after the end of an answer while no request was outstanding.
    ExcessBytes,
    /// Connections opened.
    Opened,
    /// Connections closed.
    Closed,
    /// Connections open, reported by each worker once a second; its total over the run has no meaning.
    Held,
    /// Connections that ended while they were held open.
    Lost,
    /// Messages that were delivered wrongly, or not at all; shown even if there are none.
    DeliveryError,
    /// Events that may happen to messages, connections and consumers.
    DeliveryEvent,
    /// Connections opened again after they were lost; also a delivery event.
    Reconnects,
    /// Attempts repeated within an operation.
    Retries,
    /// Operations of the warm-up, which no other figure includes.
    Warmup,
    /// Checks of answers that passed.
    ChecksPassed,
    /// Checks of answers that failed.
    ChecksFailed,
    /// Successful operations with a failed check.
    OperationsFailingChecks,
}

/// Defines the series of a driver: `SERIES`, the list for its [`Spec`](crate::spec::Spec), and a
/// [`Series`](crate::tally::Series) for each entry. The form of an entry is `NAME = SeriesSpec::new("name", role);`.
#[macro_export]
macro_rules! series {
    ($($(#[$doc:meta])* $series:ident = $spec:expr;)*) => {
        /// The series, in the order of reports.
        pub(crate) const SERIES: &[$crate::spec::SeriesSpec] = &[$($spec),*];

        #[allow(
            non_camel_case_types,
            clippy::upper_case_acronyms,
            reason = "the variants are named as the constants, to number them"
        )]
        enum SeriesIndex {
            $($series),*
        }

        $(
            $(#[$doc])*
            pub(crate) const $series: $crate::tally::Series =
                $crate::tally::Series(SeriesIndex::$series as usize);
        )*
    };
}

impl SeriesSpec {
    /// Creates a series that is shown by its own name.
    pub const fn new(name: &'static str, role: SeriesRole) -> Self {
        Self {
            name: Cow::Borrowed(name),
            label: Cow::Borrowed(name),
            role,
            note: None,
            is_brief: false,
        }
    }

    /// Returns the series as one that the short report shows beside the headline series.
    #[must_use]
    pub const fn brief(mut self) -> Self {
        self.is_brief = true;
        self
    }

    /// Creates a series that is shown by a label and explained by a note.
    pub const fn with_note(
        name: &'static str,
        label: &'static str,
        role: SeriesRole,
        note: &'static str,
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            label: Cow::Borrowed(label),
            role,
            note: Some(Cow::Borrowed(note)),
            is_brief: false,
        }
    }
}

impl ErrorSpec {
    /// Creates a kind of failure.
    pub const fn new(name: &'static str, cause: ErrorCause) -> Self {
        Self {
            name: Cow::Borrowed(name),
            cause,
            is_loss: false,
        }
    }

    /// Creates a kind of failure that is the loss of an operation.
    pub const fn loss(name: &'static str, cause: ErrorCause) -> Self {
        let mut error = Self::new(name, cause);
        error.is_loss = true;
        error
    }
}

impl CounterSpec {
    /// The operations of the warm-up, which every driver counts.
    pub const WARMUP: Self = Self::new(WARMUP, "warm-up", CounterRole::Warmup);

    /// Creates a counter; its role determines the unit.
    pub const fn new(name: &'static str, label: &'static str, role: CounterRole) -> Self {
        Self::with_metrics(name, label, role, &[])
    }

    /// Creates a counter that is compared with metrics of daemons.
    pub const fn with_metrics(
        name: &'static str,
        label: &'static str,
        role: CounterRole,
        metrics: &'static [Text],
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            label: Cow::Borrowed(label),
            unit: role.unit(),
            role,
            daemon_metrics: Cow::Borrowed(metrics),
        }
    }

    /// Creates a counter of milliseconds.
    pub const fn in_milliseconds(
        name: &'static str,
        label: &'static str,
        role: CounterRole,
    ) -> Self {
        let mut counter = Self::new(name, label, role);
        counter.unit = CounterUnit::Milliseconds;
        counter
    }
}

impl CounterRole {
    /// Returns the usual unit of counters with this role.
    const fn unit(self) -> CounterUnit {
        match self {
            Self::BytesReceived
            | Self::BytesSent
            | Self::BodyBytes
            | Self::ExpectedBodyBytes
            | Self::ExcessBytes => CounterUnit::Bytes,
            _ => CounterUnit::Count,
        }
    }

    /// Returns true if the counter is shown as a rate.
    pub const fn is_rate(self) -> bool {
        matches!(self, Self::Rate | Self::DependentRate | Self::Answers)
    }
}

impl Spec {
    /// The specification of a driver that is not known: every name has the plainest role.
    pub const UNKNOWN: Self = Self {
        driver: Cow::Borrowed(""),
        protocol: Cow::Borrowed(""),
        operation: OperationKind::Connection,
        single_process: false,
        open_gauge: None,
        peak_gauge: None,
        series: Cow::Borrowed(&[]),
        errors: Cow::Borrowed(&[]),
        counters: Cow::Borrowed(&[]),
    };

    /// Returns the series of a name.
    pub fn series(&self, name: &str) -> Option<&SeriesSpec> {
        self.series.iter().find(|series| series.name == name)
    }

    /// Returns the names of the series, in order.
    pub fn series_names(&self) -> Vec<&str> {
        let names = self.series.iter().map(|series| series.name.as_ref());
        names.collect()
    }

    /// Returns the counter of a name, if it has a role.
    pub fn counter(&self, name: &str) -> Option<&CounterSpec> {
        self.counters.iter().find(|counter| counter.name == name)
    }

    /// Returns the names of everything that a driver counts: the counters of every driver and its own, then the failures
    /// that it also counts without an operation.
    pub fn counter_names(&self) -> impl Iterator<Item = &str> + Clone {
        let own = self.counters.iter().map(|counter| counter.name.as_ref());
        let apart = self.errors.iter().filter(|error| {
            let is_counter = self.counter(&error.name).is_some();
            (error.cause == ErrorCause::Exhausted || error.is_loss) && !is_counter
        });
        let apart = apart.map(|error| error.name.as_ref());
        let core = CORE.into_iter().filter(|name| self.counter(name).is_none());
        core.chain(own).chain(apart)
    }

    /// Returns the counters with a role.
    pub fn counters_with(&self, role: CounterRole) -> impl Iterator<Item = &CounterSpec> {
        let counters = self.counters.iter();
        counters.filter(move |counter| counter.role == role)
    }

    /// Returns the sum of the counters with a role, or `None` if none of them was counted.
    pub fn sum(&self, role: CounterRole, counts: &BTreeMap<String, u64>) -> Option<u64> {
        let counters = self.counters_with(role);
        let counted = counters.filter_map(|counter| counts.get(counter.name.as_ref()));
        counted.copied().reduce(u64::saturating_add)
    }

    /// Returns the cause of a failure. A kind that is not listed is a plain failure.
    pub fn cause(&self, error: &str) -> ErrorCause {
        let listed = self.errors.iter().find(|known| known.name == error);
        listed.map_or(ErrorCause::Failure, |known| known.cause)
    }

    /// Returns the names of the errors with a cause.
    pub fn errors_by(&self, cause: ErrorCause) -> impl Iterator<Item = &str> {
        let errors = self.errors.iter();
        let caused = errors.filter(move |error| error.cause == cause);
        caused.map(|error| error.name.as_ref())
    }

    /// Returns the metrics of daemons that are compared with counters, each with its counter.
    pub fn compared(&self) -> impl Iterator<Item = (&str, &CounterSpec)> {
        self.counters.iter().flat_map(|counter| {
            let metrics = counter.daemon_metrics.iter();
            metrics.map(move |metric| (metric.as_ref(), counter))
        })
    }
}
