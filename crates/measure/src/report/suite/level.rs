//! Section of a level: all distributions side by side, failures, thresholds and faults.

use std::collections::BTreeSet;

use super::cells::{Cell, Cells};
use super::document::{self, Part, Pictures, Section};
use super::figures;
use super::grid::{Grid, Head, Row};
use super::show::{self, NONE, Text};
use super::soak;
use crate::imported::SeriesSummary;
use crate::report::page;
use crate::result::RunResult;
use crate::spread::SummaryStats;
use crate::units;

pub(super) fn section(cells: &Cells<'_>, level: &str) -> Section {
    let at = cells.at(level);
    let mut parts = vec![Part::Facts(plans(&at))];
    parts.push(Part::Pictures(Pictures::Level(level.to_owned())));
    let tables = [
        (
            "Latency distributions (milliseconds)",
            Some(distributions(cells, &at)),
        ),
        ("Failures by kind, all runs", failures(cells, &at)),
        ("Thresholds", thresholds(cells, &at)),
        ("Faults", faults(cells, &at)),
        (
            "Growth under steady load, per 1,000 finished operations",
            soak::table(cells, &at),
        ),
    ];
    for (title, table) in tables {
        if let Some(table) = table {
            parts.extend([Part::Heading(title.to_owned()), Part::Grid(table)]);
        }
    }
    Section::new(
        &document::level_id(level),
        &document::level_title(level),
        parts,
    )
}

/// Returns the distinct plans of a level: one, unless runs of different plans are combined.
fn plans(at: &[Cell<'_>]) -> Vec<(&'static str, String)> {
    let mut plans: Vec<String> = Vec::new();
    for run in at.iter().flat_map(|cell| &cell.runs) {
        let plan = page::plain(&run.plan_sentence);
        if !plans.contains(&plan) {
            plans.push(plan);
        }
    }
    plans.into_iter().map(|plan| ("plan", plan)).collect()
}

type Quantile = (&'static str, fn(&SeriesSummary) -> Option<u64>);

const QUANTILES: [Quantile; 7] = [
    ("p50", |series| series.p50_ns),
    ("p75", |series| series.p75_ns),
    ("p90", |series| series.p90_ns),
    ("p95", |series| series.p95_ns),
    ("p99", |series| series.p99_ns),
    ("p99.9", |series| series.p999_ns),
    ("max", |series| series.max_ns),
];

/// The driver's own lateness, shown after its series.
const LAG: &str = "lag";

/// Builds a row for each series and daemon, and the same for each run if cells have several.
fn distributions(cells: &Cells<'_>, at: &[Cell<'_>]) -> Grid {
    let mut all = distribution_rows(cells, at, |cell| vec![(None, cell.runs.clone())]);
    if at.iter().any(|cell| cell.runs.len() > 1) {
        all.runs = Some(Box::new(distribution_rows(cells, at, |cell| {
            let each = cell.runs.iter().enumerate();
            each.map(|(place, run)| (Some(place + 1), vec![*run]))
                .collect()
        })));
    }
    all
}

/// Runs that share a row, with the number of a single run.
type Sharing<'a> = Vec<(Option<usize>, Vec<&'a RunResult>)>;

fn distribution_rows<'a>(
    cells: &Cells<'_>,
    at: &[Cell<'a>],
    sharing: impl Fn(&Cell<'a>) -> Sharing<'a>,
) -> Grid {
    let numbered = at.iter().flat_map(&sharing).any(|(run, _)| run.is_some());
    let mut rows = Vec::new();
    for (place, series) in cells.series().into_iter().chain([LAG]).enumerate() {
        let mut starts_group = place > 0;
        for cell in at {
            for (run, runs) in sharing(cell) {
                let Some(figures) = distribution(&runs, series) else {
                    continue;
                };
                let name = Text::row_name(cells.daemons[cell.daemon], &runs);
                let named = [figures::series_name(series)].into_iter();
                let named = named.chain(run.map(|run| run.to_string()));
                rows.push(Row {
                    daemon: Some(cell.daemon),
                    texts: [name]
                        .into_iter()
                        .chain(named.map(Text::plain))
                        .chain(figures)
                        .collect(),
                    starts_group,
                });
                starts_group = false;
            }
        }
    }
    let run = numbered.then(|| Head::figure("run"));
    let head = ["daemon", "series"].map(Head::text).into_iter().chain(run);
    let figures = ["count"].into_iter().chain(QUANTILES.map(|(name, _)| name));
    let caption = "Latency distributions in milliseconds";
    Grid::of_rows(
        caption,
        head.chain(figures.map(Head::figure)).collect(),
        rows,
    )
}

/// Returns the count and the quantiles of a series, or `None` if no run has it.
fn distribution(runs: &[&RunResult], series: &str) -> Option<Vec<Text>> {
    let found: Vec<SeriesSummary> = runs
        .iter()
        .filter_map(|run| match series {
            LAG => run.lag.as_ref().map(SeriesSummary::from),
            series => run.summary(series),
        })
        .collect();
    let of = |part: &dyn Fn(&SeriesSummary) -> Option<u64>, show| {
        let known = found.iter().filter_map(part);
        Text::from_stats(
            SummaryStats::from_values(known.map(|figure| figure as f64)),
            show,
        )
    };
    let count = of(&|series| series.count, show::whole);
    let parts = QUANTILES.map(|(_, part)| of(&part, show::ms));
    (!found.is_empty()).then(|| [count].into_iter().chain(parts).collect())
}

fn failures(cells: &Cells<'_>, at: &[Cell<'_>]) -> Option<Grid> {
    let runs = at.iter().flat_map(|cell| &cell.runs);
    let kinds: BTreeSet<&String> = runs.flat_map(|run| run.errors.keys()).collect();
    let head = [Head::text("daemon"), Head::figure("started")]
        .into_iter()
        .chain(kinds.iter().map(|kind| Head::figure(&page::plain(kind))));
    let row = |cell: &Cell<'_>| {
        let sum = |of: &dyn Fn(&RunResult) -> u64| cell.runs.iter().map(|run| of(run)).sum();
        let errors = kinds
            .iter()
            .map(|kind| sum(&|run| run.errors.get(*kind).copied().unwrap_or(0)));
        let figures = [sum(&|run| run.operations.started)]
            .into_iter()
            .chain(errors);
        let name = page::plain(cells.daemons[cell.daemon]);
        Row {
            daemon: Some(cell.daemon),
            texts: [name]
                .into_iter()
                .chain(figures.map(units::count))
                .map(Text::plain)
                .collect(),
            starts_group: false,
        }
    };
    let rows = at.iter().map(row).collect();
    (!kinds.is_empty()).then(|| Grid::of_rows("Failures by kind", head.collect(), rows))
}

