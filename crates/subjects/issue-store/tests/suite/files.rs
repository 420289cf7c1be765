//! The files of a database, and the processes that share them.

use issue_store::{NewIssue, Options, Store, Timestamp};

use crate::support::{Fixture, titled};

#[test]
fn processes_queue_for_the_write_lock_and_lose_nothing() {
    let fixture = Fixture::new();
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            // Each has a lock file and a connection of its own, as a process has.
            let store = fixture.store.clone();
            std::thread::spawn(move || {
                let mut writer = store.writer().unwrap();
                let titles = (0..50).map(|number| format!("{thread}-{number}"));
                let create = |title: String| {
                    let created = writer.apply(Timestamp::now(), |changes| {
                        changes.create("a", &titled(&title))
                    });
                    created.unwrap().id
                };
                titles.map(create).collect::<Vec<_>>()
            })
        })
        .collect();
    let mut ids: Vec<String> = threads
        .into_iter()
        .flat_map(|thread| thread.join().unwrap())
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 200);
    assert_eq!(fixture.reader.stats().unwrap().total, 200);
    fixture.check();
}

#[test]
fn another_program_s_database_and_a_later_version_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.db");
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("CREATE TABLE t (a)").unwrap();
    let error = Store::open(&path, Options::default()).unwrap_err();
    assert!(error.to_string().contains("another program"), "{error}");
    let path = folder.path().join("later.db");
    let store = Store::open(&path, Options::default()).unwrap();
    let writer = store.writer().unwrap();
    writer
        .connection()
        .pragma_update(None, "user_version", 99)
        .unwrap();
    let error = Store::open(&path, Options::default()).unwrap_err();
    assert!(error.to_string().contains("newer program"), "{error}");
    let path = folder.path().join("text.db");
    std::fs::write(&path, "no database ".repeat(1_000)).unwrap();
    let error = Store::open(&path, Options::default()).unwrap_err();
    assert!(error.to_string().contains("not a database"), "{error}");
}

#[test]
fn a_checkpoint_empties_the_log_unless_somebody_reads() {
    let mut fixture = Fixture::new();
    for number in 0..100 {
        fixture.create(&format!("{number}"));
    }
    assert_eq!(fixture.writer.checkpoint().unwrap(), 0);
    let log = fixture.store.path().with_extension("db-wal");
    let before = std::fs::metadata(&log).unwrap().len();
    fixture.create("one more");
    // The log begins at its start again.
    assert_eq!(std::fs::metadata(&log).unwrap().len(), before);
}

#[test]
fn a_database_remembers_the_prefix_of_its_ids() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("issues.db");
    let create = |prefix: Option<&str>| {
        let options = Options {
            prefix: prefix.map(str::to_owned),
            ..Options::default()
        };
        let mut writer = Store::open(&path, options).unwrap().writer().unwrap();
        let created = writer.apply(Timestamp::now(), |changes| {
            changes.create("a", &titled("title"))
        });
        created.unwrap().id.split_once('-').unwrap().0.to_owned()
    };
    assert_eq!(create(Some("web")), "web");
    assert_eq!(create(None), "web");
    assert_eq!(create(Some("other")), "other", "for this program");
    assert_eq!(create(None), "web");
}

#[test]
fn a_database_with_another_name_is_refused() {
    let fixture = Fixture::new();
    let path = fixture.store.path();
    let other = path.with_file_name("other.db");
    std::fs::hard_link(path, &other).unwrap();
    for path in [path, &other] {
        let error = Store::open(path, Options::default()).unwrap_err();
        assert!(error.to_string().contains("hard links"), "{error}");
    }
    std::fs::remove_file(&other).unwrap();
    Store::open(path, Options::default()).unwrap();
}

#[test]
fn the_log_is_cut_after_a_long_reader_and_statements_leave_no_files() {
    let mut fixture = Fixture::new();
    let connection = fixture.writer.connection();
    let temporary: i64 = connection
        .pragma_query_value(None, "temp_store", |row| row.get(0))
        .unwrap();
    assert_eq!(temporary, 2, "in memory");
    let log = fixture.store.path().with_extension("db-wal");
    let bytes = || std::fs::metadata(&log).unwrap().len();
    // A reader of another program keeps the log from starting again.
    let long = rusqlite::Connection::open(fixture.store.path()).unwrap();
    long.execute_batch("BEGIN; SELECT count(*) FROM issues")
        .unwrap();
    let large = NewIssue {
        description: "x".repeat(4 << 20),
        ..titled("large")
    };
    while bytes() < 20 << 20 {
        fixture
            .apply(|changes| changes.create("a", &large))
            .unwrap();
    }
    long.execute_batch("COMMIT").unwrap();
    assert_eq!(fixture.writer.checkpoint().unwrap(), 0);
    fixture.create("one more");
    assert!(bytes() <= 16 << 20, "{}", bytes());
}

#[test]
fn sqlite_is_built_with_the_flags_of_this_workspace() {
    let fixture = Fixture::new();
    let flag = "SELECT sqlite_compileoption_used('DEFAULT_MEMSTATUS=0')";
    let connection = fixture.writer.connection();
    let is_built: bool = connection.query_row(flag, [], |row| row.get(0)).unwrap();
    // Cargo keeps a library that it has built before the flags, which syncs with `fsync`.
    assert!(
        is_built,
        "build SQLite again: cargo clean -p libsqlite3-sys"
    );
}
