//! Shared by tests of real processes: waits for a condition, and checks whether a process is alive.

use std::time::Duration;

use tokio::time::Instant;

/// Generous limit: on a busy machine with two cores a process may take seconds to start.
const LIMIT: Duration = Duration::from_secs(60);

/// Checks repeatedly until the condition holds.
///
/// # Panics
/// The condition does not hold within a minute.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LIMIT, "waited a minute for this: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns true if there is such a process that is not a zombie.
pub(crate) fn is_alive(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.trim_start().starts_with(['Z', 'X']))
}

/// Returns the process ids that a script has written to a file, once there are `count` of them.
pub(crate) fn wait_for_pids(file: &std::path::Path, count: usize) -> Vec<i32> {
    let mut pids = Vec::new();
    wait_until("the script writes the ids of its processes", || {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        // A line without its end may be half a number.
        pids = text
            .split_inclusive('\n')
            .filter_map(|line| line.strip_suffix('\n')?.trim().parse().ok())
            .collect();
        pids.len() >= count
    });
    pids
}
