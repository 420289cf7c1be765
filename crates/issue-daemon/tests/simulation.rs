//! The queue in a simulation: clients, deadlines, idempotency keys, lost connections, failing disks and losses of power
//! on simulated time and a simulated disk. Each step is drawn from a seed, so that a failure can be repeated:
//!
//! ```text
//! SIMULATION_SEED=17 cargo test -p issue-daemon --test simulation
//! SIMULATION_OPERATIONS=1000000 cargo test --release -p issue-daemon --test simulation
//! ```

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod simulated;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use simulated::{Counts, World};

/// Requests of a seed.
const OPERATIONS: u64 = 2_000;
/// Requests of all seeds, unless `SIMULATION_OPERATIONS` says otherwise.
const ALL_OPERATIONS: u64 = 200_000;

#[test]
fn no_answer_is_wrong_whatever_happens() {
    let number = |name| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap())
    };
    let seeds = match number("SIMULATION_SEED") {
        Some(seed) => seed..seed + 1,
        None => {
            0..number("SIMULATION_OPERATIONS")
                .unwrap_or(ALL_OPERATIONS)
                .div_ceil(OPERATIONS)
        }
    };
    let is_one = seeds.end - seeds.start == 1;
    let mut all = Counts::default();
    for seed in seeds {
        let run = AssertUnwindSafe(|| World::new(seed).run(OPERATIONS));
        match catch_unwind(run) {
            Ok(counts) => all.add(&counts),
            Err(panic) => {
                // Beside the message of the panic, which stands above.
                let text = format!("repeat it with SIMULATION_SEED={seed}");
                resume_unwind(Box::new(match panic.downcast_ref::<String>() {
                    Some(message) => format!("{text}: {message}"),
                    None => text,
                }));
            }
        }
    }
    // The simulation reaches what it is for.
    let Counts {
        stored,
        refused,
        expired,
        unknown,
        repeated,
        crashes,
        reads,
        surfaced,
    } = all;
    let figures = [stored, refused, expired, unknown, repeated, crashes, reads];
    assert!(
        is_one || figures.iter().all(|figure| *figure > 20),
        "{all:?}"
    );
    assert!(is_one || surfaced > 0, "{all:?}");
}
