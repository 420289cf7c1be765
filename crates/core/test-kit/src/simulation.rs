//! Simulated peers: steps that a test draws from a seed, runs in a world of its own, and shrinks if they fail.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{scaled, seed};

/// Runs `worlds` worlds at scale 1. `draw` returns the steps of a seed, `run` performs them in a new world and returns
/// the number of its sessions, or what went wrong. Returns the number of all sessions.
///
/// # Panics
/// Some steps fail: the message has their seed and the fewest of them that fail in the same way.
#[track_caller]
#[expect(clippy::print_stdout, reason = "the runner shows it with a failure")]
pub fn simulate<S: Clone + Debug>(
    worlds: u64,
    draw: impl Fn(u64) -> Vec<S>,
    run: impl Fn(&[S]) -> Result<u64, String>,
) -> u64 {
    let first = seed();
    let mut sessions = 0;
    for world in 0..scaled(worlds) {
        let seed = first.wrapping_add(world);
        let steps = draw(seed);
        match run_caught(&steps, &run) {
            Ok(count) => sessions += count,
            Err(problem) => {
                // It takes a while to find the fewest steps.
                println!("DROVER_SEED={seed}: {problem}");
                let fewest = shrink(steps, &problem, &run);
                panic!(
                    "DROVER_SEED={seed}: {problem}\nthe {} steps that fail: {fewest:?}",
                    fewest.len()
                );
            }
        }
    }
    sessions
}

/// Runs steps. A panic counts as a failure.
fn run_caught<S>(steps: &[S], run: &impl Fn(&[S]) -> Result<u64, String>) -> Result<u64, String> {
    catch_unwind(AssertUnwindSafe(|| run(steps))).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(format!("a panic: {}", message.unwrap_or("without a text")))
    })
}

/// Removes steps for as long as the rest fails in the same way: first the halves, at last single steps, until none can
/// be left out.
fn shrink<S: Clone>(
    mut steps: Vec<S>,
    problem: &str,
    run: &impl Fn(&[S]) -> Result<u64, String>,
) -> Vec<S> {
    let mut size = steps.len();
    while size > 0 {
        let length = steps.len();
        let mut start = 0;
        while start < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(start..steps.len().min(start + size));
            match run_caught(&fewer, run) {
                Err(other) if kind(&other) == kind(problem) => steps = fewer,
                _ => start += size,
            }
        }
        // A step that was needed at first may not be needed without a later one.
        if size > 1 || steps.len() == length {
            size /= 2;
        }
    }
    steps
}

/// Returns the first word of a failure that distinguishes it from others.
fn kind(problem: &str) -> Option<&str> {
    problem.split_whitespace().find(|word| word.len() > 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails with a 7 before a 3.
    fn fails(steps: &[u64]) -> Result<u64, String> {
        let seven = steps.iter().position(|step| *step == 7);
        match seven {
            Some(at) if steps[at..].contains(&3) => Err(format!("a 3 after index {at}")),
            _ => Ok(1),
        }
    }

    #[test]
    fn failing_steps_are_shrunk_to_the_fewest() {
        let steps: Vec<u64> = (0..500).map(|step| step * 7 % 10).collect();
        assert_eq!(shrink(steps, "a 3 after index 1", &fails), [7, 3]);
    }

    #[test]
    fn a_failure_names_its_seed_and_the_fewest_steps() {
        let draw = |seed: u64| vec![1, 7, seed % 2, 3];
        let simulate = || simulate(40, draw, |steps| fails(steps).map_err(|_| panic!("seven")));
        let panic = catch_unwind(simulate).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains("DROVER_SEED="), "{message}");
        assert!(
            message.ends_with("the 2 steps that fail: [7, 3]"),
            "{message}"
        );
    }

    #[test]
    fn worlds_that_pass_add_their_sessions() {
        let sessions = simulate(100, |seed| vec![seed], |steps| Ok(steps.len() as u64));
        assert_eq!(sessions, scaled(100));
    }
}
