//! Facts about a run in words: its daemon, its machine, its driver and its time.

use super::plain;
use crate::calibration::headline;
use crate::machine::Machine;
use crate::result::{Answer, RunResult};
use crate::units;
use crate::warning::Verdict;

/// Label of a command line. Formats show its text as code, to be copied.
pub(super) const COMMAND: &str = "command";

/// Label of the driver's own times and rate on the machine.
pub(super) const CALIBRATION: &str = "calibration";

/// Describes one run: the plan, the daemon, the machine, the driver and the time.
pub(super) fn run(result: &RunResult) -> Vec<(&'static str, String)> {
    let run = format!(
        "{}, {} from the first start to the end, {}",
        started(result),
        units::seconds(result.wall_s),
        plain(&result.run_id)
    );
    let mut facts = vec![
        ("plan", plain(&result.plan_sentence)),
        ("daemon", daemon(result)),
        ("machine", machine_in_run(result)),
        ("driver", driver(result)),
        ("run", run),
    ];
    facts.extend(isolation(result).map(|text| ("isolation", text)));
    facts.extend(calibration(result).map(|text| (CALIBRATION, text)));
    let commands = result.commands.iter();
    facts.extend(commands.map(|command| (COMMAND, plain(command))));
    facts
}

fn daemon(result: &RunResult) -> String {
    let daemon = result.daemon.clone();
    let services = result
        .services
        .iter()
        .map(|service| match &service.version {
            Some(version) => Some(format!("with {} ({version})", service.name)),
            None => Some(format!("with {}", service.name)),
        });
    let own = [
        Some(daemon.name),
        daemon.version,
        daemon.about,
        daemon.process,
    ];
    let names = joined(own.into_iter().chain(services));
    match daemon.target.as_str() {
        "" => names,
        target => format!("{names}, at {}", plain(target)),
    }
}

pub(super) fn started(result: &RunResult) -> String {
    match result.started_at.as_str() {
        "" => "unknown start time".to_owned(),
        time => plain(time),
    }
}

/// Describes the driver, its processes, threads and build; for another tool, the facts that it reported.
pub(super) fn driver(result: &RunResult) -> String {
    let machine = &result.machine;
    let name = format!("{} {}", result.driver, machine.version);
    if result.imported.is_some() {
        let threads = counted(result.threads, "thread", "threads");
        return joined([
            Some(name.trim().to_owned()),
            (result.threads > 0).then_some(threads),
            Some("imported".to_owned()),
        ]);
    }
    let facts = [
        name,
        counted(result.processes, "process", "processes"),
        counted(result.threads, "worker thread", "worker threads"),
        format!("{} build", machine.build_profile),
    ];
    joined(facts.map(Some))
}

/// Describes the CPUs and limits of driver and daemon, if there are any.
pub(super) fn isolation(result: &RunResult) -> Option<String> {
    (!result.isolation.is_none()).then(|| result.isolation.describe())
}

/// Describes the driver's own times and rate on the machine, if they are known.
pub(super) fn calibration(result: &RunResult) -> Option<String> {
    let calibration = result.calibration.as_ref()?;
    let own = |series: &str| {
        let (p50, p99) = calibration
            .floor(series)?
            .p50_ns
            .zip(calibration.floor(series)?.p99_ns)?;
        let [p50, p99] = [p50, p99].map(units::duration);
        Some(format!("{series} p50 {p50}, p99 {p99}"))
    };
    let ceiling = calibration.ceiling.map(|ceiling| {
        let per_s = units::count(ceiling.per_s.round() as u64);
        format!(
            "at most {per_s} operations/s ({})",
            ceiling.limit.describe()
        )
    });
    let cpu = calibration.cpu_each_ns;
    let cpu = cpu.map(|ns| format!("{} of its CPU time each", units::duration(ns as u64)));
    let verdict = match calibration.verdict {
        Verdict::Valid => String::new(),
        verdict => format!(" ({verdict})"),
    };
    let date = format!("measured {}{verdict}", calibration.measured_at);
    Some(joined([
        headline(result).and_then(own),
        ceiling,
        cpu,
        Some(date),
    ]))
}

/// Formats a number of things: `1 run`, `2 runs`.
pub(super) fn counted(count: u64, one: &str, several: &str) -> String {
    let name = if count == 1 { one } else { several };
    format!("{} {name}", units::count(count))
}

/// Describes the machine, and its state at the time of the run.
fn machine_in_run(result: &RunResult) -> String {
    let machine = &result.machine;
    let (load, steal) = (machine.load1, machine.steal_pct);
    joined([
        Some(self::machine(machine)),
        load.map(|load| format!("load {load:.2} before the start")),
        steal.map(|steal| format!("{steal:.1} % stolen")),
        source(machine),
    ])
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
    let hypervisor = machine.virtualization.as_ref();
    let open_files = units::count(machine.nofile_soft);
    joined([
        Some(machine.hostname.clone()),
        machine.os.clone(),
        Some(format!("kernel {}", machine.kernel)),
        Some(cpus),
        Some(format!("{} memory", units::bytes(machine.memory_bytes))),
        hypervisor.map(|kind| format!("virtualised ({kind})")),
        Some(format!("{open_files} open files allowed")),
    ])
}

fn source(machine: &Machine) -> Option<String> {
    let short: String = machine.git_commit.as_ref()?.chars().take(12).collect();
    let changes = match machine.git_dirty {
        Some(true) => " with changes",
        _ => "",
    };
    Some(format!("source {short}{changes}"))
}

/// Joins the known facts.
fn joined(facts: impl IntoIterator<Item = Option<String>>) -> String {
    let known = facts.into_iter().flatten().filter(|fact| !fact.is_empty());
    plain(&known.collect::<Vec<_>>().join(", "))
}

/// Formats an answer: `answered 200 with 1,024 bytes (SHA-256 5f70bf18…)`.
pub(super) fn answer(answer: &Answer) -> String {
    let digits: String = answer.sha256.chars().take(8).collect();
    format!(
        "answered {} with {} bytes (SHA-256 {}…)",
        answer.status,
        units::count(answer.length),
        plain(&digits)
    )
}
