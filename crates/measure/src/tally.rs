//! What a worker adds up: histograms and counts that merge without loss.
//!
//! Cost, on a 2-core machine: one [`Distribution::record`] is 4 to 20 ns, as its counters are in the cache or not, and
//! one count as much. One histogram of the common shape is 264 KiB: a tally is kept per core, never per connection. A
//! series has none before its first value, which then pays for 66 pages, unless it was
//! [made resident](Tally::resident).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use crate::slope::LineSums;

/// Smallest value that a histogram tells apart, in nanoseconds.
pub const LOWEST_NS: u64 = 1;
/// Largest value that a histogram holds, in nanoseconds: one hour.
pub const HIGHEST_NS: u64 = 3_600_000_000_000;
/// Significant decimal digits: a stored value is within 0.1 % of the recorded one.
pub const DIGITS: u8 = 3;

/// An empty histogram of the one shape that all of Drover uses: 1 ns to 1 h at 3 digits.
#[must_use]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, DIGITS)
        .expect("1 ns to 1 h at 3 digits are valid bounds")
}

/// Stands for those that have not been made.
static EMPTY: LazyLock<Histogram<u64>> = LazyLock::new(histogram);

/// One measured quantity: a histogram, and how many values it had to clamp.
#[derive(Debug, Clone, Default)]
pub struct Distribution {
    /// Absent before the first value, where nobody had it made before.
    histogram: Option<Histogram<u64>>,
    clamped: u64,
}

impl PartialEq for Distribution {
    fn eq(&self, other: &Self) -> bool {
        self.clamped == other.clamped && self.histogram() == other.histogram()
    }
}

impl Distribution {
    /// Records one value in nanoseconds; what lies outside 1 ns to 1 h is recorded at the bound and counted as clamped.
    pub fn record(&mut self, ns: u64) {
        let bounded = ns.clamp(LOWEST_NS, HIGHEST_NS);
        self.clamped += u64::from(bounded != ns);
        self.made()
            .record(bounded)
            .expect("a value inside the bounds can be recorded");
    }

    /// Adds all that `other` holds: exact, in any order.
    pub fn merge(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.made()
            .add(other.histogram())
            .expect("histograms of one shape can be added");
        self.clamped += other.clamped;
    }

    /// The histogram itself, values in nanoseconds.
    #[must_use]
    pub fn histogram(&self) -> &Histogram<u64> {
        self.histogram.as_ref().unwrap_or_else(|| &EMPTY)
    }

    /// Its constructor writes zeros all over, so that the memory is there afterwards.
    fn made(&mut self) -> &mut Histogram<u64> {
        self.histogram.get_or_insert_with(histogram)
    }

    /// How many values lay outside 1 ns to 1 h.
    #[must_use]
    pub fn clamped(&self) -> u64 {
        self.clamped
    }

    /// Number of values recorded.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::len)
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at `quantile` (0 to 1) in nanoseconds, or `None` where nothing was recorded.
    #[must_use]
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        (!self.is_empty()).then(|| self.histogram().value_at_quantile(quantile))
    }

    /// Forgets all values and keeps the memory.
    pub fn clear(&mut self) {
        if !self.is_empty() {
            self.made().reset();
            self.clamped = 0;
        }
    }

    /// Lossless text form: HdrHistogram V2, deflated, in base64, as the interval logs of all HdrHistogram ports use it.
    #[must_use]
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(self.histogram(), &mut bytes)
            .expect("writing to memory does not fail");
        BASE64.encode(bytes)
    }

    /// Reads what [`encode`](Self::encode) wrote.
    ///
    /// # Errors
    /// Text that is no base64, no V2 histogram, or one that can't be added to the common shape.
    pub fn decode(text: &str, clamped: u64) -> Result<Self, DecodeError> {
        let bytes = BASE64.decode(text).map_err(|_| DecodeError::Base64)?;
        let read: Histogram<u64> = Deserializer::new()
            .deserialize(&mut Cursor::new(bytes))
            .map_err(|error| DecodeError::Histogram(error.to_string()))?;
        let mut histogram = histogram();
        histogram
            .add(&read)
            .map_err(|error| DecodeError::Histogram(error.to_string()))?;
        Ok(Self {
            histogram: Some(histogram),
            clamped,
        })
    }
}

/// Why a stored histogram can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The text is not base64.
    #[error("the histogram is not base64 text: was the file cut or edited?")]
    Base64,
    /// The bytes are no V2 histogram of a compatible shape.
    #[error("the histogram can't be read: {0}")]
    Histogram(String),
}

/// A series of a driver: the place of its name in the driver's list of series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Series(pub usize);

/// Counts by name. Names are static in a driver and owned when they were read back.
pub type Counts = BTreeMap<Cow<'static, str>, u64>;

/// Adds `count` to the count `name`.
pub fn add(counts: &mut Counts, name: &'static str, count: u64) {
    match counts.get_mut(name) {
        Some(total) => *total += count,
        None => {
            counts.insert(Cow::Borrowed(name), count);
        }
    }
}

/// The part of a tally that fell into the measured time: whatever happened in it, whenever its operation began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// What was counted in it, by name.
    pub counts: Counts,
    /// Operations that failed in it.
    pub failed: u64,
    /// Response times against due times, both in seconds: whether the first grew with the second.
    pub responses: LineSums,
}

impl Measured {
    fn merge(&mut self, other: &Self) {
        merge_counts(&mut self.counts, &other.counts);
        self.failed += other.failed;
        self.responses.merge(&other.responses);
    }
}

