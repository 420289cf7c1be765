//! The queue in a simulation: clients, deadlines, idempotency keys, lost connections, failing disks and losses of power
//! on simulated time and a simulated disk. Each step is drawn from a seed, so that a failure can be repeated:
//!
//! ```text
//! SIMULATION_SEED=17 cargo test -p issue-daemon --test suite simulation
//! SIMULATION_OPERATIONS=50000000 cargo test --release -p issue-daemon --test suite simulation
//! ```

mod model;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use world::{Counts, World};

/// Requests of a seed.
const OPERATIONS: u64 = 2_000;
/// Requests of all seeds, unless `SIMULATION_OPERATIONS` says otherwise.
const ALL_OPERATIONS: u64 = 1_000_000;

/// Runs a seed. A failure names it.
fn run(seed: u64) -> Counts {
    let run = AssertUnwindSafe(|| World::new(seed).run(OPERATIONS));
    catch_unwind(run).unwrap_or_else(|panic| {
        // Beside the message of the panic, which stands above.
        let message = panic.downcast_ref::<String>().map_or("", |message| message);
        panic!("repeat it with SIMULATION_SEED={seed}: {message}");
    })
}

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
    let next = AtomicU64::new(seeds.start);
    let all = Mutex::new(Counts::default());
    let threads = thread::available_parallelism().map_or(1, |cores| cores.get());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let seed = next.fetch_add(1, Ordering::Relaxed)
                    && seeds.contains(&seed)
                {
                    let counts = run(seed);
                    all.lock().unwrap().add(&counts);
                }
            });
        }
    });
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
    } = *all.lock().unwrap();
    let figures = [stored, refused, expired, unknown, repeated, crashes, reads];
    assert!(
        is_one || figures.iter().all(|figure| *figure > 20),
        "{figures:?} {surfaced}"
    );
    assert!(is_one || surfaced > 0, "{figures:?} {surfaced}");
}
