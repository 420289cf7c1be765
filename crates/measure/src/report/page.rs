//! Content of the report of one run, independent of the format.

use super::{Error, audit, cost, demands, kernel, picture};
use crate::imported::SeriesSummary;
use crate::machine::Machine;
use crate::result::RunResult;
use crate::units;
use crate::warning::{self, Severity, Warning};

/// Placeholder for a missing figure.
pub(super) const NONE: &str = "–";

/// Counters that are shown elsewhere: those of `operations`, and one that is reported each second and has no sum.
const SHOWN_ELSEWHERE: [&str; 5] = ["started", "ok", "unfinished", "missed", "held"];

/// A part of a report.
#[derive(Debug)]
pub(super) enum Block {
    /// The headline with the verdict.
    Title(String),
    /// The heading of the following blocks.
    Heading(String),
    /// A sentence that explains the following block.
    Note(String),
    /// Labelled sentences.
    Facts(Vec<(&'static str, String)>),
    /// Figures.
    Table(Table),
    /// A text chart: lines of equal width.
    Picture(Vec<String>),
    /// Warnings with their hints.
    Warnings(Vec<Warning>),
}

/// A table whose first column is a label and whose other columns are right-aligned.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    /// Rows that are set apart from the rest.
    pub(super) footer_rows: Vec<Vec<String>>,
    /// Columns besides the first that hold words and are left-aligned.
    pub(super) left_aligned: Vec<usize>,
}

/// Builds the complete report of one run.
pub(super) fn blocks(result: &RunResult) -> Result<Vec<Block>, Error> {
    let mut blocks = vec![title(result)];
    let overload = result.overload().map(str::to_owned);
    blocks.extend(overload.map(Block::Note));
    blocks.extend(verdict_reasons(result));
    blocks.extend([
        Block::Facts(run(result)),
        Block::Heading("operations".to_owned()),
    ]);
    blocks.extend(operations(result));
    blocks.extend([Block::Heading("latency".to_owned()), latency(result)]);
    blocks.extend(clamped(result));
    blocks.extend(pictures(result)?);
    blocks.extend(cost::blocks(result));
    blocks.extend(kernel::block(result));
    blocks.extend(slopes(result));
    blocks.extend(demands::blocks(result));
    blocks.extend(audit::blocks(result));
    if !result.warnings.is_empty() {
        blocks.extend([
            Block::Heading("warnings".to_owned()),
            Block::Warnings(result.warnings.iter().map(plain_warning).collect()),
        ]);
    }
    Ok(blocks)
}

fn title(result: &RunResult) -> Block {
    Block::Title(format!(
        "{}: {} against {}",
        result.verdict,
        result.driver,
        plain(&result.daemon.name)
    ))
}

/// Returns the reasons for the verdict: the first line of each warning above a note, causes first, then by severity.
fn verdict_reasons(result: &RunResult) -> Option<Block> {
    let mut warnings = result.warnings.clone();
    warning::sort(&mut warnings);
    let severe = warnings
        .iter()
        .filter(|warning| warning.severity > Severity::Note);
    let first_line = |warning: &Warning| plain(warning.message.lines().next().unwrap_or_default());
    let facts: Vec<_> = severe
        .map(|warning| (severity(warning.severity), first_line(warning)))
        .collect();
    (!facts.is_empty()).then_some(Block::Facts(facts))
}

pub(super) fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Suspect => "suspect",
        Severity::Invalid => "invalid",
    }
}

fn run(result: &RunResult) -> Vec<(&'static str, String)> {
    let daemon = [
        Some(&result.daemon.name),
        result.daemon.version.as_ref(),
        result.daemon.about.as_ref(),
    ];
    vec![
        ("plan", plain(&result.plan_sentence)),
        (
            "daemon",
            plain(&match result.daemon.target.as_str() {
                "" => joined(daemon),
                target => format!("{}, at {target}", joined(daemon)),
            }),
        ),
        ("machine", plain(&machine_line(result))),
        ("driver", driver(result)),
        (
            "run",
            format!(
                "{}, {} from the first start to the end, {}",
                started(result),
                seconds(result.wall_s),
                plain(&result.run_id)
            ),
        ),
    ]
}

/// Returns the start time of the load, if known.
pub(super) fn started(result: &RunResult) -> String {
    match result.started_at.as_str() {
        "" => "unknown start time".to_owned(),
        time => plain(time),
    }
}

