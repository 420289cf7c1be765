//! A table of a suite: what all formats write.

use super::cells::{Cell, Cells};
use super::show::{Show, Text};
use crate::result::RunResult;
use crate::spread::Spread;

/// A table whose first columns say what a row is about.
#[derive(Debug, Default)]
pub(super) struct Grid {
    /// What the table holds, for those who can't see what stands around it.
    pub(super) caption: String,
    pub(super) head: Vec<Head>,
    pub(super) rows: Vec<Row>,
    /// The same figures run by run, where cells have several.
    pub(super) runs: Option<Box<Grid>>,
}

/// A column.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) text: String,
    /// Words stand to the left, figures to the right.
    pub(super) words: bool,
}

/// A row.
#[derive(Debug)]
pub(super) struct Row {
    /// The daemon that it is about, by its place.
    pub(super) daemon: Option<usize>,
    pub(super) texts: Vec<Text>,
    /// Whether a new group of rows begins here.
    pub(super) opens: bool,
}

/// A column of figures: what it is called, where it comes from, how it is shown.
pub(super) struct Figure<'a> {
    head: String,
    of: Box<Of<'a>>,
    show: Show,
}

/// Where a figure comes from.
type Of<'a> = dyn Fn(&RunResult) -> Option<f64> + 'a;

impl std::fmt::Debug for Figure<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Figure").field(&self.head).finish()
    }
}

impl<'a> Figure<'a> {
    pub(super) fn new(
        head: impl Into<String>,
        show: Show,
        of: impl Fn(&RunResult) -> Option<f64> + 'a,
    ) -> Self {
        Self {
            head: head.into(),
            of: Box::new(of),
            show,
        }
    }

    /// The same under another name.
    pub(super) fn titled(self, head: &str) -> Self {
        Self {
            head: head.to_owned(),
            ..self
        }
    }

    /// The figure of one run.
    pub(super) fn of(&self, run: &RunResult) -> Option<f64> {
        (self.of)(run)
    }

    pub(super) fn spread(&self, runs: &[&RunResult]) -> Option<Spread> {
        Spread::of(runs.iter().filter_map(|run| (self.of)(run)))
    }

    pub(super) fn text(&self, runs: &[&RunResult]) -> Text {
        Text::of(self.spread(runs), self.show)
    }

    pub(super) fn head(&self) -> Head {
        Head::figure(&self.head)
    }
}

impl Head {
    pub(super) fn figure(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            words: false,
        }
    }

    pub(super) fn words(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            words: true,
        }
    }
}

impl Grid {
    /// A table of figures with a row for each cell; columns that have nothing to show anywhere are left out if
    /// `optional` says so.
    pub(super) fn of_cells(
        caption: &str,
        cells: &Cells<'_>,
        of: &[Cell<'_>],
        figures: &[Figure<'_>],
    ) -> Self {
        let head = [Head::words("daemon"), Head::figure("level")].into_iter();
        let head: Vec<Head> = head.chain(figures.iter().map(Figure::head)).collect();
        let row = |cell: &Cell<'_>, label: Option<usize>, runs: &[&RunResult]| {
            let run = label.map(|run| Text::plain(run.to_string()));
            let named = [
                Text::about(cells.daemons[cell.daemon], runs),
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

    /// A table of words and figures without a spread.
    pub(super) fn of_rows(caption: &str, head: Vec<Head>, rows: Vec<Row>) -> Self {
        Self {
            caption: caption.to_owned(),
            head,
            rows,
            runs: None,
        }
    }
}

/// Rows of each cell; a group begins where the level changes.
fn with_groups(of: &[Cell<'_>], rows: impl Fn(&Cell<'_>) -> Vec<Vec<Text>>) -> Vec<Row> {
    let mut all = Vec::new();
    let mut level = None;
    for cell in of {
        for texts in rows(cell) {
            all.push(Row {
                daemon: Some(cell.daemon),
                texts,
                opens: level.is_some_and(|level| level != cell.level),
            });
            level = Some(cell.level);
        }
    }
    all
}
