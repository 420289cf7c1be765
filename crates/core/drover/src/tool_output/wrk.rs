//! Import of the text printed by wrk and wrk2.
//!
//! Sources: `main` and `print_stats…` in wrk's `wrk.c`, and real output of wrk 4.1.0. For wrk2 the format is taken from
//! its README.

use serde_json::json;

use super::{SeriesSummary, ToolReport, nanoseconds, to_count};

const WRK: &str = "service time of all answers, including failed ones and values that wrk adds, not from the intended start";
const WRK2: &str =
    "measured from wrk2's intended start; its timers have a resolution of a millisecond";
/// `stats_correct` in its source. In one run, a single answer out of 664 that took 1 s gave a p90 of 594 ms.
const CORRECTED: &str = "wrk corrects its latencies for coordinated omission by the mean interval: it adds values for requests \
    that it never sent, so its percentiles cover more values than there were answers";
const CALIBRATED: &str = "wrk2 records no latency while it calibrates, which is its first 10 s";
const IN_FLIGHT: &str = "wrk's figures exclude requests that were still open at the deadline";
const STATUS: &str = "wrk's count of non-2xx or 3xx responses covers statuses above 399, so redirects count as ok here";

pub(super) fn is_output(text: &str) -> bool {
    let mut lines = text.lines();
    lines.any(|line| line.starts_with("Running ") && line.contains(" test @ "))
}

/// The kind of latency in a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum LatencyPart {
    #[default]
    Plain,
    /// wrk2: measured from the intended start.
    Recorded,
    /// wrk2: measured from the send time.
    Uncorrected,
}

/// Parser state over the lines of one run.
#[derive(Debug, Default)]
struct Parser {
    run: ToolReport,
    /// The latencies of each [`LatencyPart`], and the part that the lines are about.
    latencies: [SeriesSummary; 3],
    part: LatencyPart,
    is_wrk2: bool,
    requests: Option<u64>,
    began: bool,
    load: bool,
    ended: bool,
}

pub(super) fn read(text: &str) -> Result<ToolReport, String> {
    let mut parser = Parser::default();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let at = |problem: String| format!("line {}: {problem}: `{line}`", index + 1);
        if line.starts_with("Running ") && parser.began {
            return Err(at(
                "a second run begins: import each run from its own file".to_owned()
            ));
        }
        parser.line(line).map_err(at)?;
    }
    parser.end()
}

