//! The memory of the daemon's process while thousands come and go.

use std::time::Duration;

use harness_testing::processes::{wait_until, wait_until_within};
use harness_testing::program::{Program, RunningProgram};
use subject::daemon::Daemon;

use crate::faults::launched::{metric, own_memory_kib, with_daemon};
use crate::faults::plan::lost_nothing;

const USERS: u64 = 10_000;
/// Resident memory of its own may grow by a twentieth, and by this: pages that are partly used. A leak of 200 bytes for
/// each user is more.
const ALLOWANCE_KIB: u64 = 2048;
/// Time for the daemon to give memory back, which it does every 2 s if many sessions have ended.
const GIVE_BACK: Duration = Duration::from_secs(90);
/// Time for all users to join on a busy machine.
const JOINED: Duration = Duration::from_secs(300);
const UNCHANGED: Duration = Duration::from_secs(4);
/// Runs in which 400 users per second come and go, 1,200 in each.
const CHURNS: u32 = 3;

/// Starts a load with these options.
fn load(daemon: &Daemon, options: &str) -> RunningProgram {
    let url = daemon.endpoint().url.clone().unwrap();
    Program::new(env!("CARGO_BIN_EXE_presence-load"))
        .args(
            "--keep-open --users-per-room 5 --ack-timeout 20s --connect-timeout 2m --open-timeout 5m --threads 1 --quiet"
                .split(' '),
        )
        .args(options.split(' '))
        .args([&url])
        .start()
}

/// Lets all users join and leave once. Returns the resident memory while all were joined.
fn cycle(daemon: &Daemon) -> u64 {
    let load = load(daemon, "--rooms 2000 --ramp-up 4s --duration 1s");
    let mut most = 0;
    wait_until_within(JOINED, "all users have joined", || {
        most = most.max(own_memory_kib(daemon.pid()));
        metric(daemon, "presence_members") == USERS
    });
    let run = load.end();
    lost_nothing(&run);
    run.result
        .counts(&[("joins", USERS), ("leaves", USERS), ("connections_lost", 0)]);
    most
}

/// Waits until the resident memory is at most `limit`.
#[track_caller]
fn shrinks_to(daemon: &Daemon, limit: u64) {
    wait_until_within(
        GIVE_BACK,
        &format!("at most {limit} KiB are resident"),
        || own_memory_kib(daemon.pid()) <= limit,
    );
}

/// Waits until the resident memory has not changed for two intervals of the daemon, and returns it.
fn settled(daemon: &Daemon) -> u64 {
    let mut last = 0;
    wait_until("memory does not change", || {
        let before = std::mem::replace(&mut last, own_memory_kib(daemon.pid()));
        // Nothing says that memory stays as it is.
        std::thread::sleep(UNCHANGED);
        before == last
    });
    last
}

#[test]
fn memory_is_given_back_after_ten_thousand_leaves_and_does_not_grow_while_users_come_and_go() {
    // The C library caches freed blocks for each thread. How many it has of each size after one cycle is chance, and up to
    // 2 MiB: this switches its caches off.
    let plain = [
        ("PRESENCE_WORKERS", "2"),
        ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0"),
    ];
    with_daemon(&plain, |daemon| {
        cycle(daemon);
        let first = settled(daemon);
        let limit = first + first / 20 + ALLOWANCE_KIB;
        let most = cycle(daemon);
        // Otherwise nothing had to be given back.
        assert!(
            most > 2 * limit,
            "{most} KiB with all users, {first} KiB without"
        );
        shrinks_to(daemon, limit);
        for _ in 0..CHURNS {
            let options = "--rooms 100 --ramp-up 1s --churn 400 --duration 3s";
            let run = load(daemon, options).end();
            lost_nothing(&run);
            shrinks_to(daemon, limit);
        }
    });
}
