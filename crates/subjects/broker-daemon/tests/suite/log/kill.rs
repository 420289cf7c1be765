//! Many kills: a process that works on a log is killed at any moment, and everything reported as synced must be
//! on disk.
//!
//! The process is this test program itself, which runs one test with a folder in its environment. It reports through a
//! pipe, which a kill cannot undo, what it is about to do before it calls the log, and which turns are synced.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use broker_daemon::log::{Log, LogOptions, Recovered};
use rand::rngs::StdRng;
use rand::seq::IteratorRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use test_kit::{scaled, seed};

use crate::log::model::{LONG, Model, publish};

/// Kills of a full run.
const KILLS: u64 = 300;
/// Kills after which the share of work that was under way can be judged.
const ENOUGH: u64 = 100;
const FOLDER: &str = "DROVER_TEST_LOG";
const SEED: &str = "DROVER_TEST_SEED";
const OPTIONS: LogOptions = LogOptions {
    segment_bytes: 64 << 10,
    in_flight_bytes: 256 << 10,
};

fn pairs(recovered: &Recovered) -> BTreeSet<(u32, u64)> {
    let pairs = recovered.messages.iter();
    pairs
        .flat_map(|stored| stored.queues().iter().map(|queue| (*queue, stored.id)))
        .collect()
}

/// Runs as the killed process if the environment requests it: works until it is killed.
#[test]
fn the_process_that_is_killed() {
    let Some(dir) = std::env::var_os(FOLDER) else {
        return;
    };
    let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
    let mut random = StdRng::seed_from_u64(seed.expect("a seed is given"));
    let (wake, woken) = mpsc::channel();
    let (mut log, recovered) = Log::open(Path::new(&dir), OPTIONS, move || {
        let _ = wake.send(());
    })
    .unwrap_or_else(|error| panic!("{error}"));
    let mut held = pairs(&recovered);
    let mut next: u64 = std::env::var("DROVER_TEST_NEXT")
        .ok()
        .and_then(|next| next.parse().ok())
        .expect("the next id is given");
    let mut reported = log.ticket();
    // With one core, the test runner has begun a line with the name of the test.
    say("\n");
    loop {
        let mut said = String::new();
        let mut settled = Vec::new();
        let mut published = Vec::new();
        for _ in 0..random.random_range(0..8) {
            let count = random.random_range(1..4);
            let queues: Vec<u32> = (1..4).sample(&mut random, count);
            published.push((queues, random.random_range(0..4000)));
        }
        // As many as keep some hundreds in the log.
        for _ in 0..random.random_range(0..4 + held.len() / 20) {
            if let Some(pair) = held.iter().copied().choose(&mut random) {
                held.remove(&pair);
                settled.push(pair);
            }
        }
        for (queue, id) in &settled {
            let _ = writeln!(said, "settle {queue} {id}");
        }
        for (at, (queues, _)) in published.iter().enumerate() {
            for queue in queues {
                let _ = writeln!(said, "publish {queue} {}", next + at as u64);
            }
        }
        let _ = writeln!(said, "turn {}", reported + 1);
        say(&said);
        for (queue, id) in settled {
            log.settle(queue, id);
        }
        for (queues, len) in published {
            publish(&mut log, next, &queues, len);
            held.extend(queues.iter().map(|queue| (*queue, next)));
            next += 1;
        }
        log.put_meta("turn", &next.to_le_bytes());
        reported = log.ticket();
        log.flush();
        while log.congested() {
            woken.recv_timeout(LONG).expect("the writer goes on");
        }
        // Only sometimes, so that some turns share a sync and some are reported at once.
        while random.random_ratio(1, 2) && log.synced() < reported {
            woken.recv_timeout(LONG).expect("the writer goes on");
        }
        say(&format!("synced {}\n", log.synced()));
    }
}

fn say(lines: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(lines.as_bytes())
        .and_then(|()| out.flush())
        .expect("the parent reads");
}

/// A step: true to settle or false to publish, and the pair of queue and message.
type Step = (bool, (u32, u64));

