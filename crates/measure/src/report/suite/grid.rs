//! A table of the suite report, independent of the format.

use super::cells::{Cell, Cells};
use super::show::{Show, Text};
use crate::result::RunResult;
use crate::spread::SummaryStats;

/// A table whose first columns name the subject of a row.
#[derive(Debug, Default)]
pub(super) struct Grid {
    /// Description of the table for readers who cannot see its context.
    pub(super) caption: String,
    pub(super) head: Vec<Head>,
    pub(super) rows: Vec<Row>,
    /// The same figures run by run, if cells have several runs.
    pub(super) runs: Option<Box<Grid>>,
}

/// A column.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) text: String,
    /// True for words, which are left-aligned; false for figures, which are right-aligned.
    pub(super) left_aligned: bool,
}

/// A row.
#[derive(Debug)]
pub(super) struct Row {
    /// Index of the daemon that the row is about.
    pub(super) daemon: Option<usize>,
    pub(super) texts: Vec<Text>,
    /// True if a new group of rows begins here.
    pub(super) starts_group: bool,
}

/// A column of figures: its title, source and format.
pub(super) struct Column<'a> {
    head: String,
    read: Box<Read<'a>>,
    show: Show,
}

/// Reads a figure from a run.
type Read<'a> = dyn Fn(&RunResult) -> Option<f64> + 'a;

impl std::fmt::Debug for Column<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Column").field(&self.head).finish()
    }
}

impl<'a> Column<'a> {
    pub(super) fn new(
        head: impl Into<String>,
        show: Show,
        read: impl Fn(&RunResult) -> Option<f64> + 'a,
    ) -> Self {
        Self {
            head: head.into(),
            read: Box::new(read),
            show,
        }
    }

    /// Replaces the title.
    pub(super) fn titled(self, head: &str) -> Self {
        Self {
            head: head.to_owned(),
            ..self
        }
    }

    /// Returns the figure of one run.
    pub(super) fn value(&self, run: &RunResult) -> Option<f64> {
        (self.read)(run)
    }

    pub(super) fn spread(&self, runs: &[&RunResult]) -> Option<SummaryStats> {
        SummaryStats::from_values(runs.iter().filter_map(|run| (self.read)(run)))
    }

    pub(super) fn text(&self, runs: &[&RunResult]) -> Text {
        Text::from_stats(self.spread(runs), self.show)
    }

    pub(super) fn head(&self) -> Head {
        Head::figure(&self.head)
    }
}

impl Head {
    pub(super) fn figure(text: &str) -> Self {
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

impl Grid {
    /// Builds a table of figures with a row for each cell, and the same run by run if a cell has several runs.
    pub(super) fn of_cells(
        caption: &str,
        cells: &Cells<'_>,
        of: &[Cell<'_>],
        figures: &[Column<'_>],
    ) -> Self {
        let head = [Head::text("daemon"), Head::figure("level")].into_iter();
        let head: Vec<Head> = head.chain(figures.iter().map(Column::head)).collect();
        let row = |cell: &Cell<'_>, label: Option<usize>, runs: &[&RunResult]| {
            let run = label.map(|run| Text::plain(run.to_string()));
            let named = [
                Text::row_name(cells.daemons[cell.daemon], runs),
                Text::plain(cell.level_name()),
            ];
            let figures = figures.iter().map(|figure| figure.text(runs));
            named.into_iter().chain(run).chain(figures).collect()
        };
        let rows = with_groups(of, |cell| vec![row(cell, None, &cell.runs)]);
        let several = of.iter().any(|cell| cell.runs.len() > 1);
        let runs = several.then(|| {
            let mut head = head.clone();
            head.insert(2, Head::figure("run"));
            let rows = with_groups(of, |cell| {
                let each = cell.runs.iter().enumerate();
                each.map(|(place, run)| row(cell, Some(place + 1), &[run]))
                    .collect()
            });
            Box::new(Self {
                caption: format!("{caption}, every run"),
                head,
                rows,
                runs: None,
            })
        });
        Self {
            caption: caption.to_owned(),
            head,
            rows,
            runs,
        }
    }

    /// Builds a table of words and figures without run-to-run variation.
    pub(super) fn of_rows(caption: &str, head: Vec<Head>, rows: Vec<Row>) -> Self {
        Self {
            caption: caption.to_owned(),
            head,
            rows,
            runs: None,
        }
    }
}

/// Builds the rows of each cell. A group begins if the level changes.
fn with_groups(of: &[Cell<'_>], rows: impl Fn(&Cell<'_>) -> Vec<Vec<Text>>) -> Vec<Row> {
    let mut all = Vec::new();
    let mut level = None;
    for cell in of {
        for texts in rows(cell) {
            all.push(Row {
                daemon: Some(cell.daemon),
                texts,
                starts_group: level.is_some_and(|level| level != cell.level),
            });
            level = Some(cell.level);
        }
    }
    all
}