/// Describes the driver, its processes, threads and build; for another tool, the facts that it reported.
pub(super) fn driver(result: &RunResult) -> String {
    let machine = &result.machine;
    let plural = |count: u64, one: &str, several: &str| {
        format!(
            "{} {}",
            units::count(count),
            if count == 1 { one } else { several }
        )
    };
    if result.imported.is_some() {
        let name = format!("{} {}", result.driver, machine.version);
        let threads = plural(result.threads, "thread", "threads");
        let threads = (result.threads > 0).then_some(threads);
        let facts = [
            Some(name.trim().to_owned()),
            threads,
            Some("imported".to_owned()),
        ];
        return plain(&joined(facts.iter().map(Option::as_ref)));
    }
    let driver = [
        format!("{} {}", result.driver, machine.version),
        plural(result.processes, "process", "processes"),
        plural(result.threads, "worker thread", "worker threads"),
        format!("{} build", machine.build_profile),
    ];
    plain(&joined(driver.iter().map(Some)))
}

fn machine_line(result: &RunResult) -> String {
    let machine = &result.machine;
    let of_the_run = [
        machine
            .load1
            .map(|load| format!("load {load:.2} before the start")),
        machine
            .steal_pct
            .map(|steal| format!("{steal:.1} % stolen")),
        machine
            .git_commit
            .as_ref()
            .map(|commit| source(commit, machine.git_dirty)),
    ];
    let facts = [Some(self::machine(machine))].into_iter().chain(of_the_run);
    joined(facts.collect::<Vec<_>>().iter().map(Option::as_ref))
}

/// Describes the machine, independent of the run.
pub(super) fn machine(machine: &Machine) -> String {
    if machine.hostname.is_empty() && machine.kernel.is_empty() {
        return "not known".to_owned();
    }
    let cpus = match &machine.cpu_model {
        Some(model) => format!("{} × {model}", machine.cpus),
        None => format!("{} CPUs", machine.cpus),
    };
    let facts = [
        Some(machine.hostname.clone()),
        machine.os.clone(),
        Some(format!("kernel {}", machine.kernel)),
        Some(cpus),
        Some(format!("{} memory", units::bytes(machine.memory_bytes))),
        machine
            .virtualization
            .as_ref()
            .map(|kind| format!("virtualised ({kind})")),
        Some(format!(
            "{} open files allowed",
            units::count(machine.nofile_soft)
        )),
    ];
    plain(&joined(facts.iter().map(Option::as_ref)))
}

fn source(commit: &str, dirty: Option<bool>) -> String {
    let short: String = commit.chars().take(12).collect();
    if dirty == Some(true) {
        format!("source {short} with changes")
    } else {
        format!("source {short}")
    }
}

fn operations(result: &RunResult) -> Vec<Block> {
    let operations = &result.operations;
    let head = [
        "",
        "started",
        "ok",
        "failed",
        "unfinished",
        "missed",
        "peak active",
        "success",
    ];
    let figures = [
        Some(operations.started),
        Some(operations.ok),
        Some(operations.failed),
        result.if_known(operations.unfinished),
        result.if_known(operations.missed),
        result.if_known(operations.peak_active),
    ];
    let mut head: Vec<String> = head.map(str::to_owned).into();
    let mut row: Vec<String> = ["operations".to_owned()]
        .into_iter()
        .chain(figures.map(|figure| figure.map_or(NONE.to_owned(), units::count)))
        .chain([success(result)])
        .collect();
    if let Some(peak) = result.peak_of_daemon() {
        head.insert(head.len() - 1, "by the daemon".to_owned());
        row.insert(row.len() - 1, units::count(peak as u64));
    }
    let mut facts = Vec::new();
    if !operations.add_up() {
        facts.push((
            "sum",
            "started is not ok + failed + unfinished: the driver's counters are inconsistent"
                .to_owned(),
        ));
    }
    if !result.errors.is_empty() {
        facts.push(("failed", counts(result.errors.iter())));
    }
    let others: Vec<_> = result
        .counts
        .iter()
        .filter(|(name, _)| !SHOWN_ELSEWHERE.contains(&name.as_str()))
        .collect();
    if !others.is_empty() {
        facts.push(("counted", counts(others)));
    }
    facts.extend(result.most_held().map(|held| {
        let held = format!("at most {} connections", units::count(held));
        ("held", held)
    }));
    let mut blocks = vec![Block::Table(Table {
        head,
        rows: vec![row],
        ..Table::default()
    })];
    blocks.extend((!facts.is_empty()).then_some(Block::Facts(facts)));
    blocks
}