/// The combined reports of the earlier processes.
#[derive(Debug, Default)]
struct Reported {
    /// Every pair that a turn was to publish, and whether that turn is known to be on disk.
    published: BTreeMap<(u32, u64), bool>,
    settled: BTreeMap<(u32, u64), bool>,
}

impl Reported {
    /// Reads the report of a process until it was killed. Returns how many turns were reported as synced.
    fn add(&mut self, lines: impl Iterator<Item = String>) -> u64 {
        let mut turn = Vec::new();
        let mut turns: BTreeMap<u64, Vec<Step>> = BTreeMap::new();
        let mut synced = 0;
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
            match (words[0], number(1), number(2)) {
                (kind @ ("settle" | "publish"), Some(queue), Some(id)) => {
                    turn.push((kind == "settle", (queue as u32, id)));
                }
                ("turn", Some(ticket), None) => {
                    turns.insert(ticket, std::mem::take(&mut turn));
                }
                ("synced", Some(ticket), None) => synced = ticket,
                // Output of the test program itself.
                _ => {}
            }
        }
        turns.insert(u64::MAX, turn);
        for (ticket, operations) in turns {
            for (settles, pair) in operations {
                let known = if settles {
                    &mut self.settled
                } else {
                    &mut self.published
                };
                known.insert(pair, ticket <= synced);
            }
        }
        synced
    }

    /// Compares the recovered pairs with it, and takes them as known from then on.
    fn check(&mut self, found: &BTreeSet<(u32, u64)>) {
        for pair in found {
            assert!(
                self.published.contains_key(pair),
                "{pair:?} was never published"
            );
            assert_ne!(self.settled.get(pair), Some(&true), "{pair:?} is back");
        }
        for (pair, synced) in &self.published {
            if *synced && !self.settled.contains_key(pair) {
                assert!(found.contains(pair), "{pair:?} was synced and is gone");
            }
        }
        self.published = found.iter().map(|pair| (*pair, true)).collect();
        self.settled.clear();
    }
}

fn start(dir: &Path, seed: u64, next: u64) -> Child {
    Command::new(std::env::current_exe().expect("this program has a path"))
        .args([
            "--exact",
            "log::kill::the_process_that_is_killed",
            "--nocapture",
        ])
        .env(FOLDER, dir)
        .env(SEED, seed.to_string())
        .env("DROVER_TEST_NEXT", next.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program starts")
}

#[test]
fn synced_records_survive_kills_at_any_time() {
    let kills = scaled(KILLS);
    let dir = tempfile::tempdir().expect("a folder");
    let mut random = StdRng::seed_from_u64(seed());
    let mut reported = Reported::default();
    let (mut synced, mut unsure, mut next) = (0, 0, 1);
    for _ in 0..kills {
        let mut child = start(dir.path(), random.random(), next);
        let out = child.stdout.take().expect("it is piped");
        let mut lines = BufReader::new(out).lines();
        // Killed after this many lines, or somewhat later, whatever it is doing then.
        let mut lines_read: Vec<String> = Vec::new();
        for _ in 0..random.random_range(1..600) {
            let line = lines.next().expect("the process works until it is killed");
            lines_read.push(line.expect("the pipe is read"));
        }
        child.kill().expect("it runs");
        lines_read.extend(lines.map_while(Result::ok));
        child.wait().expect("it ends");
        synced += reported.add(lines_read.into_iter());
        let (log, recovered) =
            Log::open(dir.path(), OPTIONS, || ()).unwrap_or_else(|error| panic!("{error}"));
        Model::from_recovered(&recovered);
        unsure += reported
            .published
            .values()
            .filter(|synced| !**synced)
            .count();
        reported.check(&pairs(&recovered));
        let meta = recovered.meta.first().map(|(_, next)| next.as_slice());
        next = meta.map_or(1, |next| {
            u64::from_le_bytes(next.try_into().expect("eight bytes"))
        });
        drop(log);
    }
    if kills >= ENOUGH {
        assert!(synced > 10 * kills, "{synced} turns were synced");
        assert!(
            unsure as u64 > kills / 3,
            "nothing was under way: {unsure} messages"
        );
    }
}