/// Builds a row for each daemon and threshold, in the plan's order.
fn thresholds(cells: &Cells<'_>, at: &[Cell<'_>]) -> Option<Grid> {
    let head = ["daemon", "threshold", "met", "measured"].map(Head::text);
    let mut rows = Vec::new();
    for cell in at {
        let all = || cell.runs.iter().flat_map(|run| &run.thresholds);
        let mut named: Vec<&str> = Vec::new();
        for threshold in all() {
            if named.contains(&threshold.text.as_str()) {
                continue;
            }
            named.push(&threshold.text);
            let same = || all().filter(|other| other.text == threshold.text);
            let met = same().filter(|other| other.met).count();
            let verdict = match (met, same().count()) {
                (1, 1) => "met".to_owned(),
                (0, 1) => "missed".to_owned(),
                (met, of) if met == of => format!("met in all {of} runs"),
                (met, of) => format!("missed in {} of {of} runs", of - met),
            };
            let measured: Vec<&str> = same()
                .map(|other| other.measured.as_deref().unwrap_or(NONE))
                .collect();
            let texts = [
                page::plain(cells.daemons[cell.daemon]),
                page::plain(&threshold.text),
                verdict,
                page::plain(&measured.join(", ")),
            ];
            rows.push(Row {
                daemon: Some(cell.daemon),
                texts: texts.map(Text::plain).into(),
                starts_group: false,
            });
        }
    }
    (!rows.is_empty()).then(|| Grid::of_rows("Thresholds", head.into(), rows))
}

/// Builds a row for each fault. Lost and retried operations are known per run, not per fault.
fn faults(cells: &Cells<'_>, at: &[Cell<'_>]) -> Option<Grid> {
    let connections = at
        .iter()
        .flat_map(|cell| &cell.runs)
        .any(|run| run.count("reconnects") > 0);
    let (again, counted) = if connections {
        ("reconnects in the run", "reconnects")
    } else {
        ("retries in the run", "retries")
    };
    let head = [
        Head::text("daemon"),
        Head::figure("run"),
        Head::text("fault"),
        Head::figure("at, s"),
        Head::figure("recovered at, s"),
        Head::figure("downtime, s"),
        Head::figure("lost in the run"),
        Head::figure(again),
    ];
    let mut rows = Vec::new();
    for cell in at {
        for (place, run) in cell.runs.iter().enumerate() {
            for fault in &run.faults {
                let down = fault.back_s.map(|back| back - fault.at_s);
                let or_none = |value: Option<f64>| value.map_or(NONE.to_owned(), show::significant);
                let texts = [
                    page::plain(cells.daemons[cell.daemon]),
                    (place + 1).to_string(),
                    page::plain(&fault.what),
                    show::significant(fault.at_s),
                    fault.back_s.map_or("never".to_owned(), show::significant),
                    or_none(down),
                    units::count(run.errors.get("lost").copied().unwrap_or(0)),
                    units::count(run.count(counted)),
                ];
                rows.push(Row {
                    daemon: Some(cell.daemon),
                    texts: texts.map(Text::plain).into(),
                    starts_group: false,
                });
            }
        }
    }
    (!rows.is_empty()).then(|| Grid::of_rows("Faults", head.into(), rows))
}
