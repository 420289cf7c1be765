//! Damage to what was synced: an error that names the file, and never a message less in silence.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use broker_daemon::log::{Error, State};

use crate::model::{Model, Modelled, recover, segments};

/// The mark of a clean end, behind the last batch.
const MARK: usize = 24;

/// A closed log of several segments, with some of everything.
fn written(dir: &Path) -> Model {
    let mut log = Modelled::new(dir);
    log.put("queue/a", b"durable");
    for turn in 0..9u32 {
        let id = log.publish(&[1, 2], 5000);
        log.publish(&[3], 40 * turn as usize);
        log.settle(1, id);
        log.sync();
    }
    log.close().0
}

#[test]
fn any_changed_byte_is_an_error_that_names_its_file() {
    let dir = tempfile::tempdir().expect("a folder");
    written(dir.path());
    let paths = segments(dir.path());
    assert!(paths.len() > 2, "{paths:?}");
    for path in &paths {
        let whole = fs::read(path).expect("a segment is read");
        let end = whole.len() - if Some(path) == paths.last() { MARK } else { 0 };
        // Every byte of headers and of small records, every 97th of bodies; another bit of each.
        let places = (0..end).filter(|at| *at < 150 || at % 97 == 0 || at + 150 > end);
        for at in places {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            fs::write(path, &bytes).expect("a segment is written");
            let error = recover(dir.path())
                .expect_err("a byte has changed")
                .to_string();
            let named = path.to_str().expect("text");
            assert!(error.contains(named), "byte {at} of {named}: {error}");
        }
        fs::write(path, &whole).expect("a segment is written");
    }
}

#[test]
fn a_damaged_mark_of_the_end_costs_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = written(dir.path());
    let last = segments(dir.path()).pop().expect("there are segments");
    let mut bytes = fs::read(&last).expect("a segment is read");
    let at = bytes.len() - 3;
    bytes[at] ^= 1;
    fs::write(&last, &bytes).expect("a segment is written");
    assert_eq!(
        recover(dir.path()).expect("nothing is lost"),
        (model, MARK as u64)
    );
}

#[test]
fn records_of_a_batch_that_changed_places_are_damage() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Modelled::new(dir.path());
    log.put("a", b"one");
    log.put("b", b"two");
    log.close();
    let path = &segments(dir.path())[0];
    let mut bytes = fs::read(path).expect("a segment is read");
    let len = (bytes.len() - 44 - 3 * MARK) / 2;
    let records = &mut bytes[44 + 2 * MARK..][..2 * len];
    // Each is sound by itself, with the checksum that it was written with.
    records.rotate_left(len);
    fs::write(path, &bytes).expect("a segment is written");
    let error = recover(dir.path()).expect_err("the order has changed");
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}

#[test]
fn a_segment_that_became_shorter_is_an_error() {
    let dir = tempfile::tempdir().expect("a folder");
    written(dir.path());
    let path = &segments(dir.path())[1];
    let whole = fs::read(path).expect("a segment is read");
    for len in [0, 10, 44, 60, whole.len() / 2, whole.len() - 1] {
        fs::write(path, &whole[..len]).expect("a segment is written");
        let error = recover(dir.path()).expect_err("bytes are gone");
        assert!(matches!(error, Error::Corrupt { .. }), "{len}: {error}");
        assert!(error.to_string().contains(path.to_str().expect("text")));
    }
}

#[test]
fn a_segment_that_is_gone_from_the_middle_is_an_error() {
    let dir = tempfile::tempdir().expect("a folder");
    written(dir.path());
    let path = &segments(dir.path())[1];
    fs::remove_file(path).expect("a segment is removed");
    let error = recover(dir.path()).expect_err("a file is gone");
    assert!(matches!(error, Error::Missing { .. }), "{error}");
    assert!(error.to_string().contains(path.to_str().expect("text")));
}

