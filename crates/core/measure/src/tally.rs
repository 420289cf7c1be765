//! Accumulators of a worker: histograms and counters that merge without loss.
//!
//! Cost on a 2-core machine: one [`Distribution::record`] takes 4 to 20 ns, depending on whether its counters are in
//! the cache, and one count by name as much. One histogram takes 128 KiB for values up to 33 ms, and 8 KiB for each power of
//! two above, up to 264 KiB; so a tally is kept per core, never per connection. A series allocates its histogram on the
//! first value, which then pays for 32 pages, unless it was [preallocated](Tally::resident).

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2Serializer};
use serde::{Deserialize, Serialize};

use crate::regression::RegressionSums;
use crate::spec::SeriesSpec;

mod decoder;

pub use decoder::Decoder;
pub(crate) use decoder::HEADER;
#[cfg(feature = "report")]
pub(crate) use decoder::recorded;
use decoder::{COMMON, DEFLATED_COOKIE};

/// Counter of operations begun.
pub const STARTED: &str = "started";
/// Counter of operations that ended successfully.
pub const OK: &str = "ok";
/// Counter of successful operations that met all objectives of the plan.
pub const GOODPUT: &str = "goodput";
/// Counter of operations left open.
pub const UNFINISHED: &str = "unfinished";
/// Counter of operations that were due and never begun.
pub const MISSED: &str = "missed";
/// Counter of the missed operations whose client was still waiting for the daemon.
pub const MISSED_WAITING: &str = "missed_waiting";
/// Counter of operations that start in the warm-up, and are in no total.
pub const WARMUP: &str = "warmup";
/// Counter of operations of the warm-up that fail.
pub const WARMUP_FAILED: &str = "warmup_failed";

/// Returns the name of the counter of operations of the warm-up that fail in one way: `warmup_failed.timeout`. These counters
/// add up to [`WARMUP_FAILED`]; older results have none of them.
#[must_use]
pub fn warmup_failed_as(kind: &str) -> String {
    format!("{WARMUP_FAILED}.{kind}")
}

/// Returns the failures of the warm-up by kind.
pub fn warmup_failures(counts: &Counts) -> impl Iterator<Item = (&str, u64)> {
    counts.iter().filter_map(|(name, count)| {
        let kind = name.strip_prefix(WARMUP_FAILED)?.strip_prefix('.')?;
        Some((kind, *count))
    })
}

/// Counters that a result stores as its operations.
pub(crate) const OPERATIONS: [&str; 5] = [STARTED, OK, UNFINISHED, MISSED, MISSED_WAITING];

/// Smallest value that a histogram distinguishes, in nanoseconds.
pub const LOWEST_NS: u64 = 1;
/// Largest value that a histogram holds, in nanoseconds: one hour.
pub const HIGHEST_NS: u64 = 3_600_000_000_000;
/// Significant decimal digits: a stored value is within 0.1 % of the recorded one.
pub const DIGITS: u8 = 3;

/// Largest value, in nanoseconds, that a histogram has memory for before it grows. Its 128 KiB are a mapping of their own
/// for the system's allocator, which grows without a copy.
const GROWS_ABOVE_NS: u64 = (1 << 25) - 1;

/// Creates an empty histogram of the only shape that Drover stores: 1 ns to 1 h at 3 digits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(LOWEST_NS, HIGHEST_NS, DIGITS)
        .expect("1 ns to 1 h at 3 digits are valid bounds")
}

/// Creates an empty histogram that grows to that shape with its values.
fn growing() -> Histogram<u64> {
    let mut histogram = Histogram::new_with_bounds(LOWEST_NS, GROWS_ABOVE_NS, DIGITS)
        .expect("1 ns to 33 ms at 3 digits are valid bounds");
    histogram.auto(true);
    histogram
}

/// Encodes the bytes of a V2 histogram as text: deflated, in base64.
pub(crate) fn encode_v2(bytes: &[u8]) -> String {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let deflated = encoder.write_all(bytes).and_then(|()| encoder.finish());
    let deflated = deflated.expect("writing to memory does not fail");
    let length = (deflated.len() as u32).to_be_bytes();
    BASE64.encode([&DEFLATED_COOKIE[..], &length, &deflated].concat())
}

/// Shared empty histogram for unallocated distributions.
static EMPTY: LazyLock<Histogram<u64>> = LazyLock::new(growing);

/// A measured quantity: a histogram and the number of clamped values.
#[derive(Debug, Clone, Default)]
pub struct Distribution {
    /// Allocated on first record unless preallocated.
    histogram: Option<Histogram<u64>>,
    clamped: u64,
}

