//! Tests of the launcher and the sampler with real processes.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

mod daemon_faults;
mod daemons;
mod ends;
mod listeners;
mod orphans;
mod prepare;
mod project;
mod readiness;
mod roles;
mod schema;
mod services;
mod surroundings;
mod trust;
mod usage;

/// Plays a role for other tests, which run this program again to get a daemon or a harness; it is not a test by itself.
#[test]
fn plays_the_role_that_the_environment_names() {
    roles::play();
}
