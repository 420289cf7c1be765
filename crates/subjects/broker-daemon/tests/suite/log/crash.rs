//! A crash at any byte: synced data survives, and unsynced data is a prefix or missing.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex};

use broker_daemon::log::{Log, LogOptions};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use test_kit::assert_contains;

use crate::log::model::{LONG, Model, Modelled, SMALL, publish, recover, segments};

/// Length of the headers of a segment and of a batch, and the offset of the batch's length.
const SEGMENT_HEADER: usize = 44;
const BATCH_HEADER: usize = 24;

#[derive(Debug, Clone)]
enum Op {
    Publish {
        queues: Vec<u32>,
        len: usize,
    },
    /// Settles an existing pair of queue and message.
    Settle(Index),
    DeleteQueue(u32),
    Put(u8, Vec<u8>),
    Delete(u8),
    Flush,
}

fn op() -> impl Strategy<Value = Op> {
    let queues = proptest::sample::subsequence(vec![1, 2, 3, 4], 1..4);
    prop_oneof![
        8 => (queues, prop_oneof![0..200usize, 0..6000usize])
            .prop_map(|(queues, len)| Op::Publish { queues, len }),
        10 => any::<Index>().prop_map(Op::Settle),
        1 => (1..5u32).prop_map(Op::DeleteQueue),
        1 => (any::<u8>(), vec(any::<u8>(), 0..40)).prop_map(|(key, value)| Op::Put(key % 8, value)),
        1 => any::<u8>().prop_map(|key| Op::Delete(key % 8)),
        6 => Just(Op::Flush),
    ]
}

fn perform(log: &mut Modelled, op: Op) {
    match op {
        Op::Publish { queues, len } => {
            log.publish(&queues, len);
        }
        Op::Settle(index) => {
            let pairs: Vec<(u32, u64)> = log.pairs().collect();
            if !pairs.is_empty() {
                let (queue, id) = *index.get(&pairs);
                log.settle(queue, id);
            }
        }
        Op::DeleteQueue(queue) => log.delete_queue(queue),
        Op::Put(key, value) => log.put(&key.to_string(), &value),
        Op::Delete(key) => log.delete(&key.to_string()),
        Op::Flush => log.log.flush(),
    }
}

