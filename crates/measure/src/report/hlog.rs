//! The HdrHistogram interval log: one histogram per second and series, values in nanoseconds.
//!
//! The format is that of `HistogramLogWriter` in the Java library, version 1.3: its `HistogramLogProcessor` and the
//! analysers built on it read the file. The tag is the name of the series; where the results are of several daemons,
//! `daemon/series`. Logs of repetitions stand one after the other and the readers add them up.

use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriter, IntervalLogWriterBuilder, Tag};

use super::{Error, several_daemons};
use crate::result::RunResult;
use crate::tally::Distribution;

/// Nanoseconds of a millisecond: the `Interval_Max` column is for people, and its readers expect milliseconds.
const MAX_DIVISOR: f64 = 1e6;

/// The interval logs of all results, one after the other.
///
/// # Errors
/// A stored histogram that can't be decoded, a start time that is none.
pub fn render(results: &[RunResult]) -> Result<String, Error> {
    let several = several_daemons(results);
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

type Writer<'a> = IntervalLogWriter<'a, 'a, Vec<u8>, V2DeflateSerializer>;

fn write_run(log: &mut Vec<u8>, result: &RunResult, prefix: &str) -> Result<(), Error> {
    if result.imported.is_some() {
        // It has no histograms, and may have no time at which it began.
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
            write(
                &mut writer,
                &values,
                &tag(prefix, &series.name),
                Duration::from_secs(second.second),
                Duration::from_secs(1),
            );
        }
    }
    Ok(())
}

fn write(
    writer: &mut Writer<'_>,
    values: &Distribution,
    tag: &str,
    start: Duration,
    length: Duration,
) {
    writer
        .write_histogram(values.histogram(), start, length, Tag::new(tag))
        .expect("writing to memory does not fail");
}

/// A tag without the characters that would end it.
fn tag(prefix: &str, series: &str) -> String {
    format!("{prefix}{series}").replace([',', ' ', '\r', '\n'], "_")
}

fn started(result: &RunResult) -> Result<SystemTime, Error> {
    humantime::parse_rfc3339(&result.started_at).map_err(|_| Error::StartedAt {
        run: result.run_id.clone(),
        text: result.started_at.clone(),
    })
}
