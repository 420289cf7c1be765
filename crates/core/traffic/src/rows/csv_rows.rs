//! Rows of a CSV file (RFC 4180): a line with the names of the columns, fields in quotes, lines that end in LF or CRLF.

use std::fs::File;

use csv::{ByteRecord, Reader, ReaderBuilder};

use super::{BUFFER, MARK, Position};

/// Reads rows in order.
#[derive(Debug)]
pub(super) struct CsvRows {
    reader: Reader<File>,
    record: ByteRecord,
    columns: usize,
}

fn reader(file: File) -> Reader<File> {
    ReaderBuilder::new()
        .flexible(true)
        .buffer_capacity(BUFFER)
        .from_reader(file)
}

/// Returns the names of the columns.
pub(super) fn columns(file: File) -> Result<Vec<String>, String> {
    let mut reader = reader(file);
    let names = reader.headers().map_err(|error| shown(&error))?;
    let names = names
        .iter()
        .map(|name| name.trim_start_matches(MARK).trim());
    let names: Vec<String> = names.map(str::to_owned).collect();
    match names.iter().position(String::is_empty) {
        Some(index) => Err(format!(
            "column {} has no name: the first line names the columns",
            index + 1
        )),
        None if names.is_empty() => Err("is empty: the first line names the columns".to_owned()),
        None => Ok(names),
    }
}

impl CsvRows {
    pub(super) fn new(file: File, columns: usize) -> Result<Self, String> {
        let mut reader = reader(file);
        reader.byte_headers().map_err(|error| shown(&error))?;
        Ok(Self {
            reader,
            record: ByteRecord::new(),
            columns,
        })
    }

    pub(super) fn next(&mut self) -> Result<bool, String> {
        let read = self.reader.read_byte_record(&mut self.record);
        if !read.map_err(|error| shown(&error))? {
            return Ok(false);
        }
        if self.record.len() == self.columns {
            return Ok(true);
        }
        let line = self.record.position().map_or(0, csv::Position::line);
        Err(format!(
            "line {line} has {} fields, and the first line names {} columns: correct it; a field with a comma or a quote stands in quotes",
            self.record.len(),
            self.columns
        ))
    }

    pub(super) fn position(&self) -> Position {
        let position = self.reader.position();
        Position {
            byte: position.byte(),
            line: position.line(),
        }
    }

    pub(super) fn seek(&mut self, position: Position) -> Result<(), String> {
        let mut to = csv::Position::new();
        to.set_byte(position.byte).set_line(position.line);
        self.reader.seek(to).map_err(|error| shown(&error))
    }

    pub(super) fn field(&self, column: usize) -> &[u8] {
        self.record.get(column).unwrap_or_default()
    }
}

fn shown(error: &csv::Error) -> String {
    format!("{error}: it must be a CSV file whose first line names the columns")
}
