//! A log whose requests are due at its times.
//!
//! Times are often whole seconds. The requests of one time are spread evenly over the log's resolution, the largest of a
//! second, a millisecond and a microsecond that all of its times are multiples of: sent at once, they would be pulses that
//! nobody made. A time that is earlier than one before it counts as that: servers log a request when it has ended.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use load::plan::Invalid;
use load::schedule::{Schedule, Share};

use crate::rows::{RowFile, Rows, changed};

mod times;

use times::TimeReader;

/// The names of a column with times.
const TIMES: [&str; 5] = ["time", "timestamp", "@timestamp", "ts", "date"];
/// The name of the column with the method.
const METHOD: &str = "method";

/// The times of a log.
#[derive(Debug)]
pub struct Replay {
    /// The index of the column with the time.
    time: usize,
    speed: f64,
    times: Times,
    failed: Arc<OnceLock<String>>,
}

/// Facts about a log, known once it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// Its first time, nanoseconds since 1970.
    first: i64,
    /// Its last time.
    last: i64,
    /// Its resolution, nanoseconds.
    step: i64,
    /// Requests whose time is before an earlier line's, and the longest time between both, nanoseconds.
    pub late: u64,
    /// See `late`.
    pub late_ns: i64,
}

impl Replay {
    /// Finds the column with the times of rows, and lets the rows have one method only, if they name it.
    ///
    /// # Errors
    /// There is no such column, or the speed is not above 0; `field` is where the file's name stands.
    pub fn new(field: &str, rows: &mut Rows, method: &str, speed: f64) -> Result<Self, Invalid> {
        let columns = rows.columns();
        let index = |name: &str| columns.iter().position(|column| column == name);
        let Some(time) = TIMES.iter().find_map(|name| index(name)) else {
            let problem = format!(
                "has no column `time`: name one so, with seconds since 1970 or RFC 3339; it has {}",
                columns.join(", ")
            );
            let field = format!("{field} {}", rows.path().display());
            return Err(Invalid::new(field, problem));
        };
        if let Some(column) = index(METHOD) {
            rows.keep_only(column, method);
        }
        Ok(Self {
            time,
            speed,
            times: Times {
                first: 0,
                last: 0,
                step: 1,
                late: 0,
                late_ns: 0,
            },
            failed: Arc::default(),
        })
    }

    /// Reads the log to its end: checks its rows and times, and counts them.
    ///
    /// # Errors
    /// The first row or time that is wrong, or a log without requests.
    pub fn check(&mut self, field: &str, rows: &mut Rows, used: &[usize]) -> Result<(), Invalid> {
        let (mut reader, mut latest) = (TimeReader::default(), None::<(i64, i64)>);
        let times = &mut self.times;
        let (mut late, mut late_ns, mut step) = (0, 0, 1_000_000_000);
        rows.check_each(field, &with(used, self.time), |row| {
            let at = reader.read(row.field(self.time))?;
            while at % step != 0 {
                step /= 1_000;
            }
            let (first, last) = latest.unwrap_or((at, at));
            late += u64::from(at < last);
            late_ns = late_ns.max(last - at);
            latest = Some((first, at.max(last)));
            Ok(())
        })?;
        let (first, last) = latest.unwrap_or_default();
        *times = Times {
            first,
            last,
            step,
            late,
            late_ns,
        };
        Ok(())
    }

    /// Returns the facts that [`check`](Self::check) found.
    #[must_use]
    pub fn times(&self) -> Times {
        self.times
    }

    /// Returns the time from the first request to the end of the last one's resolution, at its speed.
    #[must_use]
    pub fn duration(&self) -> Duration {
        let whole = self.times.last - self.times.first + self.times.step;
        Duration::from_nanos((whole as f64 / self.speed).ceil() as u64)
    }

    /// Returns the schedule of one share of the load. It reads the log by itself; an error ends it, and is
    /// [kept](Self::failure).
    #[must_use]
    pub fn schedule(&self, rows: &Rows, share: Share) -> Schedule {
        let due = rows.open_rows(&[self.time]).map(|file| DueTimes {
            rows: file,
            time: self.time,
            reader: TimeReader::default(),
            times: self.times,
            speed: self.speed,
            at: i64::MIN,
            count: 0,
            next: 0,
            ahead: None,
            left: rows.len(),
            failed: Arc::clone(&self.failed),
        });
        match due {
            Ok(due) => Schedule::listed(Box::new(due), share),
            Err(problem) => {
                let _ = self.failed.set(problem);
                Schedule::listed(Box::new(std::iter::empty()), share)
            }
        }
    }

    /// Returns the reason why times can't be read any more.
    #[must_use]
    pub fn failure(&self) -> Option<&String> {
        self.failed.get()
    }
}

/// Returns the columns with another one.
fn with(used: &[usize], column: usize) -> Vec<usize> {
    let mut used = used.to_vec();
    if !used.contains(&column) {
        used.push(column);
    }
    used
}

/// The due times of a log, in order.
#[derive(Debug)]
struct DueTimes {
    rows: RowFile,
    time: usize,
    reader: TimeReader,
    times: Times,
    speed: f64,
    /// The current time, the number of its requests, and the next one of them.
    at: i64,
    count: i64,
    next: i64,
    /// The time after it, which was read already.
    ahead: Option<i64>,
    /// Requests that were not read yet.
    left: u64,
    failed: Arc<OnceLock<String>>,
}

impl DueTimes {
    fn read(&mut self) -> Option<i64> {
        match self.try_read() {
            Ok(at) => {
                self.left -= 1;
                Some(at)
            }
            // All were read.
            Err(_) if self.left == 0 => None,
            Err(problem) => {
                let _ = self.failed.set(problem);
                None
            }
        }
    }

    fn try_read(&mut self) -> Result<i64, String> {
        if self.left == 0 || !self.rows.next()? {
            return Err(changed());
        }
        self.reader.read(self.rows.field(self.time))
    }
}

impl Iterator for DueTimes {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.next == self.count {
            self.at = self.ahead.take().or_else(|| self.read())?;
            (self.count, self.next) = (1, 0);
            while let Some(at) = self.read() {
                if at > self.at {
                    self.ahead = Some(at);
                    break;
                }
                self.count += 1;
            }
        }
        let within = i128::from(self.times.step) * i128::from(self.next) / i128::from(self.count);
        self.next += 1;
        let since = self.at - self.times.first + within as i64;
        Some((since as f64 / self.speed) as u64)
    }
}

#[cfg(test)]
mod tests;
