//! HdrHistogram interval log: one histogram per second and series, values in nanoseconds.
//!
//! The format is written by `HistogramLogWriter` in the Java library, version 1.3, so its `HistogramLogProcessor` and
//! the analysers built on it can read the file. The tag is the name of the series, or `daemon/series` if the results
//! belong to several daemons. Logs of repetitions follow each other, and the readers add them up.

use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::report::error::Error;
use crate::result::RunResult;
use crate::tally::Distribution;

/// Nanoseconds per millisecond. The `Interval_Max` column is for human readers, who expect milliseconds.
const MAX_DIVISOR: f64 = 1e6;

/// Renders the interval logs of all results, one after the other.
///
/// # Errors
/// A stored histogram cannot be decoded, or a start time is invalid.
pub fn render(results: &[RunResult]) -> Result<String, Error> {
    let several = results
        .iter()
        .any(|result| result.daemon.name != results[0].daemon.name);
    let mut log = Vec::new();
    for result in results {
        let prefix = if several {
            format!("{}/", result.daemon.name)
        } else {
            String::new()
        };
        write_run(&mut log, result, &prefix)?;
    }
    Ok(String::from_utf8(log).expect("comments, tags, numbers and base64 are UTF-8"))
}

fn write_run(log: &mut Vec<u8>, result: &RunResult, prefix: &str) -> Result<(), Error> {
    if result.imported.is_some() {
        // Imported results have no histograms and possibly no start time.
        return Ok(());
    }
    let started = started(result)?;
    let mut serializer = V2DeflateSerializer::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("[Histogram log format version 1.3]")
        .add_comment(&format!(
            "[{} against {}, run {}, {}]",
            result.driver, result.daemon.name, result.run_id, result.verdict
        ))
        .add_comment("[values in nanoseconds, Interval_Max in milliseconds; the tag is the series]")
        .with_start_time(started)
        .with_base_time(started)
        .with_max_value_divisor(MAX_DIVISOR)
        .begin_log_with(log, &mut serializer)
        .expect("writing to memory does not fail");
    for second in &result.seconds {
        for series in &second.series {
            let values = Distribution::decode(&series.histogram, series.clamped)
                .map_err(Error::histogram(result, &series.name))?;
            let tag = tag(prefix, &series.name);
            let (start, length) = (Duration::from_secs(second.second), Duration::from_secs(1));
            writer
                .write_histogram(values.histogram(), start, length, Tag::new(&tag))
                .expect("writing to memory does not fail");
        }
    }
    Ok(())
}

/// Removes characters from a tag that would end it.
fn tag(prefix: &str, series: &str) -> String {
    format!("{prefix}{series}").replace([',', ' ', '\r', '\n'], "_")
}

fn started(result: &RunResult) -> Result<SystemTime, Error> {
    humantime::parse_rfc3339(&result.started_at).map_err(|_| Error::StartedAt {
        run: result.run_id.clone(),
        text: result.started_at.clone(),
    })
}
