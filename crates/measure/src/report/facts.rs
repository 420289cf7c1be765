//! Facts about a run in words: its daemon, its machine, its driver and its time.

use super::text::plain;
use crate::machine::Machine;
use crate::result::RunResult;
use crate::units;

/// Describes one run: the plan, the daemon, the machine, the driver and the time.
pub(super) fn run(result: &RunResult) -> Vec<(&'static str, String)> {
    let run = format!(
        "{}, {} from the first start to the end, {}",
        started(result),
        units::seconds(result.wall_s),
        plain(&result.run_id)
    );
    vec![
        ("plan", plain(&result.plan_sentence)),
        ("daemon", daemon(result)),
        ("machine", plain(&machine_line(result))),
        ("driver", driver(result)),
        ("run", run),
    ]
}

/// Describes the daemon: its name, version, description and address.
fn daemon(result: &RunResult) -> String {
    let daemon = [
        Some(&result.daemon.name),
        result.daemon.version.as_ref(),
        result.daemon.about.as_ref(),
    ];
    plain(&match result.daemon.target.as_str() {
        "" => joined(daemon),
        target => format!("{}, at {target}", joined(daemon)),
    })
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

fn joined<'a>(facts: impl IntoIterator<Item = Option<&'a String>>) -> String {
    facts
        .into_iter()
        .flatten()
        .map(String::as_str)
        .filter(|fact| !fact.is_empty())
        .collect::<Vec<_>>()
        .join(", ")
}
