//! The content of a reopened log, and its lock.

use std::fs::{self, File};
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use broker_daemon::log::{Error, Log, LogOptions};
use nix::fcntl::{FallocateFlags, fallocate};

use crate::log::model::{Model, Modelled, SMALL, recover, segments};

/// Returns the bytes that the segments of a folder take on the disk.
fn allocated(dir: &Path) -> u64 {
    let sizes = segments(dir).into_iter().map(|path| {
        let metadata = fs::metadata(path).expect("a segment is there");
        metadata.blocks() * 512
    });
    sizes.sum()
}

#[test]
fn unsettled_messages_are_there_again_in_order() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Modelled::new(dir.path());
    log.put("queue/a", b"durable");
    log.put("queue/b", b"durable");
    let first = log.publish(&[1], 0);
    let second = log.publish(&[1, 2, 3], 1024);
    log.publish(&[2], 3_000_000);
    log.sync();
    log.settle(1, first);
    log.settle(2, second);
    log.delete("queue/a");
    log.sync();
    let mut log = log.reopen(dir.path(), SMALL);
    log.publish(&[3], 10);
    log.delete_queue(3);
    // A queue with the same number starts empty.
    log.publish(&[3], 11);
    log.reopen(dir.path(), SMALL).close();
}

#[test]
fn nothing_is_synced_before_it_is_flushed_and_an_empty_turn_waits_for_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Modelled::new(dir.path());
    assert_eq!(log.log.ticket(), log.log.synced());
    log.publish(&[1], 100);
    let ticket = log.log.ticket();
    assert!(ticket > log.log.synced());
    log.sync();
    assert_eq!(log.log.synced(), ticket);
    assert_eq!(log.log.ticket(), ticket);
    log.sync();
}

#[test]
fn settling_twice_or_the_wrong_queue_changes_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Modelled::new(dir.path());
    let one = log.publish(&[1], 10);
    let both = log.publish(&[1, 2], 10);
    log.settle(2, one);
    log.settle(1, both);
    log.settle(1, both);
    log.settle(7, both);
    log.settle(1, both + 100);
    assert_eq!(log.log.usage().segments, 1);
    log.reopen(dir.path(), SMALL).close();
}

#[test]
fn a_log_that_takes_more_than_it_can_write_says_so_and_catches_up() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Modelled::new(dir.path());
    assert!(!log.log.congested());
    for _ in 0..20 {
        log.publish(&[1], 100_000);
    }
    assert!(
        log.log.congested(),
        "2 MB are gathered and 1 MiB is the limit"
    );
    log.log.flush();
    log.wait(|log| !log.congested());
    log.close();
}

#[test]
fn the_ids_of_a_folder_ascend_when_nothing_is_left_in_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Modelled::new(dir.path());
    log.put("queue/a", b"kept");
    for _ in 0..100 {
        let id = log.publish(&[1], 1000);
        log.settle(1, id);
        log.sync();
    }
    // `publish` checks that the id is the next one.
    let mut log = log.reopen(dir.path(), SMALL).reopen(dir.path(), SMALL);
    log.publish(&[1], 1);
    log.close();
}

#[test]
fn two_cannot_open_one_folder() {
    let dir = tempfile::tempdir().expect("a folder");
    let log = Modelled::new(dir.path());
    let error = Log::open(dir.path(), SMALL, || ()).expect_err("it is open");
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    assert!(error.to_string().contains("another broker"));
    log.close();
    let (model, _) = recover(dir.path()).expect("it is free");
    assert_eq!(model, Model::default());
}

#[test]
fn a_folder_that_is_dropped_is_free_and_whole() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Modelled::new(dir.path());
    log.publish(&[1], 100);
    let model = log.model.clone();
    drop(log);
    assert_eq!(recover(dir.path()).expect("it is free"), (model, 0));
}

#[test]
fn opening_a_log_leaves_no_files_behind() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Modelled::new(dir.path());
    log.publish(&[1], 100);
    for _ in 0..200 {
        log = log.reopen(dir.path(), SMALL);
        let id = log.publish(&[2], 100);
        log.settle(2, id);
        log.sync();
    }
    log.close();
    let files = segments(dir.path()).len();
    assert!(
        files < 20,
        "{files} segments after 200 starts with one message"
    );
}

#[test]
fn definitions_that_fill_a_segment_do_not_begin_one_with_each_turn() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Modelled::new(dir.path());
    for number in 0..200 {
        log.put(&format!("queue/{number}"), &[0; 200]);
    }
    log.sync();
    for _ in 0..20 {
        log.publish(&[1], 100);
        log.sync();
    }
    assert!(log.log.usage().segments <= 3, "{:?}", log.log.usage());
    log.reopen(dir.path(), SMALL).close();
}

#[test]
fn the_space_that_a_killed_process_had_reserved_is_given_back_in_every_segment() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Modelled::new(dir.path());
    // One message each, so that no segment is removed.
    for _ in 0..3 {
        log.publish(&[1], 100);
        log = log.reopen(dir.path(), SMALL);
    }
    let (model, next) = log.close();
    let paths = segments(dir.path());
    assert!(paths.len() >= 3, "{paths:?}");
    // As after a kill: nothing ended the segment.
    let reserved = 8 << 20;
    for path in &paths {
        let file = File::options().write(true).open(path).expect("it opens");
        fallocate(
            file.as_fd(),
            FallocateFlags::FALLOC_FL_KEEP_SIZE,
            0,
            reserved,
        )
        .expect("the file system reserves space");
    }
    assert!(allocated(dir.path()) >= paths.len() as u64 * reserved as u64);
    let log = Modelled::open(dir.path(), SMALL, model, next);
    let left = allocated(dir.path());
    assert!(left < 1 << 20, "{left} bytes are still reserved");
    log.close();
    let left = allocated(dir.path());
    assert!(left < 1 << 20, "{left} bytes are still reserved");
}

#[test]
fn segments_fit_the_disk_and_stay_as_they_are_while_the_log_fills_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path().join("log");
    let options = LogOptions::fitting(&folder).expect("the disk tells its space");
    let found = nix::sys::statvfs::statvfs(&folder).expect("the disk tells its space");
    let free = found.blocks_available() * found.fragment_size();
    // Other processes write to this disk meanwhile.
    assert!(options.segment_bytes <= (free / 16).max(1 << 20));
    assert!((1 << 20..=64 << 20).contains(&options.segment_bytes));
    assert!(options.in_flight_bytes <= options.segment_bytes / 4);
}
