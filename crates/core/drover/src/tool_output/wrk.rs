//! Import of the text printed by wrk and wrk2.
//!
//! Sources: `main` and `print_stats…` in wrk's `wrk.c`, and real output of wrk 4.1.0. For wrk2 the format is taken from
//! its README.

use measure::units;
use serde_json::json;

use super::{Rate, Times, ToolReport, length, to_count};

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
    text.lines().any(|line| begin(line).is_some())
}

/// `Running 10s test @ http://127.0.0.1:8080/`: returns the length and the URL.
fn begin(line: &str) -> Option<(&str, &str)> {
    line.trim().strip_prefix("Running ")?.split_once(" test @ ")
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
    latencies: [Times; 3],
    /// Absent before the first distribution.
    part: Option<LatencyPart>,
    is_wrk2: bool,
    requests: Option<u64>,
    /// The planned length of the run.
    planned_s: f64,
    began: bool,
    load: bool,
    ended: bool,
}

pub(super) fn read(text: &str) -> Result<ToolReport, String> {
    let mut parser = Parser::default();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let at = |problem: String| format!("line {}: {problem}: `{line}`", index + 1);
        if let Some((length, url)) = begin(line) {
            if parser.began {
                let problem = "a second run begins: import each run from its own file";
                return Err(at(problem.to_owned()));
            }
            parser.begin(length, url);
        } else if parser.began && !parser.ended {
            // A script may print before wrk's report, and after it.
            parser.line(line).map_err(at)?;
        }
    }
    parser.end()
}