impl PartialEq for Distribution {
    fn eq(&self, other: &Self) -> bool {
        self.clamped == other.clamped && self.recorded().eq(other.recorded())
    }
}

impl Distribution {
    /// Records a value in nanoseconds. A value outside 1 ns to 1 h is recorded at the bound and counted as clamped.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        let bounded = ns.clamp(LOWEST_NS, HIGHEST_NS);
        self.clamped += u64::from(bounded != ns);
        self.get_or_init()
            .record(bounded)
            .expect("a value inside the bounds can be recorded");
    }

    /// Adds all values of `other`. The result is exact and independent of the order.
    #[inline]
    pub fn merge(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.get_or_init()
            .add(other.histogram())
            .expect("histograms of one shape can be added");
        self.clamped += other.clamped;
    }

    /// Returns the recorded values, in nanoseconds, with their counts.
    fn recorded(&self) -> impl Iterator<Item = (u64, u64)> {
        let steps = self.histogram().iter_recorded();
        steps.map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    /// Returns the histogram, with values in nanoseconds. It may have no counts above the largest value, if it was not
    /// [decoded](Self::decode).
    pub fn histogram(&self) -> &Histogram<u64> {
        self.histogram.as_ref().unwrap_or_else(|| &EMPTY)
    }

    /// Returns the histogram, allocating it if needed. Its constructor writes zeros to all pages, so the memory is
    /// resident.
    #[inline]
    fn get_or_init(&mut self) -> &mut Histogram<u64> {
        self.histogram.get_or_insert_with(growing)
    }

    /// Returns the number of values outside 1 ns to 1 h.
    pub fn clamped(&self) -> u64 {
        self.clamped
    }

    /// Returns the number of values recorded.
    pub fn len(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::len)
    }

    /// Returns true if nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value at `quantile` (0 to 1) in nanoseconds, or `None` if nothing was recorded.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        (!self.is_empty()).then(|| self.histogram().value_at_quantile(quantile))
    }

    /// Removes all values and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        if !self.is_empty() {
            self.get_or_init().reset();
            self.clamped = 0;
        }
    }

    /// Encodes the histogram as text without loss: HdrHistogram V2, deflated, in base64, as in the interval logs of all
    /// HdrHistogram ports.
    #[inline]
    pub fn encode(&self) -> String {
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(self.histogram(), &mut bytes)
            .expect("writing to memory does not fail");
        // The counts are the same in any shape, and the shape is the common one.
        bytes[8..HEADER].copy_from_slice(&COMMON[8..]);
        encode_v2(&bytes)
    }

    /// Decodes the output of [`encode`](Self::encode).
    ///
    /// # Errors
    /// The text is not base64, or not a V2 histogram of the common shape.
    pub fn decode(text: &str, clamped: u64) -> Result<Self, DecodeError> {
        let mut distribution = Self {
            histogram: Some(histogram()),
            clamped: 0,
        };
        Decoder::new().add(text, clamped, &mut distribution)?;
        Ok(distribution)
    }
}

/// The reason why a stored histogram cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The text is not base64.
    #[error("the histogram is not base64 text: check whether the file was truncated or edited")]
    Base64,
    /// The bytes are not a V2 histogram of the common shape.
    #[error("the histogram cannot be decoded: {0}")]
    Histogram(String),
}

/// A series of a driver: the index of its name in the driver's list of series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Series(pub usize);

/// Counters by name.
pub type Counts = BTreeMap<String, u64>;

/// Adds `count` to the counter `name`.
#[inline]
pub fn add(counts: &mut Counts, name: &str, count: u64) {
    match counts.get_mut(name) {
        Some(total) => *total += count,
        None => {
            counts.insert(name.to_owned(), count);
        }
    }
}

/// The part of a tally that falls into the measured time, whenever the operations started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Counters of the measured time, by name.
    pub counts: Counts,
    /// Operations that failed in the measured time.
    pub failed: u64,
    /// Response times against due times, both in seconds, to find out whether response times grew during the run.
    pub responses: RegressionSums,
}

impl Measured {
    /// Adds the part of another shard.
    pub fn merge(&mut self, other: &Self) {
        merge_counts(&mut self.counts, &other.counts);
        self.failed += other.failed;
        self.responses.merge(&other.responses);
    }
}

/// Mergeable histograms and counters of a shard, a second or a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Tally {
    specs: &'static [SeriesSpec],
    series: Vec<Distribution>,
    /// Lateness of the driver when starting operations that it was free to start, in nanoseconds.
    pub lag: Distribution,
    /// Counters by name.
    pub counts: Counts,
    /// Operations that failed, by kind.
    pub errors: Counts,
    /// The part of the tally that falls into the measured time.
    pub measured: Measured,
}

