//! Disk use is proportional to the live data, and moving messages loses none.

use std::path::Path;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::log::model::{Modelled, SMALL, segments};

fn bytes_on_disk(dir: &Path) -> u64 {
    segments(dir)
        .iter()
        .map(|path| path.metadata().expect("a segment is there").len())
        .sum()
}

/// Asserts the bound: three times the live data, two segments, and the batch that ends a segment.
fn assert_bounded(log: &Modelled, batch: u64) {
    let usage = log.log.usage();
    let bound = 3 * usage.live_bytes + 2 * SMALL.segment_bytes + batch;
    assert!(usage.disk_bytes <= bound, "{usage:?}, bound {bound}");
}

/// Publishes and settles; `keep` of 100 messages stay.
fn churn(log: &mut Modelled, random: &mut StdRng, turns: usize, keep: u32) {
    for _ in 0..turns {
        for _ in 0..4 {
            let queues: &[u32] = if random.random_ratio(1, 3) {
                &[1, 2, 3]
            } else {
                &[1]
            };
            let id = log.publish(queues, random.random_range(0..800));
            let stays = random.random_ratio(keep, 100);
            for queue in &queues[usize::from(stays)..] {
                log.settle(*queue, id);
            }
        }
        log.sync();
        assert_bounded(log, 8 << 10);
    }
}

#[test]
fn a_few_messages_that_stay_do_not_keep_the_log_from_shrinking() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Modelled::new(dir.path());
    let mut random = StdRng::seed_from_u64(4);
    log.put("queue/a", b"durable");
    churn(&mut log, &mut random, 400, 2);
    assert!(log.model.messages.len() > 10);
    let mut log = log.reopen(dir.path(), SMALL);
    churn(&mut log, &mut random, 200, 2);
    // Moved messages are settled in part, moved again, and settled.
    let pairs: Vec<(u32, u64)> = log.pairs().collect();
    for (queue, id) in pairs.into_iter().filter(|(_, id)| id % 3 != 0) {
        log.settle(queue, id);
    }
    let mut log = log.reopen(dir.path(), SMALL);
    churn(&mut log, &mut random, 200, 0);
    log.delete_queue(1);
    log.delete_queue(2);
    log.delete_queue(3);
    churn(&mut log, &mut random, 20, 0);
    let (model, _) = log.close();
    assert!(model.messages.is_empty());
    let left = bytes_on_disk(dir.path());
    assert!(left <= 2 * SMALL.segment_bytes, "{left} bytes for nothing");
}

#[test]
fn messages_in_many_queues_stay_gone_where_they_were_settled_before_each_of_several_moves() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Modelled::new(dir.path());
    let kept: Vec<u64> = (0..10).map(|_| log.publish(&[1, 2, 3, 4], 50)).collect();
    for (round, queue) in [1, 2, 3].into_iter().enumerate() {
        for id in &kept {
            log.settle(queue, *id);
        }
        let before = segments(dir.path());
        for _ in 0..200 {
            let id = log.publish(&[9], 500);
            log.settle(9, id);
            log.sync();
        }
        log = log.reopen(dir.path(), SMALL);
        let moved = segments(dir.path())
            .iter()
            .all(|path| !before.contains(path));
        assert!(moved, "nothing was moved in round {round}");
    }
    log.close();
}

#[test]
fn usage_is_what_is_on_disk() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Modelled::new(dir.path());
    let mut random = StdRng::seed_from_u64(5);
    churn(&mut log, &mut random, 100, 20);
    let log = log.reopen(dir.path(), SMALL);
    let usage = log.log.usage();
    log.close();
    assert_eq!(usage.disk_bytes, bytes_on_disk(dir.path()));
    assert_eq!(usage.segments, segments(dir.path()).len());
}
