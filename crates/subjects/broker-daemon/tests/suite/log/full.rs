//! A full disk is retried; a failed disk is never trusted again.
//!
//! Disk errors are produced by replacing the segment's descriptor with `/dev/full` (each write: no space) or
//! `/dev/null` (writes succeed, a sync fails), which needs no privilege. A real small file system needs one.

use std::fs::{self, File};
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};

use broker_daemon::log::{Log, LogOptions, State};

use crate::log::model::{LONG, Model, Modelled, SMALL, publish, recover, segments};
use crate::small_disk::SmallDisk;

/// Returns this process's open descriptor for a file.
fn descriptor(path: &Path) -> RawFd {
    fs::read_dir("/proc/self/fd")
        .expect("the descriptors are listed")
        .filter_map(Result::ok)
        .find(|entry| fs::read_link(entry.path()).is_ok_and(|target| target == path))
        .and_then(|entry| entry.file_name().to_str()?.parse().ok())
        .expect("the segment is open")
}

/// The original of a replaced descriptor, until it is restored.
struct Swapped {
    number: RawFd,
    was: OwnedFd,
}

fn put(what: &impl std::os::fd::AsFd, number: RawFd) {
    #[expect(
        unsafe_code,
        reason = "the descriptor belongs to the log, which lends it to nobody"
    )]
    // SAFETY: the number is an open descriptor of the log under test, and stays one: dup2 puts another file there, and
    // the log is still the one that closes it.
    let done = unsafe { nix::unistd::dup2_raw(what, number) };
    // Owned by the log, so not closed here.
    std::mem::forget(done.expect("the descriptor is replaced"));
}

impl Swapped {
    fn new(segment: &Path, device: &str) -> Self {
        let number = descriptor(segment);
        #[expect(
            unsafe_code,
            reason = "the descriptor belongs to the log, which lends it to nobody"
        )]
        // SAFETY: the log under test has it open for as long as this test lasts.
        let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
        let was = borrowed.try_clone_to_owned().expect("a descriptor is free");
        let device = File::options()
            .read(true)
            .write(true)
            .open(device)
            .expect("the device opens");
        assert_ne!(device.as_raw_fd(), number);
        put(&device, number);
        Self { number, was }
    }

    fn back(self) {
        put(&self.was, self.number);
    }
}

/// Opens a log without a model, for states in which the two differ.
fn open(dir: &Path, options: LogOptions) -> (Log, Receiver<()>) {
    let (wake, woken) = mpsc::channel();
    let (log, _) = Log::open(dir, options, move || {
        let _ = wake.send(());
    })
    .expect("the folder opens");
    (log, woken)
}

fn wait(log: &Log, woken: &Receiver<()>, done: impl Fn(&Log) -> bool) {
    while !done(log) {
        woken.recv_timeout(LONG).expect("the writer goes on");
    }
}

fn full(log: &Log) -> bool {
    matches!(log.state(), State::Full)
}

fn failed(log: &Log) -> bool {
    matches!(log.state(), State::Failed(_))
}

#[test]
fn records_that_found_no_space_are_written_once_there_is_some() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Modelled::new(dir.path());
    log.publish(&[1], 100);
    log.sync();
    let swapped = Swapped::new(&segments(dir.path())[0], "/dev/full");
    let lost = log.publish(&[1], 200);
    let ticket = log.log.ticket();
    log.log.flush();
    log.wait(full);
    assert!(log.log.synced() < ticket, "nothing was written");
    // Settling continues, and is written in its turn.
    log.settle(1, lost);
    log.publish(&[2], 300);
    log.log.flush();
    swapped.back();
    log.sync();
    log.wait(|log| !full(log));
    log.reopen(dir.path(), SMALL).close();
}

#[test]
fn a_log_that_is_closed_while_the_disk_is_full_says_what_was_not_written() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut log, woken) = open(dir.path(), SMALL);
    publish(&mut log, 1, &[1], 100);
    log.flush();
    wait(&log, &woken, |log| log.synced() == 1);
    let swapped = Swapped::new(&segments(dir.path())[0], "/dev/full");
    publish(&mut log, 2, &[1], 100);
    log.flush();
    wait(&log, &woken, full);
    let error = log.close().expect_err("the second is not on disk");
    assert!(error.to_string().contains("writing"), "{error}");
    drop(swapped);
    let (model, _) = recover(dir.path()).expect("the first is");
    assert_eq!(model.messages.keys().collect::<Vec<_>>(), [&1]);
}