/// Histograms and counts that merge: what a shard holds, what a second yields, what a run totals.
#[derive(Debug, Clone, PartialEq)]
pub struct Tally {
    names: &'static [&'static str],
    series: Vec<Distribution>,
    /// How late the driver itself began operations that it was free to begin, in nanoseconds.
    pub lag: Distribution,
    /// What was counted, by name.
    pub counts: Counts,
    /// Operations that failed, by kind.
    pub errors: Counts,
    /// What of it happened inside the measured time.
    pub measured: Measured,
}

impl Tally {
    /// An empty tally with one distribution for each name.
    #[must_use]
    pub fn new(names: &'static [&'static str]) -> Self {
        Self {
            names,
            series: names.iter().map(|_| Distribution::default()).collect(),
            lag: Distribution::default(),
            counts: Counts::new(),
            errors: Counts::new(),
            measured: Measured::default(),
        }
    }

    /// An empty tally that has the memory of its lag and of the series that are `recorded`: no value of theirs allocates
    /// or costs a page fault. The other series take values too.
    #[must_use]
    pub fn resident(names: &'static [&'static str], recorded: impl Fn(Series) -> bool) -> Self {
        let mut tally = Self::new(names);
        for (place, values) in tally.series.iter_mut().enumerate() {
            if recorded(Series(place)) {
                values.made();
            }
        }
        tally.lag.made();
        tally
    }

    /// An empty tally with the same series.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::new(self.names)
    }

    /// Records one value of a series, in nanoseconds.
    pub fn record(&mut self, series: Series, ns: u64) {
        self.series[series.0].record(ns);
    }

    /// Adds to a count.
    pub fn count(&mut self, name: &'static str, count: u64) {
        add(&mut self.counts, name, count);
    }

    /// Counts one failed operation by its kind.
    pub fn error(&mut self, kind: &'static str) {
        add(&mut self.errors, kind, 1);
    }

    /// The series with their names, in the driver's order.
    pub fn series(&self) -> impl Iterator<Item = (&'static str, &Distribution)> {
        self.names.iter().copied().zip(&self.series)
    }

    /// One series.
    #[must_use]
    pub fn of(&self, series: Series) -> &Distribution {
        &self.series[series.0]
    }

    /// A count, 0 where nothing was counted.
    #[must_use]
    pub fn counted(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// Adds all that `other` holds: exact, in any order.
    ///
    /// # Panics
    /// If the two tallies are of different drivers.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(
            self.names, other.names,
            "tallies of one driver share their series"
        );
        for (mine, theirs) in self.series.iter_mut().zip(&other.series) {
            mine.merge(theirs);
        }
        self.lag.merge(&other.lag);
        merge_counts(&mut self.counts, &other.counts);
        merge_counts(&mut self.errors, &other.errors);
        self.measured.merge(&other.measured);
    }

    /// Whether nothing was recorded or counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
            && self.errors.is_empty()
            && self.measured == Measured::default()
            && self.lag.is_empty()
            && self.series.iter().all(Distribution::is_empty)
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.series.iter_mut().for_each(Distribution::clear);
        self.lag.clear();
        self.counts.clear();
        self.errors.clear();
        self.measured = Measured::default();
    }

    /// The portable form, for a result file or another process. Empty series are left out.
    #[must_use]
    pub fn pack(&self) -> PackedTally {
        let pack = |distribution: &Distribution| Packed {
            histogram: distribution.encode(),
            clamped: distribution.clamped,
        };
        PackedTally {
            series: self
                .series()
                .filter(|(_, values)| !values.is_empty())
                .map(|(name, values)| (name.to_owned(), pack(values)))
                .collect(),
            lag: (!self.lag.is_empty()).then(|| pack(&self.lag)),
            counts: self.counts.clone(),
            errors: self.errors.clone(),
            measured: self.measured.clone(),
        }
    }

    /// Reads the portable form back.
    ///
    /// # Errors
    /// A histogram that can't be decoded, or a series that the driver does not have.
    pub fn unpack(
        names: &'static [&'static str],
        packed: &PackedTally,
    ) -> Result<Self, DecodeError> {
        let mut tally = Self::new(names);
        for (name, value) in &packed.series {
            let place = names
                .iter()
                .position(|known| known == name)
                .ok_or_else(|| {
                    DecodeError::Histogram(format!(
                        "the series `{name}` is unknown: is it of another version?"
                    ))
                })?;
            tally.series[place] = Distribution::decode(&value.histogram, value.clamped)?;
        }
        if let Some(lag) = &packed.lag {
            tally.lag = Distribution::decode(&lag.histogram, lag.clamped)?;
        }
        tally.counts.clone_from(&packed.counts);
        tally.errors.clone_from(&packed.errors);
        tally.measured.clone_from(&packed.measured);
        Ok(tally)
    }
}

/// Adds counts name by name.
pub fn merge_counts(into: &mut Counts, from: &Counts) {
    for (name, count) in from {
        *into.entry(name.clone()).or_default() += count;
    }
}

/// A histogram as text, with what it clamped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packed {
    /// HdrHistogram V2 + deflate, base64.
    pub histogram: String,
    /// Values outside 1 ns to 1 h.
    pub clamped: u64,
}

/// The portable form of a [`Tally`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PackedTally {
    /// Non-empty series by name.
    pub series: BTreeMap<String, Packed>,
    /// The driver's lateness.
    pub lag: Option<Packed>,
    /// Counts by name.
    pub counts: Counts,
    /// Failed operations by kind.
    pub errors: Counts,
    /// What of it happened inside the measured time.
    #[serde(default)]
    pub measured: Measured,
}