impl Tally {
    /// Creates an empty tally with one distribution for each series.
    pub fn new(specs: &'static [SeriesSpec]) -> Self {
        Self {
            specs,
            series: specs.iter().map(|_| Distribution::default()).collect(),
            lag: Distribution::default(),
            counts: Counts::new(),
            errors: Counts::new(),
            measured: Measured::default(),
        }
    }

    /// Creates an empty tally with preallocated memory for the lag and the series that are `recorded`, so that
    /// recording their values up to 33 ms neither allocates nor faults a page in. The other series accept values too.
    pub fn resident(specs: &'static [SeriesSpec], recorded: impl Fn(Series) -> bool) -> Self {
        let mut tally = Self::new(specs);
        for (index, values) in tally.series.iter_mut().enumerate() {
            if recorded(Series(index)) {
                values.get_or_init();
            }
        }
        tally.lag.get_or_init();
        tally
    }

    /// Creates an empty tally with the same series.
    pub fn another(&self) -> Self {
        Self::new(self.specs)
    }

    /// Records a value of a series, in nanoseconds.
    #[inline]
    pub fn record(&mut self, series: Series, ns: u64) {
        self.series[series.0].record(ns);
    }

    /// Adds to a counter.
    #[inline]
    pub fn count(&mut self, name: impl AsRef<str>, count: u64) {
        add(&mut self.counts, name.as_ref(), count);
    }

    /// Counts one failed operation by its kind.
    #[inline]
    pub fn error(&mut self, kind: &str) {
        add(&mut self.errors, kind, 1);
    }

    /// Returns the series with their names, in the driver's order.
    pub fn series(&self) -> impl Iterator<Item = (&'static str, &Distribution)> {
        let names = self.specs.iter().map(|series| series.name.as_ref());
        names.zip(&self.series)
    }

    /// Returns a series.
    pub fn distribution(&self, series: Series) -> &Distribution {
        &self.series[series.0]
    }

    /// Returns a counter, or 0 if nothing was counted.
    pub fn counted(&self, name: impl AsRef<str>) -> u64 {
        self.counts.get(name.as_ref()).copied().unwrap_or(0)
    }

    /// Adds all values of `values` to a series.
    pub fn merge_series(&mut self, series: Series, values: &Distribution) {
        self.series[series.0].merge(values);
    }

    /// Adds all values of `other`. The result is exact and independent of the order.
    ///
    /// # Panics
    /// If the two tallies belong to different drivers.
    #[inline]
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(
            self.specs, other.specs,
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

    /// Returns true if nothing was recorded or counted.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
            && self.errors.is_empty()
            && self.measured == Measured::default()
            && self.lag.is_empty()
            && self.series.iter().all(Distribution::is_empty)
    }

    /// Removes everything and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.series.iter_mut().for_each(Distribution::clear);
        self.lag.clear();
        self.counts.clear();
        self.errors.clear();
        self.measured = Measured::default();
    }

    /// Converts the tally to its portable form, for a result file or another process. Empty series are left out.
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

    /// Adds all values of a tally in its portable form. After an error, some of them may have been added.
    ///
    /// # Errors
    /// A histogram cannot be decoded, or the driver does not have one of the series.
    pub fn add_packed(
        &mut self,
        packed: &PackedTally,
        decoder: &mut Decoder,
    ) -> Result<(), DecodeError> {
        for (name, value) in &packed.series {
            let index = self.specs.iter().position(|known| known.name == *name);
            let index = index.ok_or_else(|| {
                DecodeError::Histogram(format!(
                    "the series `{name}` is unknown: check whether it was written by another version"
                ))
            })?;
            decoder.add(&value.histogram, value.clamped, &mut self.series[index])?;
        }
        if let Some(lag) = &packed.lag {
            decoder.add(&lag.histogram, lag.clamped, &mut self.lag)?;
        }
        merge_counts(&mut self.counts, &packed.counts);
        merge_counts(&mut self.errors, &packed.errors);
        self.measured.merge(&packed.measured);
        Ok(())
    }
}

/// Adds counters name by name.
pub fn merge_counts(into: &mut Counts, from: &Counts) {
    for (name, count) in from {
        add(into, name, *count);
    }
}

/// A histogram as text, with its number of clamped values.
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
    /// The part of the tally that falls into the measured time.
    #[serde(default)]
    pub measured: Measured,
}
