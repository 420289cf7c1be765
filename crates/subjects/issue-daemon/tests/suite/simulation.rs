//! The queue in a simulation: clients, deadlines, idempotency keys, lost connections, failing disks and losses of power
//! on simulated time and a simulated disk. Each step is drawn from the seed of its world. A failure names that seed:
//!
//! ```text
//! DROVER_SEED=17 scripts/test --scale 0.001 simulation    # the world of this seed alone
//! scripts/test --scale 50 simulation                      # 50,000,000 operations
//! ```

mod model;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use test_kit::{scaled, seed};
use world::{Counts, World};

/// Requests of a world.
const OPERATIONS: u64 = 2_000;
/// Requests of all worlds in a full run.
const ALL_OPERATIONS: u64 = 1_000_000;
/// Worlds in which everything happens some dozen times, except what is rare.
const ENOUGH: u64 = 20;
/// Worlds in which what is rare happens too.
const ENOUGH_FOR_RARE: u64 = 500;

/// Runs the world of a seed. A failure names it.
fn run(seed: u64) -> Counts {
    let run = AssertUnwindSafe(|| World::new(seed).run(OPERATIONS));
    catch_unwind(run).unwrap_or_else(|panic| {
        // Beside the message of the panic, which stands above.
        let message = panic.downcast_ref::<String>().map_or("", |message| message);
        panic!("repeat this world with DROVER_SEED={seed} and --scale 0.001: {message}");
    })
}

#[test]
fn no_answer_is_wrong_whatever_happens() {
    let first = seed();
    let worlds = scaled(ALL_OPERATIONS).div_ceil(OPERATIONS);
    let next = AtomicU64::new(0);
    let all = Mutex::new(Counts::default());
    let threads = thread::available_parallelism().map_or(1, |cores| cores.get());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let world = next.fetch_add(1, Ordering::Relaxed)
                    && world < worlds
                {
                    let counts = run(first.wrapping_add(world));
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
        worlds < ENOUGH || figures.iter().all(|figure| *figure > 20),
        "{figures:?} {surfaced}"
    );
    assert!(
        worlds < ENOUGH_FOR_RARE || surfaced > 0,
        "{figures:?} {surfaced}"
    );
}
