//! Rows of a CSV or JSON lines file, read from the disk in the run: no client has a copy, and the memory of a worker is one
//! buffer, however large the file is.
//!
//! Before the run the file is read once: each row is checked, and the positions of some thousand rows are kept. Each
//! worker then reads its own part of the file in order, such as the second half of two, and begins it again at its end.
//! So every row is used once before one is used again, if the workers do equally much. Reading ahead is the kernel's.

use std::fs::File;
use std::io::{BufReader, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use load::plan::Invalid;
use load::schedule::Share;

mod csv_rows;
mod json_lines;
mod log_lines;

use csv_rows::CsvRows;
use json_lines::JsonRows;
use log_lines::LogRows;

/// Maximum number of positions that are kept: every n-th row's, with n doubled whenever they are too many.
const MOST_POSITIONS: usize = 4_096;
/// The UTF-8 byte order mark that some programs put at the begin of a file.
const MARK: &str = "\u{feff}";
/// Bytes that a worker reads at once.
const BUFFER: usize = 64 * 1024;

/// A file of rows, as its first lines describe it.
#[derive(Debug)]
pub struct Rows {
    path: PathBuf,
    /// The names of the columns.
    columns: Vec<String>,
    kind: Kind,
    /// The column whose value decides which rows count, and that value.
    only: Option<(usize, Box<str>)>,
    index: Index,
    ignored: Ignored,
}

/// The formats of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Csv,
    Json,
    Log,
}

/// Lines of a file that are not rows, counted by [`Rows::check`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ignored {
    /// Rows with another value in the column that decides: requests with another method.
    pub others: u64,
    /// Lines of an access log that are not requests.
    pub unreadable: u64,
    /// The first one of them, from 1.
    pub first_unreadable: u64,
}

/// The positions of every n-th row.
#[derive(Debug, Default)]
struct Index {
    every: u64,
    positions: Vec<Position>,
    /// Number of rows; 0 before they are counted.
    rows: u64,
}

/// The begin of a row: its offset in bytes and its line, from 1.
#[derive(Debug, Clone, Copy)]
struct Position {
    byte: u64,
    line: u64,
}

/// A way to read rows in order.
#[derive(Debug)]
enum Format {
    Csv(Box<CsvRows>),
    Json(Box<JsonRows>),
    Log(Box<LogRows>),
}

/// An open file of rows.
#[derive(Debug)]
pub(crate) struct RowFile {
    format: Format,
    only: Option<(usize, Box<str>)>,
    others: u64,
}

impl Rows {
    /// Opens a file and reads the names of its columns: the first line of a CSV file, or the keys of the first object if
    /// the name ends in `.jsonl`, `.ndjson` or `.json`.
    ///
    /// # Errors
    /// The file can't be read, has no columns, or two of one name; `field` is where its name stands.
    pub fn open(field: &str, path: &Path) -> Result<Self, Invalid> {
        let kind = if is_json(path) { Kind::Json } else { Kind::Csv };
        Self::open_as(kind, field, path)
    }