/// Formats the success rate, rounded down so that one failure in a million is not 100 %.
pub(super) fn success(result: &RunResult) -> String {
    match result.success_pct() {
        None => NONE.to_owned(),
        Some(100.0) => "100 %".to_owned(),
        Some(share) => format!("{:.2} %", (share * 100.0).floor() / 100.0),
    }
}

fn counts<'a>(counts: impl IntoIterator<Item = (&'a String, &'a u64)>) -> String {
    let one = |(name, count): (&String, &u64)| {
        let shown = if name.ends_with("bytes") || name.starts_with("bytes_") {
            units::bytes(*count)
        } else {
            units::count(*count)
        };
        format!("{} {shown}", plain(name))
    };
    counts.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

fn latency(result: &RunResult) -> Block {
    let head = ["series", "count", "p50", "p90", "p99", "p99.9", "max"]
        .map(str::to_owned)
        .into();
    let rows = result
        .summaries()
        .map(|series| latency_row(&series))
        .collect();
    Block::Table(Table {
        head,
        rows,
        footer_rows: result
            .lag
            .iter()
            .map(|lag| latency_row(&lag.into()))
            .collect(),
        ..Table::default()
    })
}

fn latency_row(series: &SeriesSummary) -> Vec<String> {
    let times = [
        series.p50_ns,
        series.p90_ns,
        series.p99_ns,
        series.p999_ns,
        series.max_ns,
    ];
    let count = series.count.map_or(NONE.to_owned(), units::count);
    [plain(&series.name), count]
        .into_iter()
        .chain(times.map(|time| time.map_or(NONE.to_owned(), units::duration)))
        .collect()
}

fn clamped(result: &RunResult) -> Option<Block> {
    let clamped = result
        .series
        .iter()
        .chain(&result.lag)
        .filter(|series| series.clamped > 0);
    let facts: Vec<_> = clamped
        .map(|series| {
            (
                "clamped",
                format!(
                    "{} values of {} were outside 1 ns to 1 h",
                    units::count(series.clamped),
                    plain(&series.name)
                ),
            )
        })
        .collect();
    (!facts.is_empty()).then_some(Block::Facts(facts))
}

fn pictures(result: &RunResult) -> Result<Vec<Block>, Error> {
    let pictures = [
        ("distributions", picture::distributions(result)?),
        ("over time", picture::over_time(result)),
    ];
    let drawn = pictures.into_iter().filter(|(_, lines)| !lines.is_empty());
    Ok(drawn
        .flat_map(|(heading, lines)| [Block::Heading(heading.to_owned()), Block::Picture(lines)])
        .collect())
}

/// Describes the daemon's growth under steady load, if the run was long and steady enough.
fn slopes(result: &RunResult) -> Option<Block> {
    let slopes = result.growth_under_load()?;
    let of = |what: &str, whole: f64, halves: [Option<f64>; 2], show: fn(f64) -> String| {
        let [first, second] = halves.map(|half| half.map_or(NONE.to_owned(), show));
        let whole = show(whole);
        format!(
            "{what}: {whole} per 1,000 finished operations; first half {first}, second half {second}"
        )
    };
    let (rss, fds) = (slopes.rss_bytes, slopes.fds);
    let lines = [
        of("RSS", rss.slope, slopes.rss_bytes_halves, signed_bytes),
        of("open files", fds.slope, slopes.fds_halves, |files| {
            format!("{files:.3}")
        }),
    ];
    let facts = lines.into_iter().map(|line| ("slope", line));
    Some(Block::Facts(facts.collect()))
}

fn signed_bytes(bytes: f64) -> String {
    let sign = if bytes <= -1.0 { "-" } else { "" };
    format!("{sign}{}", units::bytes(bytes.abs() as u64))
}

/// Formats a time in seconds with a suitable unit.
pub(super) fn seconds(seconds: f64) -> String {
    units::duration((seconds * 1e9) as u64)
}

fn joined<'a>(facts: impl IntoIterator<Item = Option<&'a String>>) -> String {
    facts
        .into_iter()
        .flatten()
        .map(String::as_str)
        .filter(|fact| !fact.is_empty())
        .collect::<Vec<_>>()
        .join(", ")
}

/// Removes control characters from a text of a daemon or host, so that it cannot control the terminal.
pub(super) fn plain(text: &str) -> String {
    text.chars()
        .map(|letter| {
            if letter.is_control() && letter != '\n' {
                ' '
            } else {
                letter
            }
        })
        .collect()
}

fn plain_warning(warning: &Warning) -> Warning {
    Warning {
        message: plain(&warning.message),
        hint: plain(&warning.hint),
        ..warning.clone()
    }
}
