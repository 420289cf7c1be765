//! Resource use of daemon and driver, and what disturbed them.

use super::kernel_memory;
use crate::metrics::{self, Better};
use crate::report::cell::Show;
use crate::report::columns::{self, Column};
use crate::report::comparison::Comparison;
use crate::report::distinct;
use crate::report::document::{Part, Section};
use crate::report::plain;
use crate::report::table::{Head, Row, Table};
use crate::result::RunResult;
use crate::units::{self, NONE};
use crate::usage::UsageSummary;

/// A row of a single run: its label, and the metrics of a side, whose values are joined by a plus.
type SideRow = (Option<&'static str>, &'static [&'static str]);

/// The rows of a single run. Without a label, a row has its metric's.
const ROWS: [SideRow; 13] = [
    (None, &["rss.baseline"]),
    (None, &["rss.peak"]),
    (None, &["rss.growth"]),
    (None, &["rss.each"]),
    (None, &["cpu.average"]),
    (None, &["cpu.peak"]),
    (None, &["cpu.each"]),
    (Some("CPU user + system"), &["cpu.user", "cpu.system"]),
    (None, &["processes.peak"]),
    (None, &["threads.peak"]),
    (None, &["fds.peak"]),
    (
        Some("switches, vol. + invol."),
        &["switches.voluntary", "switches.involuntary"],
    ),
    (None, &["wait"]),
];

const SIDES: [&str; 2] = ["daemon", "driver"];

const CPU_READING: &str = "Percent of one core. CPU time is user plus system; finished operations are all that ended, successful or not.";

/// A column of a single run: its name, and the resource use if it is known.
type Side<'a> = (&'a str, Option<&'a UsageSummary>);

pub(super) fn sections(comparison: &Comparison<'_>) -> Vec<Section> {
    let parts = match comparison.only_run() {
        Some(run) => of_one(run),
        None => of_several(comparison),
    };
    Section::non_empty("resources", "Resources", parts)
}

/// Builds the section of the CPU use of all runs.
pub(super) fn cpu(comparison: &Comparison<'_>) -> Vec<Section> {
    let columns = [
        Column::metric("daemon.cpu.average", "average %", units::tenths),
        Column::metric("daemon.cpu.peak", "peak %", units::tenths),
        Column::metric("daemon.threads.peak", "threads", units::whole),
        columns::cpu_per_operation(),
        Column::metric("driver.cpu.average", "driver average %", units::tenths),
        Column::metric("driver.cpu.each", "driver CPU µs per finished", units::us),
        Column::count("driver.cpu.rate"),
    ];
    let table = Table::of_runs("CPU use", comparison, &comparison.all(), &columns);
    let parts = vec![Part::Note(CPU_READING.to_owned()), Part::Table(table)];
    vec![Section::new("cpu", "CPU usage", parts)]
}

fn of_one(run: &RunResult) -> Vec<Part> {
    let mut parts = Vec::new();
    let usage = &run.usage;
    let daemon = (SIDES[0], usage.daemon.as_ref());
    let driver = (SIDES[1], usage.driver.as_ref());
    let services = run.services.iter();
    let services = services.map(|service| (service.name.as_str(), Some(&service.usage)));
    let sides: Vec<Side<'_>> = [daemon]
        .into_iter()
        .chain(services)
        .chain([driver])
        .collect();
    let rows = ROWS
        .into_iter()
        .filter_map(|row| side_row(run, &sides, row));
    let names = sides.iter().map(|(name, _)| Head::number(&plain(name)));
    let head = [Head::number("")].into_iter().chain(names).collect();
    let caption = if run.services.is_empty() {
        "Resource use of daemon and driver"
    } else {
        "Resource use of daemon, services and driver"
    };
    let table = Table::non_empty(caption, head, rows.collect());
    parts.extend(table.map(Part::Table));
    let mut facts: Vec<_> = disturbed(run).into_iter().collect();
    facts.extend(kernel_memory::facts(run));
    parts.extend((!facts.is_empty()).then_some(Part::Facts(facts)));
    parts
}

/// Shows a row for all sides, or nothing if none has the figures.
fn side_row(run: &RunResult, sides: &[Side<'_>], (label, keys): SideRow) -> Option<Row> {
    let on = |(_, usage): &Side<'_>| -> Option<String> {
        let shown = keys.iter().map(|key| {
            let metric = metrics::of_side(key);
            Some(metric.unit.short((metric.read)((*usage)?, run)?))
        });
        let shown: Option<Vec<String>> = shown.collect();
        Some(shown?.join(" + "))
    };
    let label = label.unwrap_or(metrics::by_key(&format!("daemon.{}", keys[0])).label);
    let values: Vec<Option<String>> = sides.iter().map(on).collect();
    if values.iter().all(Option::is_none) {
        return None;
    }
    let values = values.into_iter();
    let values = values.map(|value| value.unwrap_or(NONE.to_owned()));
    Some(Row::new(None, [label.to_owned()].into_iter().chain(values)))
}

/// Summarizes the disturbances of a single run in one line.
fn disturbed(run: &RunResult) -> Option<(&'static str, String)> {
    let found = run.usage.disturbance?;
    let mut parts = Vec::new();
    parts.extend(found.others_cpu_pct.map(|others| {
        let peak = found.others_cpu_peak_pct.unwrap_or(others);
        format!("other processes used {others:.0} % of a core (peak {peak:.0} %)")
    }));
    parts.extend(
        found
            .worker_wait_pct
            .map(units::percent)
            .map(|wait| format!("workers of the driver waited up to {wait} of the time for a CPU")),
    );
    let stalls = found.stalls;
    let [longest, total] = [stalls.longest_ns, stalls.total_ns].map(units::duration);
    parts.push(match units::count(stalls.count).as_str() {
        "0" => "no worker stalled".to_owned(),
        count => format!("{count} stalls of workers, the longest {longest}, {total} in total"),
    });
    let quota = found.driver_quota.filter(|quota| quota.throttled > 0);
    parts.extend(quota.map(|quota| {
        let [throttled, periods] = [quota.throttled, quota.periods].map(units::count);
        format!("driver throttled by its quota in {throttled} of {periods} periods")
    }));
    Some(("disturbed", parts.join("; ")))
}

/// Builds the tables of what the sections on memory and CPU do not show; none without such figures.
fn of_several(comparison: &Comparison<'_>) -> Vec<Part> {
    let side = |side: &str| {
        [
            ("processes.peak", "processes", units::whole as Show),
            ("threads.peak", "threads", units::whole),
            ("fds.peak", "open files", units::whole),
            ("switches.voluntary", "voluntary switches", units::whole),
            ("switches.involuntary", "involuntary switches", units::whole),
            ("wait", "waited for a CPU, s", units::s),
        ]
        .map(|(key, head, show)| Column::metric(&format!("{side}.{key}"), head, show))
        .into()
    };
    let disturbances = [
        ("others.cpu.average", "others' CPU %", units::tenths as Show),
        ("others.cpu.peak", "peak %", units::tenths),
        ("workers.wait", "workers waited %", units::significant),
        ("workers.stalls", "stalls of workers", units::whole),
        ("workers.stalls.longest", "longest, ms", units::ms),
        ("workers.stalls.total", "in total, ms", units::ms),
        ("driver.throttled", "throttled periods", units::whole),
    ];
    let disturbances = disturbances.map(|(key, head, show)| Column::metric(key, head, show));
    let tables: [(&str, Vec<Column<'_>>); 4] = [
        ("Resource use of services", services(comparison)),
        (
            "Processes, files and switches of the daemon",
            side("daemon"),
        ),
        (
            "Processes, files and switches of the driver",
            side("driver"),
        ),
        ("Disturbances of the runs", disturbances.into()),
    ];
    let mut parts = Vec::new();
    for (title, mut columns) in tables {
        columns.retain(|column| column.is_known(&comparison.suite.results));
        if !columns.is_empty() {
            let table = Table::of_runs(title, comparison, &comparison.all(), &columns);
            parts.extend(Part::headed_table(title, table));
        }
    }
    parts
}

/// Returns the columns of each service that a run has.
fn services<'a>(comparison: &Comparison<'a>) -> Vec<Column<'a>> {
    let results = comparison.suite.results.iter();
    let names = results.flat_map(|run| run.services.iter().map(|service| &service.name));
    let columns = |name: &'a String| {
        [
            ("cpu.each", "CPU µs per finished", units::us as Show),
            ("cpu.average", "CPU average %", units::tenths),
            ("rss.peak", "peak MiB", units::mib),
        ]
        .map(|(key, head, show)| {
            let read = metrics::of_side(key).read;
            let head = format!("{} {head}", plain(name));
            Column::new(head, show, Better::Lower, move |run| {
                let mut services = run.services.iter();
                let service = services.find(|service| service.name == *name)?;
                read(&service.usage, run)
            })
        })
    };
    distinct(names).into_iter().flat_map(columns).collect()
}
