//! Finds other processes that are active on this machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use load::clock;
use measure::machine::Machine;

use super::Finding;
use crate::project::entries;

/// Time for which the processes are watched.
const SAMPLE: Duration = Duration::from_millis(700);
/// Use of one core above which a process disturbs, in percent.
const DISTURBS_PCT: f64 = 10.0;
/// Maximum number of processes that are reported.
const MOST_NAMED: usize = 5;

/// CPU time of a process, and its name.
type Process = (u64, String);

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
    let (before, began) = (processes(), clock::now());
    thread::sleep(SAMPLE);
    let passed_s = clock::now().saturating_sub(began) as f64 / 1e9;
    found.extend(
        busiest(&before, &processes(), passed_s)
            .into_iter()
            .map(|(pid, name, pct)| {
                let what = format!("`{name}` (pid {pid}) uses {pct:.0} % of a processor");
                Finding::new(
                    what,
                    format!("wait until it has ended, or stop it (kill {pid})"),
                )
            }),
    );
    found
}

fn busiest(
    before: &BTreeMap<i32, Process>,
    after: &BTreeMap<i32, Process>,
    passed_s: f64,
) -> Vec<(i32, String, f64)> {
    let own = std::process::id().cast_signed();
    let mut busy: Vec<(i32, String, f64)> = after
        .iter()
        .filter(|(pid, _)| **pid != own)
        .filter_map(|(pid, (ticks, name))| {
            let (earlier, _) = before.get(pid)?;
            let used_s =
                ticks.saturating_sub(*earlier) as f64 / subject::usage::ticks_per_s() as f64;
            let pct = 100.0 * used_s / passed_s;
            (pct > DISTURBS_PCT).then(|| (*pid, name.clone(), pct))
        })
        .collect();
    busy.sort_by(|(.., one), (.., other)| other.total_cmp(one));
    busy.truncate(MOST_NAMED);
    busy
}

fn processes() -> BTreeMap<i32, Process> {
    let of = |folder: &Path| {
        let pid = folder.file_name()?.to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
        Some((pid, cpu_ticks(&stat)?))
    };
    entries(Path::new("/proc"))
        .iter()
        .filter_map(|folder| of(folder))
        .collect()
}

/// Parses `/proc/<pid>/stat`. The name is in brackets and may itself hold some; user and system time are fields 14 and
/// 15.
fn cpu_ticks(stat: &str) -> Option<Process> {
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_are_named_first_and_the_idle_not_at_all() {
        let per_s = subject::usage::ticks_per_s() as u64;
        let process = |ticks: u64| (ticks, format!("p{ticks}"));
        let before = [(1, process(0)), (2, process(0)), (3, process(0))].into();
        let after = [
            (1, process(per_s / 2)),
            (2, process(per_s)),
            (3, process(0)),
            (4, process(per_s)),
        ]
        .into();
        let named: Vec<i32> = busiest(&before, &after, 1.0)
            .iter()
            .map(|busy| busy.0)
            .collect();
        assert_eq!(named, [2, 1]);
    }

    #[test]
    fn a_name_may_hold_brackets() {
        let stat = "7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 30 12 0 0 20 0";
        assert_eq!(cpu_ticks(stat), Some((42, "a) b".to_owned())));
    }
}
