//! A table of a report, independent of the format.

use super::cell::Cell;

/// Marks a row whose figures contradict each other. All formats recognize such a row by this text.
pub(super) const FAILS: &str = "DOES NOT ADD UP";

/// A table whose first columns name the subject of a row.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Description of the table for readers who cannot see its context.
    pub(super) caption: String,
    pub(super) head: Vec<Head>,
    pub(super) rows: Vec<Row>,
    /// The same figures run by run, if rows stand for several runs.
    pub(super) runs: Option<Box<Table>>,
}

#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) text: String,
    /// True for words, which are left-aligned; false for numbers, which are right-aligned.
    pub(super) left_aligned: bool,
}

#[derive(Debug)]
pub(super) struct Row {
    /// Index of the daemon that the row is about.
    pub(super) daemon: Option<usize>,
    pub(super) cells: Vec<Cell>,
    /// True if a new group of rows begins here.
    pub(super) starts_group: bool,
}

impl Head {
    pub(super) fn number(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            left_aligned: false,
        }
    }

    pub(super) fn text(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            left_aligned: true,
        }
    }
}

impl Row {
    pub(super) fn new<C: Into<Cell>>(
        daemon: Option<usize>,
        cells: impl IntoIterator<Item = C>,
    ) -> Self {
        Self {
            daemon,
            cells: cells.into_iter().map(Into::into).collect(),
            starts_group: false,
        }
    }

    /// Returns true if the row is marked as contradicting.
    pub(super) fn fails(&self) -> bool {
        let last = self.cells.last();
        last.is_some_and(|cell| cell.value.starts_with(FAILS))
    }
}

impl Table {
    /// Creates a table of words and of figures without run-to-run variation.
    pub(super) fn new(caption: &str, head: Vec<Head>, rows: Vec<Row>) -> Self {
        Self {
            caption: caption.to_owned(),
            head,
            rows,
            runs: None,
        }
    }

    /// Creates a table, or none without rows.
    pub(super) fn non_empty(caption: &str, head: Vec<Head>, rows: Vec<Row>) -> Option<Self> {
        (!rows.is_empty()).then(|| Self::new(caption, head, rows))
    }

    /// Inserts a column at `index`, with a cell for each row.
    pub(super) fn insert_column(&mut self, index: usize, head: &str, cells: Vec<Cell>) {
        self.head.insert(index, Head::number(head));
        for (row, cell) in self.rows.iter_mut().zip(cells) {
            row.cells.insert(index, cell);
        }
    }

    pub(super) fn remove_column(&mut self, index: usize) {
        self.head.remove(index);
        for row in &mut self.rows {
            row.cells.remove(index);
        }
    }

    /// Removes leading columns with one of these heads.
    pub(super) fn remove_leading(&mut self, heads: &[&str]) {
        while self.head.len() > 1 && heads.contains(&self.head[0].text.as_str()) {
            self.remove_column(0);
        }
    }
}