#[test]
fn a_sync_that_failed_is_final() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut log, woken) = open(dir.path(), SMALL);
    publish(&mut log, 1, &[1], 100);
    log.flush();
    wait(&log, &woken, |log| log.synced() == 1);
    let swapped = Swapped::new(&segments(dir.path())[0], "/dev/null");
    publish(&mut log, 2, &[1], 100);
    log.flush();
    wait(&log, &woken, failed);
    // The writer has ended and closed its file, so the descriptor is not restored: another test may already use its
    // number.
    drop(swapped);
    assert_eq!(log.synced(), 1);
    publish(&mut log, 3, &[1], 2 << 20);
    log.flush();
    assert!(failed(&log));
    assert!(!log.congested(), "nobody waits for what never comes");
    let error = log.close().expect_err("the second is not on disk");
    assert!(error.to_string().contains("syncing"), "{error}");
    let (model, _) = recover(dir.path()).expect("the first is");
    assert_eq!(model.messages.keys().collect::<Vec<_>>(), [&1]);
}

#[test]
fn no_segment_is_removed_before_what_makes_it_needless_is_on_disk() {
    let dir = tempfile::tempdir().expect("a folder");
    let (mut log, woken) = open(dir.path(), SMALL);
    // The first ends its segment.
    for (id, len) in [(1, 20_000), (2, 100)] {
        publish(&mut log, id, &[1], len);
        let ticket = log.ticket();
        log.flush();
        wait(&log, &woken, |log| log.synced() >= ticket);
    }
    let before = segments(dir.path());
    assert_eq!(before.len(), 2);
    let swapped = Swapped::new(&before[1], "/dev/null");
    // The oldest segment is no longer needed once this is on disk, which never happens.
    log.settle(1, 1);
    log.flush();
    wait(&log, &woken, failed);
    let error = log.close().expect_err("the last is not on disk");
    assert!(error.to_string().contains("syncing"), "{error}");
    drop(swapped);
    let (model, _) = recover(dir.path()).expect("both are there");
    assert_eq!(model.messages.keys().collect::<Vec<_>>(), [&1, &2]);
}

#[test]
fn a_full_file_system_refuses_loses_nothing_and_is_emptied_by_settling() {
    let Some(small) = SmallDisk::mount("4m") else {
        return;
    };
    let options = LogOptions {
        segment_bytes: 512 << 10,
        in_flight_bytes: 64 << 10,
    };
    let dir = small.0.path().join("log");
    let mut log = Modelled::open(&dir, options, Model::default(), 1);
    for round in 0..3 {
        while !full(&log.log) {
            log.publish(&[1], 10_000);
            log.sync();
        }
        assert!(
            log.model.messages.len() > 250,
            "round {round}: it has 4 MiB"
        );
        // Synced data is there, however full the disk is.
        log = log.reopen(&dir, options);
        // Nothing is published now; consuming frees space.
        let pairs: Vec<(u32, u64)> = log.pairs().collect();
        for (queue, id) in pairs.into_iter().skip(5 * round) {
            log.settle(queue, id);
            log.sync();
        }
        log.wait(|log| !full(log));
    }
    log.publish(&[2], 10_000);
    log.reopen(&dir, options).close();
}

#[test]
fn a_small_disk_keeps_most_of_its_space_and_a_closed_log_reserves_none_of_it() {
    let Some(small) = SmallDisk::mount("4m") else {
        return;
    };
    let used = || {
        let found = nix::sys::statvfs::statvfs(small.0.path()).expect("it tells its space");
        (found.blocks() - found.blocks_free()) * found.fragment_size()
    };
    let dir = small.0.path().join("log");
    let options = LogOptions::fitting(&dir).expect("it tells its space");
    let mut log = Modelled::open(&dir, options, Model::default(), 1);
    log.publish(&[1], 100);
    log.sync();
    assert!(log.log.has_room(500_000) && log.log.has_room(1_500_000));
    assert!(
        !log.log.has_room(2_500_000),
        "what is reserved is for what frees space"
    );
    // On a large disk, 128 MiB would be reserved.
    assert!((2 << 20..3 << 20).contains(&used()), "{}", used());
    log.close();
    assert!(used() < 64 << 10, "{} bytes are still reserved", used());
}

#[test]
fn a_file_system_without_one_free_byte_is_waited_out() {
    let Some(small) = SmallDisk::mount("4m") else {
        return;
    };
    let dir = small.0.path().join("log");
    let mut log = Modelled::open(&dir, SMALL, Model::default(), 1);
    log.publish(&[1], 10_000);
    log.sync();
    // Another process takes all remaining space.
    let ballast = small.0.path().join("ballast");
    let chunk = vec![1; 4096];
    let mut file = File::create(&ballast).expect("a file is made");
    while std::io::Write::write_all(&mut file, &chunk).is_ok() {}
    drop(file);
    // More than was reserved.
    for _ in 0..30 {
        log.publish(&[1], 3000);
        log.log.flush();
    }
    let ticket = log.log.ticket();
    log.wait(full);
    assert!(log.log.synced() < ticket);
    fs::remove_file(&ballast).expect("it is removed");
    log.wait(|log| log.synced() >= ticket);
    log.wait(|log| !full(log));
    log.reopen(&dir, SMALL).close();
}
