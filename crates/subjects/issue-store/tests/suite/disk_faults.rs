//! A disk that is full, and one whose syncs fail; and the number of syncs of a group.

use std::path::Path;

use issue_store::{Code, NewIssue, Options, Store, Timestamp, Writer};
use mock_vfs::MockVfs;

fn open(disk: &MockVfs) -> Store {
    let options = Options {
        vfs: Some(disk.name().to_owned()),
        ..Options::default()
    };
    Store::open(Path::new("issues.db"), options).unwrap()
}

fn create(writer: &mut Writer, length: usize) -> Result<(), Code> {
    let new = NewIssue {
        title: "t".to_owned(),
        description: "d".repeat(length),
        ..NewIssue::default()
    };
    let created = writer.apply(Timestamp(1), |changes| changes.create("a", &new));
    created.map(drop).map_err(|error| error.code())
}

/// Asserts that the database has this many issues, and nothing that disagrees with them.
fn holds(store: &Store, issues: u64) {
    let reader = store.reader().unwrap();
    assert_eq!(reader.stats().unwrap().total, issues);
    assert_eq!(reader.check().unwrap(), Vec::<String>::new());
}

#[test]
fn a_full_disk_refuses_a_request_and_takes_the_next_one_when_it_has_room() {
    let disk = MockVfs::new(1);
    let store = open(&disk);
    let mut writer = store.writer().unwrap();
    create(&mut writer, 10).unwrap();
    disk.limit_room(Some(10_000));
    assert_eq!(create(&mut writer, 100_000), Err(Code::Internal));
    holds(&store, 1);
    disk.limit_room(None);
    create(&mut writer, 100_000).unwrap();
    holds(&store, 2);
}

#[test]
fn a_group_whose_sync_fails_is_refused_and_what_was_acknowledged_stays() {
    let disk = MockVfs::new(1);
    let store = open(&disk);
    let mut writer = store.writer().unwrap();
    create(&mut writer, 10).unwrap();
    disk.fail_syncs(1);
    assert_eq!(create(&mut writer, 10), Err(Code::Internal));
    drop(writer);
    disk.crash();
    holds(&open(&disk), 1);
}

#[test]
fn pages_that_a_failed_sync_of_a_checkpoint_has_lost_are_read_from_the_log() {
    for seed in 0..10 {
        let disk = MockVfs::new(seed);
        let store = open(&disk);
        let mut writer = store.writer().unwrap();
        for _ in 0..10 {
            create(&mut writer, 10_000).unwrap();
        }
        let reader = store.writer().unwrap();
        reader
            .connection()
            .execute_batch("BEGIN; SELECT count(*) FROM issues")
            .unwrap();
        create(&mut writer, 10).unwrap();
        // It moves the first issues, and does not sync them.
        assert!(writer.checkpoint().unwrap() > 0);
        drop(reader);
        // The first sync is the log's.
        disk.fail_sync(2);
        assert!(writer.checkpoint().unwrap_err().is_failed_sync());
        // The last connection, with which SQLite would move the rest and remove the log.
        drop((writer, store));
        disk.crash();
        let store = open(&disk);
        holds(&store, 11);
        store.check_structure().unwrap();
    }
}

#[test]
fn a_group_costs_one_sync_however_many_requests_it_has() {
    let disk = MockVfs::new(1);
    let store = open(&disk);
    let mut writer = store.writer().unwrap();
    create(&mut writer, 10).unwrap();
    let before = disk.syncs();
    let mut group = writer.begin().unwrap();
    for _ in 0..20 {
        let new = NewIssue {
            title: "t".to_owned(),
            ..NewIssue::default()
        };
        group
            .apply(Timestamp(1), |changes| changes.create("a", &new))
            .unwrap();
    }
    group.commit().unwrap();
    assert_eq!(disk.syncs() - before, 1);
}
