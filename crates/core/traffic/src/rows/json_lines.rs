//! Rows of a file with a JSON object in each line.

use std::fs::File;
use std::io::{BufRead as _, BufReader};

use serde_json::{Map, Value};

use super::{BUFFER, MARK, Position};
use crate::capture::text;

/// Reads rows in order.
#[derive(Debug)]
pub(super) struct JsonRows {
    pub(super) reader: BufReader<File>,
    /// The position of the next line.
    pub(super) position: Position,
    line: Vec<u8>,
    columns: Vec<String>,
    used: Vec<usize>,
    /// The fields of the row, by column; empty for those that are not used.
    fields: Vec<Box<[u8]>>,
}

/// Returns the keys of the first object.
pub(super) fn columns(file: File) -> Result<Vec<String>, String> {
    let mut rows = JsonRows::new(BufReader::with_capacity(BUFFER, file), &[], &[]);
    let first = rows.next_object()?;
    let first = first.ok_or("is empty: write a JSON object in each line")?;
    Ok(first.keys().cloned().collect())
}

impl JsonRows {
    pub(super) fn new(reader: BufReader<File>, columns: &[String], used: &[usize]) -> Self {
        Self {
            reader,
            position: Position { byte: 0, line: 1 },
            line: Vec::new(),
            fields: vec![Box::default(); columns.len()],
            columns: columns.to_vec(),
            used: used.to_vec(),
        }
    }

    /// Reads the object of the next line that is not empty.
    fn next_object(&mut self) -> Result<Option<Map<String, Value>>, String> {
        loop {
            self.line.clear();
            let read = self.reader.read_until(b'\n', &mut self.line);
            let read = read.map_err(|error| error.to_string())?;
            if read == 0 {
                return Ok(None);
            }
            let line = self.position.line;
            if self.position.byte == 0 && self.line.starts_with(MARK.as_bytes()) {
                self.line.drain(..MARK.len());
            }
            self.position = Position {
                byte: self.position.byte + read as u64,
                line: line + 1,
            };
            if !self.line.trim_ascii().is_empty() {
                let object = serde_json::from_slice(&self.line);
                return object.map(Some).map_err(|error| {
                    format!(
                        "line {line} is not a JSON object ({error}): write one object in each line"
                    )
                });
            }
        }
    }

    pub(super) fn next(&mut self) -> Result<bool, String> {
        let Some(object) = self.next_object()? else {
            return Ok(false);
        };
        for column in &self.used {
            let name = &self.columns[*column];
            let value = object.get(name).ok_or_else(|| {
                let line = self.position.line - 1;
                format!("line {line} has no `{name}`: add it, or leave the line out")
            })?;
            self.fields[*column] = text(value);
        }
        Ok(true)
    }

    pub(super) fn field(&self, column: usize) -> &[u8] {
        &self.fields[column]
    }
}