impl Parser {
    fn line(&mut self, line: &str) -> Result<(), String> {
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
            self.statuses(rest)?;
        } else if let Some(rest) = line.strip_prefix("Requests/sec:") {
            let stated = rest.trim().parse().map_err(|_| "expected a rate")?;
            self.rate("Requests/sec", stated, self.requests);
        } else if let Some(rest) = line.strip_prefix("Transfer/sec:") {
            let stated = size(rest).ok_or("expected a size")?;
            self.rate(
                "Transfer/sec",
                stated,
                self.run.counts.get("bytes").copied(),
            );
            self.ended = true;
        } else if let Some((percentile, value)) = line.split_once('%') {
            self.percentile(percentile, value);
        } else if self.is_wrk2 {
            self.spectrum(line);
        }
        Ok(())
    }

    fn begin(&mut self, length: &str, url: &str) {
        self.began = true;
        self.planned_s = time(length);
        self.run.sentence = format!("for {length} at {url}");
        self.run.plan.insert("duration", json!(length));
        self.run.plan.insert("url", json!(url));
        self.run.target = Some(url.to_owned());
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
        self.part = Some(match rest {
            rest if rest.contains("Uncorrected") => LatencyPart::Uncorrected,
            rest if rest.contains("HdrHistogram") => LatencyPart::Recorded,
            _ => LatencyPart::Plain,
        });
    }

    /// `377.54us  690.58us  12.21ms   96.05%`: mean, deviation, largest, share within a deviation.
    fn stats(&mut self, rest: &str) -> Result<(), String> {
        let mut values = rest.split_whitespace();
        let mut next = || values.next().ok_or("expected three times and a share");
        let (mean, _deviation, largest) = (next()?, next()?, next()?);
        let plain = &mut self.latencies[LatencyPart::Plain as usize];
        plain
            .figures
            .extend([("mean", time(mean)), ("max", time(largest))]);
        Ok(())
    }

    fn series(&mut self) -> &mut Times {
        &mut self.latencies[self.part.unwrap_or_default() as usize]
    }

    fn rate(&mut self, name: &'static str, stated: f64, count: Option<u64>) {
        let rate = count.map(|count| Rate {
            name,
            stated,
            count,
        });
        self.run.rates.extend(rate);
    }

    /// `50` or `50.000`, and its time.
    fn percentile(&mut self, percentile: &str, value: &str) {
        let name = match percentile.trim().parse() {
            Ok(50.0) => "p50",
            Ok(75.0) => "p75",
            Ok(90.0) => "p90",
            Ok(99.0) => "p99",
            Ok(99.9) => "p99.9",
            _ => return,
        };
        // Before the distribution it is the output of a script.
        if self.part.is_some() {
            self.series().figures.insert(name, time(value));
        }
    }

    /// `10.015     0.950000        37543        20.00`: milliseconds and quantile. wrk2 prints the other percentiles
    /// separately.
    fn spectrum(&mut self, line: &str) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let [value, "0.950000", _, _] = fields[..] {
            self.series().figures.insert("p95", milliseconds(value));
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
        for (theirs, ours) in [("Mean", "mean"), ("Max", "max")] {
            let value = of(theirs).map(|value| (ours, milliseconds(&value)));
            self.series().figures.extend(value);
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
        let (duration, bytes) = rest.split_once(", ").ok_or(expected)?;
        let bytes = bytes.strip_suffix(" read").and_then(size);
        self.requests = Some(count(requests).ok_or(expected)?);
        self.run.wall_s = length(time(duration)).ok_or(expected)?;
        let bytes = bytes.ok_or(expected)?.round();
        self.run.count("bytes", Some(bytes));
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

    /// `46`
    fn statuses(&mut self, rest: &str) -> Result<(), String> {
        let statuses = count(rest).ok_or("expected a count of answers")?;
        let requests = self.requests.unwrap_or_default();
        if statuses > requests {
            return Err(format!(
                "these responses exceed the {requests} requests: check whether the file was edited or has the lines of several runs"
            ));
        }
        self.run.fail("status", statuses);
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
        // Since wrk 4, a timeout is a late answer. Before, and in wrk2, it is a connection without an answer.
        let late = if self.is_wrk2 || timeout > requests {
            0
        } else {
            timeout
        };
        let late_only = late.min(requests - status);
        self.run.ok = requests - status - late_only;
        self.run.errors.remove("timeout");
        self.run.fail("timeout", timeout - late + late_only);
        self.run.counts.insert("answers".to_owned(), requests);
        self.add_pitfalls(status, timeout, late);
        self.name(requests, late);
        Ok(self.run)
    }

    fn add_pitfalls(&mut self, status: u64, timeout: u64, late: u64) {
        let pitfalls = &mut self.run.pitfalls;
        pitfalls.push(IN_FLIGHT.to_owned());
        let of_tool = if self.is_wrk2 { CALIBRATED } else { CORRECTED };
        pitfalls.push(of_tool.to_owned());
        pitfalls.push(STATUS.to_owned());
        // wrk prints whole minutes and hours: 90 s are `2m`.
        if self.run.wall_s < 0.7 * self.planned_s {
            let [wall, planned] = [self.run.wall_s, self.planned_s].map(units::seconds);
            pitfalls.push(format!("it was interrupted after {wall} of {planned}"));
        }
        if late > 0 {
            pitfalls.push(format!("wrk's percentiles exclude {late} answers that arrived after the timeout, and none of its figures includes requests that were never answered"));
        } else if timeout > 0 {
            pitfalls.push("every two seconds, a timeout is counted for each connection that waits for an answer, so one request may count several times".to_owned());
        }
        if status > 0 && late > 0 {
            pitfalls.push("an answer that was both late and of another status is in both of wrk's counts; where these exceed the requests, it counts as `status` here".to_owned());
        }
    }

    /// Names the tool and its series; without an answer in time, nothing was recorded.
    fn name(&mut self, requests: u64, late: u64) {
        let run = &mut self.run;
        (run.driver, run.times) = if self.is_wrk2 {
            ("wrk2", WRK2.to_owned())
        } else {
            ("wrk", WRK.to_owned())
        };
        if requests == late {
            return;
        }
        let [mut plain, mut recorded, mut uncorrected] = std::mem::take(&mut self.latencies);
        if self.is_wrk2 && recorded.figures.is_empty() {
            recorded = std::mem::take(&mut plain);
        }
        plain.name = "service";
        recorded.name = "response";
        uncorrected.name = "service";
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

/// `262.00us`, `3.66ms`, `2.10s`, `1.00m`, in seconds; not a number for `-nan`.
fn time(text: &str) -> f64 {
    const UNITS: [(&str, f64); 5] = [
        ("us", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    scaled(text, &UNITS).unwrap_or(f64::NAN)
}

/// `12.496`, in milliseconds, as seconds.
fn milliseconds(text: &str) -> f64 {
    text.parse().map_or(f64::NAN, |ms: f64| ms / 1e3)
}

/// `180.49MB`, in bytes: a KB of wrk is 1,024 bytes.
fn size(text: &str) -> Option<f64> {
    const KIB: f64 = 1024.0;
    const UNITS: [(&str, f64); 6] = [
        ("KB", KIB),
        ("MB", KIB * KIB),
        ("GB", KIB * KIB * KIB),
        ("TB", KIB * KIB * KIB * KIB),
        ("PB", KIB * KIB * KIB * KIB * KIB),
        ("B", 1.0),
    ];
    scaled(text, &UNITS).filter(|bytes| to_count(bytes.round()).is_some())
}

/// Parses the number before the first unit that the text ends with.
fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let found = units
        .iter()
        .find_map(|(unit, scale)| Some((text.trim().strip_suffix(unit)?, scale)));
    let (number, scale) = found?;
    Some(number.parse::<f64>().ok()? * scale)
}
