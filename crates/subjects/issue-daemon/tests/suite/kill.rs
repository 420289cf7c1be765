//! Deaths of the process under load.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use serde_json::json;
use test_kit::{scaled, seed, wait_until};

use crate::support::{Client, Daemon, reader};

/// Kills of a full run.
const KILLS: u64 = 300;
const AGENTS: u32 = 4;
/// A kill waits for fewer acknowledged requests than this.
const ACKNOWLEDGED: u64 = 60;
/// Longest pause between the last of them and the kill, in microseconds: the kill hits any part of a group.
const LONGEST_PAUSE: u64 = 5_000;

/// The issues of a client by what it knows about them.
#[derive(Default)]
struct Known {
    /// Acknowledged by the daemon.
    stored: HashSet<String>,
    /// Sent, and not answered.
    open: HashSet<String>,
    /// The ids of batches that were sent: all of one, or none, must be there.
    batches: Vec<[String; 3]>,
}

impl Known {
    fn add(&mut self, other: Self) {
        self.stored.extend(other.stored);
        self.open.extend(other.open);
        self.batches.extend(other.batches);
    }
}

/// Creates issues until the connection ends. Counts the requests that were acknowledged.
fn work(socket: &Path, prefix: &str, acknowledged: &AtomicU64) -> Known {
    let mut known = Known::default();
    let Ok(mut client) = Client::connect(socket) else {
        return known;
    };
    for number in 0.. {
        let ids = ["a", "b", "c"].map(|part| format!("{prefix}-{number}-{part}"));
        let create = |id: &String| json!({"operation": "create", "args": {"title": "t", "id": id}});
        let (request, ids) = if number % 3 == 0 {
            known.batches.push(ids.clone());
            let operations: Vec<_> = ids.iter().map(create).collect();
            (
                json!({"operation": "batch", "args": {"mode": "atomic", "operations": operations}}),
                ids.to_vec(),
            )
        } else {
            (create(&ids[0]), vec![ids[0].clone()])
        };
        if client.send(&request).is_err() {
            known.open.extend(ids);
            break;
        }
        match client.answer() {
            Some(answer) => {
                assert_eq!(answer["success"], true, "{answer}");
                known.stored.extend(ids);
                acknowledged.fetch_add(1, Ordering::Relaxed);
            }
            None => {
                known.open.extend(ids);
                break;
            }
        }
    }
    known
}

fn check(database: &Path, known: &Known) {
    let reader = reader(database);
    assert_eq!(reader.check().unwrap(), Vec::<String>::new());
    let mut found = HashSet::new();
    let mut after = 0;
    loop {
        let page = reader.export(after, 10_000, false).unwrap();
        found.extend(page.records.into_iter().map(|record| record.issue.id));
        match page.next {
            Some(next) => after = next,
            None => break,
        }
    }
    let lost: Vec<_> = known.stored.difference(&found).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    let foreign = found
        .iter()
        .filter(|id| !known.stored.contains(*id) && !known.open.contains(*id));
    assert_eq!(foreign.count(), 0, "nobody sent them");
    for batch in &known.batches {
        let there = batch.iter().filter(|id| found.contains(*id)).count();
        assert!(
            there == 0 || there == batch.len(),
            "half a batch: {batch:?}"
        );
    }
}

#[test]
fn acknowledged_writes_survive_kills_at_any_time() {
    let kills = scaled(KILLS);
    let mut random = StdRng::seed_from_u64(seed());
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("issues.db");
    let mut known = Known::default();
    let mut expected = 0;
    for round in 0..kills {
        let mut daemon = Daemon::on(&database, &[]);
        let socket = daemon.socket.clone();
        // About every tenth time the daemon is asked to stop, and killed while it does.
        let is_asked = random.random_ratio(1, 10);
        // From the first connection on: 0 waits for no request.
        let wanted = random.random_range(0..ACKNOWLEDGED);
        expected += wanted;
        let acknowledged = AtomicU64::new(0);
        thread::scope(|scope| {
            let agents: Vec<_> = (0..AGENTS)
                .map(|agent| {
                    let (socket, acknowledged) = (&socket, &acknowledged);
                    scope.spawn(move || work(socket, &format!("k-{round}-{agent}"), acknowledged))
                })
                .collect();
            wait_until("requests are acknowledged", || {
                acknowledged.load(Ordering::Relaxed) >= wanted
            });
            // The instant of the kill is what the test varies: no condition marks it.
            thread::sleep(Duration::from_micros(random.random_range(0..LONGEST_PAUSE)));
            if is_asked {
                daemon.signal(Signal::SIGTERM);
                // As above: the kill hits any part of the end.
                thread::sleep(Duration::from_micros(random.random_range(0..3_000)));
            }
            daemon.signal(Signal::SIGKILL);
            daemon.wait();
            for agent in agents {
                known.add(agent.join().unwrap());
            }
        });
        if round % 20 == 19 || round + 1 == kills {
            check(&database, &known);
        }
    }
    assert!(
        known.stored.len() as u64 >= expected,
        "only {} of {expected} were acknowledged",
        known.stored.len()
    );
}