impl Parser {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(rest) = line.strip_prefix("Running ") {
            return self.begin(rest);
        }
        if line.contains(" threads and ") && line.ends_with(" connections") {
            return self.load(line);
        }
        if line.starts_with("Thread calibration") {
            self.is_wrk2 = true;
        } else if let Some(rest) = line.strip_prefix("Latency Distribution") {
            self.distribution(rest);
        } else if let Some(rest) = line.strip_prefix("Latency ") {
            self.stats(rest)?;
        } else if let Some(rest) = line.strip_prefix("#[") {
            self.footer(rest)?;
        } else if line.contains(" requests in ") {
            self.requests(line)?;
        } else if let Some(rest) = line.strip_prefix("Socket errors: ") {
            self.errors(rest)?;
        } else if let Some(rest) = line.strip_prefix("Non-2xx or 3xx responses: ") {
            let count = count(rest).ok_or("expected a count of answers")?;
            self.run.fail("status", count);
        } else if let Some(rest) = line.strip_prefix("Transfer/sec:") {
            size(rest).ok_or("expected a size")?;
            self.ended = true;
        } else if let Some((percentile, value)) = line.split_once('%') {
            self.percentile(percentile, value);
        } else if self.is_wrk2 {
            self.spectrum(line);
        }
        Ok(())
    }

    /// `10s test @ http://127.0.0.1:8080/`
    fn begin(&mut self, rest: &str) -> Result<(), String> {
        let (length, url) = rest
            .split_once(" test @ ")
            .ok_or("expected `Running TIME test @ URL`")?;
        self.began = true;
        self.run.sentence = format!("for {length} at {url}");
        self.run.plan.insert("duration", json!(length));
        self.run.plan.insert("url", json!(url));
        self.run.target = Some(url.to_owned());
        Ok(())
    }

    /// `2 threads and 100 connections`
    fn load(&mut self, line: &str) -> Result<(), String> {
        let numbers = line
            .strip_suffix(" connections")
            .and_then(|rest| rest.split_once(" threads and "));
        let (threads, connections) = numbers
            .and_then(|(threads, connections)| Some((count(threads)?, count(connections)?)))
            .ok_or("expected `N threads and M connections`")?;
        self.load = true;
        self.run.threads = threads;
        self.run.level = connections.to_string();
        self.run.plan.insert("threads", json!(threads));
        self.run.plan.insert("connections", json!(connections));
        self.run.sentence = format!(
            "{threads} threads and {connections} connections {}",
            self.run.sentence
        );
        Ok(())
    }

    /// Empty, or ` (HdrHistogram - Recorded Latency)`.
    fn distribution(&mut self, rest: &str) {
        self.is_wrk2 |= rest.contains("HdrHistogram");
        self.part = match rest {
            rest if rest.contains("Uncorrected") => LatencyPart::Uncorrected,
            rest if rest.contains("HdrHistogram") => LatencyPart::Recorded,
            _ => LatencyPart::Plain,
        };
    }

    /// `377.54us  690.58us  12.21ms   96.05%`: mean, deviation, largest, share within a deviation.
    fn stats(&mut self, rest: &str) -> Result<(), String> {
        let mut values = rest.split_whitespace();
        let mut next = || values.next().ok_or("expected three times and a share");
        let (mean, _deviation, largest) = (next()?, next()?, next()?);
        let plain = &mut self.latencies[LatencyPart::Plain as usize];
        plain.mean_ns = time(mean);
        plain.max_ns = time(largest).map(|ns| ns.round() as u64);
        Ok(())
    }

    fn series(&mut self) -> &mut SeriesSummary {
        &mut self.latencies[self.part as usize]
    }

    /// `50` or `50.000`, and its time.
    fn percentile(&mut self, percentile: &str, value: &str) {
        let (Ok(percentile), Some(ns)) = (percentile.trim().parse::<f64>(), time(value.trim()))
        else {
            return;
        };
        let ns = Some(ns.round() as u64);
        let series = self.series();
        match percentile {
            50.0 => series.p50_ns = ns,
            75.0 => series.p75_ns = ns,
            90.0 => series.p90_ns = ns,
            99.0 => series.p99_ns = ns,
            99.9 => series.p999_ns = ns,
            _ => {}
        }
    }

    /// `10.015     0.950000        37543        20.00`: milliseconds and quantile. wrk2 prints the other percentiles
    /// separately.
    fn spectrum(&mut self, line: &str) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let [value, "0.950000", _, _] = fields[..] {
            let seconds = value.parse::<f64>().map(|ms| ms / 1e3);
            let ns = seconds.ok().and_then(nanoseconds);
            self.series().p95_ns = ns.map(|ns| ns.round() as u64);
        }
    }

    /// `Mean    =   9.747, StdDeviation   =   4.928]` and `Max     =  26.592, Total count    =  16000]` of wrk2, in
    /// milliseconds.
    fn footer(&mut self, rest: &str) -> Result<(), String> {
        let of = |name: &str| {
            let mut fields = rest.trim_end_matches(']').split(',');
            let found = fields.find_map(|field| field.trim().strip_prefix(name));
            found.map(|value| value.trim_start_matches([' ', '=']).trim().to_owned())
        };
        let milliseconds = |text: String| nanoseconds(text.parse::<f64>().ok()? / 1e3);
        if let Some(mean) = of("Mean") {
            self.series().mean_ns = milliseconds(mean);
        }
        if let Some(largest) = of("Max") {
            self.series().max_ns = milliseconds(largest).map(|ns| ns.round() as u64);
        }
        if let Some(total) = of("Total count") {
            let total = count(&total).ok_or("expected a total count")?;
            self.series().count = Some(total);
        }
        Ok(())
    }

    /// `149731 requests in 2.10s, 180.49MB read`
    fn requests(&mut self, line: &str) -> Result<(), String> {
        let expected = "expected `N requests in TIME, SIZE read`";
        let (requests, rest) = line.split_once(" requests in ").ok_or(expected)?;
        let (length, bytes) = rest.split_once(", ").ok_or(expected)?;
        let bytes = bytes.strip_suffix(" read").and_then(size);
        self.requests = Some(count(requests).ok_or(expected)?);
        self.run.wall_s = time(length).ok_or(expected)? / 1e9;
        self.run
            .counts
            .insert("bytes".to_owned(), bytes.ok_or(expected)?);
        Ok(())
    }

    /// `connect 0, read 46, write 0, timeout 16`
    fn errors(&mut self, rest: &str) -> Result<(), String> {
        for field in rest.split(", ") {
            let known = field.split_once(' ').and_then(|(kind, number)| {
                let kinds = ["connect", "read", "write", "timeout"];
                Some((
                    kinds.into_iter().find(|known| *known == kind)?,
                    count(number)?,
                ))
            });
            let (kind, count) =
                known.ok_or("expected counts of connect, read, write and timeout")?;
            self.run.fail(kind, count);
        }
        Ok(())
    }

    fn end(mut self) -> Result<ToolReport, String> {
        let missing = [
            (!self.began, "Running TIME test @ URL"),
            (!self.load, "N threads and M connections"),
            (self.requests.is_none(), "N requests in TIME, SIZE read"),
            (!self.ended, "Transfer/sec: SIZE"),
        ];
        if let Some((_, line)) = missing.into_iter().find(|(missing, _)| *missing) {
            return Err(format!(
                "the line `{line}` is missing: check whether the file was cut off"
            ));
        }
        let requests = self.requests.unwrap_or_default();
        let of = |kind: &str| self.run.errors.get(kind).copied().unwrap_or(0);
        let (status, timeout) = (of("status"), of("timeout"));
        // Both are kinds of answers; requests that failed otherwise had none.
        let answered = requests.checked_sub(status + timeout);
        self.run.ok = answered.ok_or_else(|| {
            format!("{status} answers with another status plus {timeout} late answers exceed the {requests} requests")
        })?;
        self.run.counts.insert("answers".to_owned(), requests);
        self.add_pitfalls(status, timeout);
        self.name(requests);
        Ok(self.run)
    }

    fn add_pitfalls(&mut self, status: u64, timeout: u64) {
        let pitfalls = &mut self.run.pitfalls;
        pitfalls.push(IN_FLIGHT.to_owned());
        let of_tool = if self.is_wrk2 { CALIBRATED } else { CORRECTED };
        pitfalls.push(of_tool.to_owned());
        pitfalls.push(STATUS.to_owned());
        if timeout > 0 {
            pitfalls.push(format!("wrk's percentiles exclude {timeout} answers that arrived after the timeout, and none of its figures includes requests that were never answered"));
        }
        if status > 0 && timeout > 0 {
            pitfalls.push(
                "an answer that was both late and of another status is counted twice".to_owned(),
            );
        }
    }

    fn name(&mut self, requests: u64) {
        let run = &mut self.run;
        (run.driver, run.times) = if self.is_wrk2 {
            ("wrk2", WRK2.to_owned())
        } else {
            ("wrk", WRK.to_owned())
        };
        if requests == 0 {
            return;
        }
        let [mut plain, mut recorded, mut uncorrected] = std::mem::take(&mut self.latencies);
        if self.is_wrk2 && recorded.is_empty() {
            recorded = std::mem::take(&mut plain);
        }
        plain.name = "service".to_owned();
        recorded.name = "response".to_owned();
        uncorrected.name = "service".to_owned();
        run.series = if self.is_wrk2 {
            vec![recorded, uncorrected]
        } else {
            vec![plain]
        };
    }
}

/// `149731`, optionally with thousands separators.
fn count(text: &str) -> Option<u64> {
    let text = text.trim().replace(',', "");
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| to_count(text.parse().ok()?)).flatten()
}

/// `262.00us`, `3.66ms`, `2.10s`, `1.00m`, in nanoseconds; `None` for `-nan`.
fn time(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 5] = [
        ("us", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    nanoseconds(scaled(text, &UNITS)?)
}

/// `180.49MB`, in bytes: a KB of wrk is 1,024 bytes.
fn size(text: &str) -> Option<u64> {
    const KIB: f64 = 1024.0;
    const UNITS: [(&str, f64); 6] = [
        ("KB", KIB),
        ("MB", KIB * KIB),
        ("GB", KIB * KIB * KIB),
        ("TB", KIB * KIB * KIB * KIB),
        ("PB", KIB * KIB * KIB * KIB * KIB),
        ("B", 1.0),
    ];
    to_count(scaled(text, &UNITS)?.round())
}

/// Parses the number before the first unit that the text ends with.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let found = units
        .iter()
        .find_map(|(unit, scale)| Some((text.trim().strip_suffix(unit)?, scale)));
    let (number, scale) = found?;
    Some(number.parse::<f64>().ok()? * scale)
}