    /// Opens a log: CSV or JSON lines by its name, otherwise an access log in the common or combined format.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub fn open_log(field: &str, path: &Path) -> Result<Self, Invalid> {
        let is_csv = path
            .extension()
            .is_some_and(|end| end.eq_ignore_ascii_case("csv"));
        let kind = match is_json(path) {
            true => Kind::Json,
            false if is_csv => Kind::Csv,
            false => Kind::Log,
        };
        Self::open_as(kind, field, path)
    }

    fn open_as(kind: Kind, field: &str, path: &Path) -> Result<Self, Invalid> {
        let wrong = |problem: String| Invalid::new(format!("{field} {}", path.display()), problem);
        let unreadable =
            |error: std::io::Error| wrong(format!("{error}: name a file that can be read"));
        let file = File::open(path).map_err(unreadable)?;
        if !file.metadata().map_err(unreadable)?.is_file() {
            return Err(wrong("is not a file: rows are read again from the start, so a pipe or a folder can't be used".to_owned()));
        }
        let columns = match kind {
            Kind::Json => json_lines::columns(file),
            Kind::Csv => csv_rows::columns(file),
            Kind::Log => Ok(log_lines::COLUMNS.map(str::to_owned).to_vec()),
        };
        let columns = columns.map_err(wrong)?;
        for (index, name) in columns.iter().enumerate() {
            if columns[..index].contains(name) {
                return Err(wrong(format!("has two columns `{name}`: rename one")));
            }
        }
        Ok(Self {
            path: path.to_owned(),
            columns,
            kind,
            only: None,
            index: Index::default(),
            ignored: Ignored::default(),
        })
    }

    /// Counts only rows with this value in a column: the others are not rows.
    pub(crate) fn keep_only(&mut self, column: usize, value: &str) {
        self.only = Some((column, value.into()));
    }

    /// Returns the lines that are not rows; none before [`check`](Self::check).
    #[must_use]
    pub fn ignored(&self) -> Ignored {
        self.ignored
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the names of the columns.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the number of rows; 0 before [`check`](Self::check).
    #[must_use]
    pub fn len(&self) -> u64 {
        self.index.rows
    }

    /// Returns true if there are no rows, or they were not counted yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads the file to its end: checks that each row has the `used` columns, and counts them.
    ///
    /// # Errors
    /// The first row that is wrong, with its line; or the file has no rows.
    pub fn check(&mut self, field: &str, used: &[usize]) -> Result<(), Invalid> {
        self.check_each(field, used, |_| Ok(()))
    }

    /// As [`check`](Self::check), with a check of each row.
    pub(crate) fn check_each(
        &mut self,
        field: &str,
        used: &[usize],
        check: impl FnMut(&RowFile) -> Result<(), String>,
    ) -> Result<(), Invalid> {
        let named = format!("{field} {}", self.path.display());
        self.count(used, check)
            .map_err(|problem| Invalid::new(named, problem))
    }

    fn count(
        &mut self,
        used: &[usize],
        mut check: impl FnMut(&RowFile) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut rows = self.open_rows(used)?;
        let mut index = Index {
            every: 1,
            ..Index::default()
        };
        loop {
            let position = rows.position();
            if !rows.next()? {
                break;
            }
            check(&rows).map_err(|problem| format!("line {}: {problem}", rows.line()))?;
            index.add(position);
        }
        let ignored = rows.ignored();
        if index.rows == 0 {
            return Err(self.without_rows(ignored));
        }
        (self.index, self.ignored) = (index, ignored);
        Ok(())
    }

    fn without_rows(&self, ignored: Ignored) -> String {
        match &self.only {
            Some((_, method)) if ignored.others > 0 => format!(
                "has no request with the method {method}, and {} with others: set the method to one of it",
                ignored.others
            ),
            _ if ignored.unreadable > 0 => "has no request in the common or combined log format: name a log of nginx or Apache, or convert it to CSV (.csv) or JSON lines (.jsonl)".to_owned(),
            _ if self.kind == Kind::Log => "has no requests: name a log with some".to_owned(),
            _ => "has no rows: add one below the names of the columns".to_owned(),
        }
    }

    pub(crate) fn open_rows(&self, used: &[usize]) -> Result<RowFile, String> {
        let file = File::open(&self.path).map_err(|error| error.to_string())?;
        let buffered = |file| BufReader::with_capacity(BUFFER, file);
        let format = match self.kind {
            Kind::Json => {
                let mut used = used.to_vec();
                used.extend(self.only.iter().map(|(column, _)| *column));
                Format::Json(Box::new(JsonRows::new(
                    buffered(file),
                    &self.columns,
                    &used,
                )))
            }
            Kind::Csv => Format::Csv(Box::new(CsvRows::new(file, self.columns.len())?)),
            Kind::Log => Format::Log(Box::new(LogRows::new(buffered(file)))),
        };
        Ok(RowFile {
            format,
            only: self.only.clone(),
            others: 0,
        })
    }

    /// Creates the reader of a worker's part; it opens the file with its first row.
    #[must_use]
    pub fn reader(&self, share: Share, used: &[usize]) -> RowReader {
        let part =
            |index: u64| (u128::from(self.len()) * u128::from(index) / u128::from(share.of)) as u64;
        let (mut first, mut end) = (part(share.index), part(share.index + 1));
        if first == end {
            // More workers than rows.
            first = share.index % self.len().max(1);
            end = first + 1;
        }
        RowReader {
            part: first..end,
            next: end,
            begins: 0,
            used: used.to_vec(),
            rows: None,
            failed: None,
        }
    }
}

impl Index {
    fn add(&mut self, position: Position) {
        if self.rows.is_multiple_of(self.every) {
            self.positions.push(position);
        }
        self.rows += 1;
        if self.positions.len() == MOST_POSITIONS {
            let mut keep = false;
            self.positions.retain(|_| {
                keep = !keep;
                keep
            });
            self.every *= 2;
        }
    }

    /// Returns the last known position that is not behind a row, and the number of rows between both.
    fn find(&self, row: u64) -> Option<(Position, u64)> {
        let position = self.positions.get((row / self.every) as usize)?;
        Some((*position, row % self.every))
    }
}

/// The rows of one worker, one after the other.
#[derive(Debug)]
pub struct RowReader {
    /// The rows of the worker.
    part: std::ops::Range<u64>,
    next: u64,
    /// Number of times that the part was begun.
    begins: u64,
    used: Vec<usize>,
    rows: Option<RowFile>,
    failed: Option<String>,
}