/// Links the existing segments into an image, newest first, so that none is missing between two others while the writer
/// removes the oldest. Later writes to them also appear in the image.
fn link(dir: &Path, image: &Path) {
    for path in segments(dir).into_iter().rev() {
        let name = path.file_name().expect("a segment has a name");
        match fs::hard_link(&path, image.join(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            linked => linked.expect("a segment is linked"),
        }
    }
}

/// Returns the length of a file.
fn length(path: &Path) -> usize {
    fs::metadata(path).map_or(0, |metadata| metadata.len() as usize)
}

/// Returns the length that a segment has when it gets its name: header and definitions.
fn beginning(bytes: &[u8]) -> usize {
    let len = &bytes[SEGMENT_HEADER + 4..SEGMENT_HEADER + 8];
    let len = u32::from_le_bytes(len.try_into().expect("four bytes"));
    SEGMENT_HEADER + BATCH_HEADER + len as usize
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_crash_at_any_byte_leaves_what_was_synced_and_whole_flushes(
        before in vec(op(), 0..150),
        synced in vec(op(), 0..30),
        tail in vec(op(), 1..30),
        at in any::<Index>(),
        garbage in vec(any::<u8>(), 0..300),
    ) {
        let dir = tempfile::tempdir().expect("a folder");
        let image = tempfile::tempdir_in(dir.path()).expect("a folder");
        let mut log = Modelled::new(dir.path());
        before.into_iter().for_each(|op| perform(&mut log, op));
        let mut log = log.reopen(dir.path(), SMALL);
        synced.into_iter().for_each(|op| perform(&mut log, op));
        log.sync();
        link(dir.path(), image.path());
        let mut states = vec![log.model.clone()];
        let synced = segments(image.path());
        let durable = synced.last().map_or(0, |path| length(path));
        for op in tail.into_iter().chain([Op::Flush]) {
            let flush = matches!(op, Op::Flush);
            perform(&mut log, op);
            if flush {
                log.sync();
                link(dir.path(), image.path());
                states.push(log.model.clone());
            }
        }
        log.close();

        // The crash: one of the segments written since ends early, and those after it do not exist.
        let written = segments(image.path()).split_off(synced.len().saturating_sub(1));
        if let Some(last) = written.len().checked_sub(1).map(|last| at.index(last + 1)) {
            let path = &written[last];
            let mut bytes = fs::read(path).expect("a segment is read");
            let was_there = last == 0 && !synced.is_empty();
            // A mark may have followed it, which is gone when the segment ends.
            let least = if was_there { durable.min(bytes.len()) } else { beginning(&bytes) };
            let end = least + at.index(bytes.len() + 1 - least);
            if end < bytes.len() {
                bytes.truncate(end);
                bytes.extend_from_slice(&garbage);
            }
            fs::write(path, bytes).expect("a segment is written");
            for later in &written[last + 1..] {
                fs::remove_file(later).expect("a segment is removed");
            }
        }
        let (found, _) = recover(image.path()).unwrap_or_else(|error| panic!("{error}"));
        prop_assert!(states.contains(&found), "{found:?} is none of {states:?}");
        // The remains of a crash are a log like any other.
        let again = recover(image.path()).unwrap_or_else(|error| panic!("{error}"));
        prop_assert_eq!(again, (found, 0));
    }
}

/// Returns a log with one synced message, followed by three flushes that shared a sync; a fourth after them if `more`.
fn grouped(dir: &Path, more: bool) -> (Vec<Model>, Vec<u64>) {
    let gate = Arc::new(Mutex::new(()));
    let (arrive, arrived) = std::sync::mpsc::channel();
    let wake = {
        let gate = Arc::clone(&gate);
        move || {
            let _ = arrive.send(());
            drop(gate.lock());
        }
    };
    let (mut log, _) = Log::open(dir, LogOptions::default(), wake).expect("an empty folder opens");
    let length = || segments(dir)[0].metadata().expect("it is there").len();
    let wait = |log: &Log, ticket| {
        while log.synced() < ticket {
            arrived.recv_timeout(LONG).expect("the writer goes on");
        }
    };
    // The writer is held when it reports the first sync, until the next three are there.
    let held = gate.lock().expect("nobody panics");
    publish(&mut log, 1, &[1], 5000);
    log.flush();
    wait(&log, 1);
    let mut lengths = vec![length()];
    for id in 2..5 {
        publish(&mut log, id, &[1], 5000);
        log.flush();
    }
    drop(held);
    wait(&log, 4);
    if more {
        publish(&mut log, 5, &[1], 5000);
        log.flush();
    }
    log.close().expect("all is written");
    for id in 2..5 {
        lengths.push(
            lengths[0] + (id - 1) * (lengths[0] - SEGMENT_HEADER as u64 - BATCH_HEADER as u64),
        );
    }
    let states = (1..6)
        .map(|last| {
            let mut model = Model::default();
            for id in 1..=last {
                model.messages.insert(id, (5000, [1].into()));
            }
            model
        })
        .collect();
    (states, lengths)
}

/// Zeroes the bytes between two offsets, as if a page was not written although the next one was.
fn zero(path: &Path, from: u64, to: u64) {
    let mut bytes = fs::read(path).expect("a segment is read");
    bytes[from as usize..to as usize].fill(0);
    fs::write(path, bytes).expect("a segment is written");
}

#[test]
fn pages_of_one_sync_that_were_written_out_of_order_are_a_torn_tail() {
    let dir = tempfile::tempdir().expect("a folder");
    let (states, lengths) = grouped(dir.path(), false);
    let path = &segments(dir.path())[0];
    // The last mark says that everything before was synced: without it, nothing does.
    let bytes = fs::read(path).expect("a segment is read");
    fs::write(path, &bytes[..lengths[3] as usize]).expect("a segment is written");
    zero(path, lengths[1], lengths[1] + 4096);
    let (found, cut) = recover(dir.path()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found, states[1]);
    assert_eq!(cut, lengths[3] - lengths[1]);
}

#[test]
fn the_same_hole_is_damage_when_something_was_written_after_the_sync() {
    let dir = tempfile::tempdir().expect("a folder");
    let (_, lengths) = grouped(dir.path(), true);
    let path = &segments(dir.path())[0];
    zero(path, lengths[1], lengths[1] + 4096);
    let error = recover(dir.path()).expect_err("synced bytes are gone");
    let message = error.to_string();
    assert_contains(&message, &[&format!("byte {}", lengths[1])]);
    assert!(message.contains(path.to_str().expect("text")), "{message}");
}