#[test]
fn a_damaged_head_is_an_error_though_nothing_was_written_behind_it() {
    let dir = tempfile::tempdir().expect("a folder");
    written(dir.path());
    let path = segments(dir.path()).pop().expect("there are segments");
    let mut bytes = fs::read(&path).expect("a segment is read");
    // As a crash leaves it that came before the first batch: the header and the meta.
    let meta = bytes
        .windows(7)
        .position(|window| window == b"durable")
        .expect("the meta is in each segment");
    bytes.truncate(meta + 7);
    fs::write(&path, &bytes).expect("a segment is written");
    recover(dir.path()).expect("nothing is damaged");
    bytes[meta] ^= 1;
    fs::write(&path, &bytes).expect("a segment is written");
    let error = recover(dir.path()).expect_err("the meta is damaged");
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
}

#[test]
fn compaction_does_not_give_damage_a_new_checksum() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut log = Modelled::new(dir.path());
    log.publish(&[1], 50);
    log.sync();
    let path = &segments(dir.path())[0];
    let mut bytes = fs::read(path).expect("a segment is read");
    let last = bytes.len() - 2 * MARK;
    bytes[last] ^= 1;
    let file = fs::File::options()
        .write(true)
        .open(path)
        .expect("it opens");
    file.write_all_at(&bytes[last..=last], last as u64)
        .expect("a byte is written");
    let mut turns = 0;
    let error = loop {
        let id = log.publish(&[9], 500);
        log.settle(9, id);
        log.log.flush();
        match log.log.state() {
            State::Failed(error) => break error.to_string(),
            _ if log.log.congested() => std::thread::yield_now(),
            _ => turns += 1,
        }
        assert!(turns < 100_000, "it was moved");
    };
    assert!(error.contains("damaged"), "{error}");
    assert!(error.contains(path.to_str().expect("text")), "{error}");
}

#[test]
fn another_format_and_another_file_are_told_from_damage() {
    let dir = tempfile::tempdir().expect("a folder");
    written(dir.path());
    let path = &segments(dir.path())[0];
    let whole = fs::read(path).expect("a segment is read");
    let mut newer = whole.clone();
    newer[8] = 9;
    fs::write(path, &newer).expect("a segment is written");
    let error = recover(dir.path()).expect_err("it is newer");
    assert!(matches!(error, Error::Version { found: 9, .. }), "{error}");
    fs::write(
        path,
        b"this is no log, but a text of some length that somebody put here",
    )
    .expect("a file is written");
    let error = recover(dir.path()).expect_err("it is a text");
    assert!(matches!(error, Error::NotALog { .. }), "{error}");
    fs::write(path, &whole).expect("a segment is written");
    fs::rename(path, segments(dir.path())[2].clone()).expect("a segment is renamed");
    recover(dir.path()).expect_err("it has the number of another");
}

#[test]
fn a_body_that_looks_like_a_log_is_a_body() {
    let dir = tempfile::tempdir().expect("a folder");
    written(dir.path());
    let evil = fs::read(&segments(dir.path())[0]).expect("a segment is read");
    let dir = tempfile::tempdir().expect("a folder");
    let (mut log, _) = broker_daemon::log::Log::open(dir.path(), crate::model::SMALL, || ())
        .expect("an empty folder opens");
    let message = |body| broker_daemon::log::Message {
        published_ms: 0,
        exchange: b"",
        routing_key: b"",
        properties: b"",
        body,
    };
    log.publish(&[1], &message(b"first"));
    log.flush();
    log.publish(&[1], &message(&evil));
    log.close().expect("all is written");
    // Cut off in the midst of it: the batches in the body say that everything before them was synced.
    let path = &segments(dir.path())[0];
    let bytes = fs::read(path).expect("a segment is read");
    fs::write(path, &bytes[..bytes.len() - 1000]).expect("a segment is written");
    let (_log, recovered) = broker_daemon::log::Log::open(dir.path(), crate::model::SMALL, || ())
        .expect("a torn tail is cut off");
    assert_eq!(recovered.messages.len(), 1);
    assert_eq!(recovered.messages[0].body(), b"first".as_slice());
}