impl RowReader {
    /// Goes on to the next row; after the last one of the worker's part, its first one again. An error is kept, and the
    /// last row stays.
    pub fn advance(&mut self, rows: &Rows) {
        if self.failed.is_none()
            && let Err(problem) = self.try_advance(rows)
        {
            self.failed = Some(format!("{}: {problem}", rows.path.display()));
        }
    }

    fn try_advance(&mut self, rows: &Rows) -> Result<(), String> {
        if self.next == self.part.end {
            self.seek(rows, self.part.start)?;
            self.begins += 1;
        }
        self.read(self.next + 1)
    }

    /// Goes to the row with this number among all rows of the file. It costs little if numbers hardly ever fall. An error is
    /// kept, and the last row stays.
    pub fn go_to(&mut self, rows: &Rows, number: u64) {
        if self.failed.is_none()
            && let Err(problem) = self.try_go_to(rows, number)
        {
            self.failed = Some(format!("{}: {problem}", rows.path.display()));
        }
    }

    fn try_go_to(&mut self, rows: &Rows, number: u64) -> Result<(), String> {
        let is_behind = self.rows.is_none() || number + 1 < self.next;
        if is_behind || number - (self.next.max(1) - 1) > rows.index.every {
            self.seek(rows, number)?;
        }
        self.read(number + 1)
    }

    /// Makes a row the next one.
    fn seek(&mut self, rows: &Rows, row: u64) -> Result<(), String> {
        let (position, between) = rows.index.find(row).ok_or_else(changed)?;
        let mut file = match self.rows.take() {
            Some(file) => file,
            None => rows.open_rows(&self.used)?,
        };
        file.format.seek(position)?;
        self.rows = Some(file);
        self.next = row - between;
        self.read(row)
    }

    /// Reads up to the row before `end`.
    fn read(&mut self, end: u64) -> Result<(), String> {
        let rows = self
            .rows
            .as_mut()
            .expect("it was opened with the first row");
        while self.next < end {
            self.next += 1;
            if !rows.next()? {
                return Err(changed());
            }
        }
        Ok(())
    }

    /// Returns a column of the current row; empty before the first one.
    #[must_use]
    pub fn field(&self, column: usize) -> &[u8] {
        self.rows.as_ref().map_or(&[], |rows| rows.field(column))
    }

    /// Returns how often the worker has begun its part again.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.begins.saturating_sub(1)
    }

    /// Takes the reason why rows can't be read any more.
    pub fn take_failure(&mut self) -> Option<String> {
        self.failed.take()
    }
}

impl RowFile {
    /// Reads the next row; returns false at the end.
    pub(crate) fn next(&mut self) -> Result<bool, String> {
        while self.format.next()? {
            match &self.only {
                Some((column, value)) if self.field(*column) != value.as_bytes() => {
                    self.others += 1;
                }
                _ => return Ok(true),
            }
        }
        Ok(false)
    }

    /// Returns a column of the current row.
    pub(crate) fn field(&self, column: usize) -> &[u8] {
        match &self.format {
            Format::Csv(rows) => rows.field(column),
            Format::Json(rows) => rows.field(column),
            Format::Log(rows) => rows.field(column),
        }
    }

    /// Returns the position of the next row.
    fn position(&self) -> Position {
        match &self.format {
            Format::Csv(rows) => rows.position(),
            Format::Json(rows) => rows.position,
            Format::Log(rows) => rows.position,
        }
    }

    /// Returns the line of the current row, from 1: its last one, if it has several.
    fn line(&self) -> u64 {
        self.position().line.saturating_sub(1)
    }

    fn ignored(&self) -> Ignored {
        let (unreadable, first_unreadable) = match &self.format {
            Format::Log(rows) => (rows.skipped, rows.first_skipped),
            _ => (0, 0),
        };
        Ignored {
            others: self.others,
            unreadable,
            first_unreadable,
        }
    }
}

impl Format {
    /// Reads the next row; returns false at the end.
    fn next(&mut self) -> Result<bool, String> {
        match self {
            Self::Csv(rows) => rows.next(),
            Self::Json(rows) => rows.next(),
            Self::Log(rows) => rows.next(),
        }
    }

    fn seek(&mut self, position: Position) -> Result<(), String> {
        let (reader, next) = match self {
            Self::Csv(rows) => return rows.seek(position),
            Self::Json(rows) => (&mut rows.reader, &mut rows.position),
            Self::Log(rows) => (&mut rows.reader, &mut rows.position),
        };
        let sought = reader.seek(SeekFrom::Start(position.byte));
        sought.map_err(|error| error.to_string())?;
        *next = position;
        Ok(())
    }
}

pub(crate) fn changed() -> String {
    "has changed since the run began: keep it as it is".to_owned()
}

fn is_json(path: &Path) -> bool {
    let end = path.extension().and_then(|end| end.to_str());
    end.is_some_and(|end| ["jsonl", "ndjson", "json"].contains(&end.to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests;
