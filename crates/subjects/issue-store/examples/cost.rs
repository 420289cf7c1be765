//! Creates issues in groups as a daemon does, and prints the costs: CPU time, the largest write-ahead log, and memory.
//!
//! `cost PATH CREATES GROUP DURABILITY`. Count its syncs with `strace -f -c -e fsync,fdatasync`.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "it prints its figures, and ends if it cannot measure them"
)]

use std::path::Path;

use issue_store::{NewIssue, Options, Store, Timestamp};
use nix::time::{ClockId, clock_gettime};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, otherwise: u64| {
        let text = arguments.get(index);
        text.map_or(otherwise, |text| text.parse().expect("it is a number"))
    };
    let path = arguments.first().expect("the first argument is a path");
    let (creates, size) = (number(1, 100_000), number(2, 64));
    let durability = arguments.get(3).map_or("fsync", String::as_str);
    let options = Options {
        durability: durability.parse().expect("it is fsync, os or none"),
        ..Options::default()
    };
    let store = Store::open(Path::new(path), options).expect("the database opens");
    let mut writer = store.writer().expect("the writer opens");
    let readers = [(); 2].map(|()| store.reader().expect("a reader opens"));
    let (began, cpu_began) = (ns(ClockId::CLOCK_MONOTONIC), cpu_ns());
    let (mut checkpoint_ns, mut checkpoints, mut groups, mut largest_log) = (0, 0, 0, 0);
    let mut created = 0;
    while created < creates {
        let mut group = writer.begin().expect("a group begins");
        for number in created..(created + size).min(creates) {
            let new = NewIssue {
                title: format!("Issue {number} of a bulk creator"),
                description: "It has a description of some forty bytes.".to_owned(),
                priority: (number % 5) as u8,
                ..NewIssue::default()
            };
            let create = group.apply(Timestamp::now(), |changes| changes.create("agent", &new));
            create.expect("it is created");
        }
        group.commit().expect("it is committed");
        created += size;
        groups += 1;
        let log = std::fs::metadata(format!("{path}-wal")).map_or(0, |log| log.len());
        largest_log = largest_log.max(log);
        let before = cpu_ns();
        if writer.checkpoint_if_due().expect("a checkpoint works") {
            checkpoint_ns += cpu_ns() - before;
            checkpoints += 1;
        }
    }
    let cpu = cpu_ns() - cpu_began;
    let wall = ns(ClockId::CLOCK_MONOTONIC) - began;
    for reader in &readers {
        reader.stats().expect("it is read");
    }
    let per = |ns: u64| ns as f64 / 1e3 / creates as f64;
    println!(
        "CPU {:.1} us per create, of it {:.1} us in {checkpoints} checkpoints; {groups} groups; {:.0} creates/s; \
         log {:.1} MB; {}",
        per(cpu),
        per(checkpoint_ns),
        creates as f64 / (wall as f64 / 1e9),
        largest_log as f64 / 1e6,
        memory()
    );
}

fn ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).expect("Linux has this clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

fn cpu_ns() -> u64 {
    ns(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("this is Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    line.unwrap_or_default().replace('\t', " ")
}
