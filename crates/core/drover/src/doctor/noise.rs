//! Finds other processes that are active on this machine.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use load::clock;
use measure::machine::Machine;
use subject::usage;

use super::Finding;

/// Time for which the processes are watched.
const SAMPLE: Duration = Duration::from_millis(700);
/// Use of one core above which a process disturbs, in percent.
const DISTURBS_PCT: f64 = 10.0;
/// Maximum number of processes that are reported.
const MOST_NAMED: usize = 5;

pub(super) fn check(machine: &Machine) -> Vec<Finding> {
    let mut found = Vec::new();
    // Before the sample, so that it is not its own.
    if let Some(load) = machine.load1.filter(|load| *load > 0.5) {
        let what = format!(
            "the load average is {load:.2} on {} processors",
            machine.cpus
        );
        found.push(Finding::new(what, "wait until it is below 0.5"));
    }
    let (before, began) = (usage::cpu_ticks(), clock::now());
    thread::sleep(SAMPLE);
    let passed_s = clock::now().saturating_sub(began) as f64 / 1e9;
    found.extend(
        busiest(&before, &usage::cpu_ticks(), passed_s)
            .into_iter()
            .map(|(pid, pct)| {
                let what = format!("`{}` (pid {pid}) uses {pct:.0} % of a processor", name(pid));
                Finding::new(
                    what,
                    format!("wait until it has ended, or stop it (kill {pid})"),
                )
            }),
    );
    found
}

/// Returns the processes that used the most CPU time, with the percent of a core that they used.
fn busiest(
    before: &BTreeMap<i32, u64>,
    after: &BTreeMap<i32, u64>,
    passed_s: f64,
) -> Vec<(i32, f64)> {
    let own = std::process::id().cast_signed();
    let pct = |ticks: u64| 100.0 * ticks as f64 / usage::ticks_per_s() as f64 / passed_s;
    let mut busy: Vec<(i32, f64)> = after
        .iter()
        .filter(|(pid, _)| **pid != own)
        .filter_map(|(pid, ticks)| Some((*pid, pct(ticks.saturating_sub(*before.get(pid)?)))))
        .filter(|(_, pct)| *pct > DISTURBS_PCT)
        .collect();
    busy.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    busy.truncate(MOST_NAMED);
    busy
}

fn name(pid: i32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    name.map_or_else(|_| "ended".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_are_named_first_and_the_idle_not_at_all() {
        let per_s = usage::ticks_per_s();
        let before = [(1, 0), (2, 0), (3, 0)].into();
        let after = [(1, per_s / 2), (2, per_s), (3, 0), (4, per_s)].into();
        let named: Vec<i32> = busiest(&before, &after, 1.0)
            .iter()
            .map(|busy| busy.0)
            .collect();
        assert_eq!(named, [2, 1]);
    }
}
