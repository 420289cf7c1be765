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

use csv_rows::CsvRows;
use json_lines::JsonRows;

/// Maximum number of positions that are kept: every n-th row's, with n doubled whenever they are too many.
const MOST_POSITIONS: usize = 4_096;
/// Bytes that a worker reads at once.
const BUFFER: usize = 64 * 1024;

/// A file of rows, as its first lines describe it.
#[derive(Debug)]
pub struct Rows {
    path: PathBuf,
    /// The names of the columns.
    columns: Vec<String>,
    index: Index,
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
}

impl Rows {
    /// Opens a file and reads the names of its columns: the first line of a CSV file, or the keys of the first object if
    /// the name ends in `.jsonl`, `.ndjson` or `.json`.
    ///
    /// # Errors
    /// The file can't be read, has no columns, or two of one name; `field` is where its name stands.
    pub fn open(field: &str, path: &Path) -> Result<Self, Invalid> {
        let wrong = |problem: String| Invalid::new(format!("{field} {}", path.display()), problem);
        let unreadable =
            |error: std::io::Error| wrong(format!("{error}: name a file that can be read"));
        let file = File::open(path).map_err(unreadable)?;
        if !file.metadata().map_err(unreadable)?.is_file() {
            return Err(wrong("is not a file: rows are read again from the start, so a pipe or a folder can't be used".to_owned()));
        }
        let columns = if is_json(path) {
            json_lines::columns(file)
        } else {
            csv_rows::columns(file)
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
            index: Index::default(),
        })
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
        let named = format!("{field} {}", self.path.display());
        self.count(used)
            .map_err(|problem| Invalid::new(named, problem))
    }

    fn count(&mut self, used: &[usize]) -> Result<(), String> {
        let mut format = self.format(used)?;
        let mut index = Index {
            every: 1,
            ..Index::default()
        };
        loop {
            let position = format.position();
            if !format.next()? {
                break;
            }
            index.add(position);
        }
        if index.rows == 0 {
            return Err("has no rows: add one below the names of the columns".to_owned());
        }
        self.index = index;
        Ok(())
    }

    fn format(&self, used: &[usize]) -> Result<Format, String> {
        let file = File::open(&self.path).map_err(|error| error.to_string())?;
        let buffered = BufReader::with_capacity(BUFFER, file);
        Ok(if is_json(&self.path) {
            Format::Json(Box::new(JsonRows::new(buffered, &self.columns, used)))
        } else {
            Format::Csv(Box::new(CsvRows::new(
                buffered.into_inner(),
                self.columns.len(),
            )?))
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
            format: None,
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
    fn find(&self, row: u64) -> (Position, u64) {
        (
            self.positions[(row / self.every) as usize],
            row % self.every,
        )
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
    format: Option<Format>,
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
        let changed = || "has changed since the run began: keep it as it is".to_owned();
        if self.next == self.part.end {
            let (position, between) = rows.index.find(self.part.start);
            let mut format = match self.format.take() {
                Some(format) => format,
                None => rows.format(&self.used)?,
            };
            format.seek(position)?;
            for _ in 0..between {
                if !format.next()? {
                    return Err(changed());
                }
            }
            self.format = Some(format);
            self.next = self.part.start;
            self.begins += 1;
        }
        let format = self
            .format
            .as_mut()
            .expect("it was opened with the first row");
        self.next += 1;
        if format.next()? {
            Ok(())
        } else {
            Err(changed())
        }
    }

    /// Returns a column of the current row; empty before the first one.
    #[must_use]
    pub fn field(&self, column: usize) -> &[u8] {
        match &self.format {
            Some(Format::Csv(rows)) => rows.field(column),
            Some(Format::Json(rows)) => rows.field(column),
            None => &[],
        }
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

impl Format {
    /// Reads the next row; returns false at the end.
    fn next(&mut self) -> Result<bool, String> {
        match self {
            Self::Csv(rows) => rows.next(),
            Self::Json(rows) => rows.next(),
        }
    }

    /// Returns the position of the next row.
    fn position(&self) -> Position {
        match self {
            Self::Csv(rows) => rows.position(),
            Self::Json(rows) => rows.position,
        }
    }

    fn seek(&mut self, position: Position) -> Result<(), String> {
        match self {
            Self::Csv(rows) => rows.seek(position),
            Self::Json(rows) => {
                let sought = rows.reader.seek(SeekFrom::Start(position.byte));
                sought.map_err(|error| error.to_string())?;
                rows.position = position;
                Ok(())
            }
        }
    }
}

fn is_json(path: &Path) -> bool {
    let end = path.extension().and_then(|end| end.to_str());
    end.is_some_and(|end| ["jsonl", "ndjson", "json"].contains(&end.to_ascii_lowercase().as_str()))
}

#[cfg(test)]
mod tests;
