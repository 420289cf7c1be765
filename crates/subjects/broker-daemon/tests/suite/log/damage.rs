//! Damage to synced data: an error that names the file, and never a silent loss of a message.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use broker_daemon::log::{Error, Log, Salvage, State, salvage};

use crate::log::model::{Model, Modelled, SMALL, body, recover, segments};

/// The mark of a clean end, after the last batch.
const MARK: usize = 24;

/// Returns the model of a closed log of several segments, with records of every kind.
fn written(dir: &Path) -> Model {
    written_in(dir, 9)
}

/// Returns the model of a log of this many turns.
fn written_in(dir: &Path, turns: u32) -> Model {
    let mut log = Modelled::new(dir);
    log.put("queue/a", b"durable");
    for turn in 0..turns {
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
    // Each record is intact, with its original checksum.
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
    // As after a crash before the first batch: the header and the definitions.
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
    let (mut log, _) = broker_daemon::log::Log::open(dir.path(), crate::log::model::SMALL, || ())
        .expect("an empty folder opens");
    let message = |body| broker_daemon::log::NewMessage {
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
    // Truncated in the middle: the batches in the body say that everything before them was synced.
    let path = &segments(dir.path())[0];
    let bytes = fs::read(path).expect("a segment is read");
    fs::write(path, &bytes[..bytes.len() - 1000]).expect("a segment is written");
    let (_log, recovered) =
        broker_daemon::log::Log::open(dir.path(), crate::log::model::SMALL, || ())
            .expect("a torn tail is cut off");
    assert_eq!(recovered.messages.len(), 1);
    assert_eq!(recovered.messages[0].body(), b"first".as_slice());
}

/// Salvages a damaged folder. Returns the report, and the numbers of the messages with the queues that hold them; they
/// have new ids, and the rest of them is checked.
fn salvaged(dir: &Path) -> (Salvage, Model) {
    let salvage = salvage(dir, SMALL).expect("what is readable is kept");
    let (log, recovered) = Log::open(dir, SMALL, || ()).expect("nothing is damaged any more");
    log.close().expect("it is written");
    let mut model = Model {
        meta: recovered.meta.into_iter().collect(),
        ..Model::default()
    };
    for stored in recovered.messages {
        let number = stored.published_ms / 7;
        assert_eq!(stored.exchange(), format!("x{number}").as_bytes());
        assert_eq!(stored.properties(), number.to_be_bytes().as_slice());
        assert_eq!(stored.body(), body(number, stored.body().len()));
        let queues = stored.queues().iter().copied().collect();
        model.messages.insert(number, (stored.body().len(), queues));
    }
    (salvage.expect("it was damaged"), model)
}

#[test]
fn salvaging_keeps_every_message_but_the_damaged_one_and_says_which_segment_it_was_in() {
    let dir = tempfile::tempdir().expect("a folder");
    let written = written(dir.path());
    let before = segments(dir.path());
    // In the body of one message.
    let number = *written.messages.keys().nth(5).expect("there are some");
    let mark = format!("x{number}key");
    let at = (0..before.len()).find_map(|segment| {
        let bytes = fs::read(&before[segment]).expect("a segment is read");
        let found = bytes
            .windows(mark.len())
            .position(|part| part == mark.as_bytes());
        found.map(|at| (segment, at))
    });
    let (segment, at) = at.expect("the message is in a segment");
    let mut bytes = fs::read(&before[segment]).expect("a segment is read");
    bytes[at + mark.len() + 9] ^= 4;
    fs::write(&before[segment], &bytes).expect("a segment is written");
    recover(dir.path()).expect_err("without being asked for, damage stops the start");

    let (found, model) = salvaged(dir.path());
    let mut expected = written;
    expected.messages.remove(&number);
    assert_eq!(model, expected);
    assert_eq!(found.segments.len(), before.len());
    for (at, found) in found.segments.iter().enumerate() {
        assert_eq!(found.file, before[at]);
        assert_eq!(found.damage.is_some(), at == segment, "{found}");
    }
    assert_eq!(found.messages, expected.messages.len());
    // The damaged segments are in the reported folder.
    let name = before[segment].file_name().expect("it has a name");
    assert_eq!(
        fs::read(found.aside.join(name)).expect("it is aside"),
        bytes
    );
    assert!(
        salvage(dir.path(), SMALL).expect("it opens").is_none(),
        "nothing is damaged now"
    );
}

#[test]
fn salvaging_reads_on_behind_lost_headers_holes_and_segments_that_are_gone() {
    let dir = tempfile::tempdir().expect("a folder");
    let written = written_in(dir.path(), 25);
    let paths = segments(dir.path());
    assert!(paths.len() > 3, "{paths:?}");
    // One segment loses its header, another a whole batch, and a third is missing.
    let damage = |path: &Path, at: usize, len: usize| {
        let file = fs::File::options()
            .write(true)
            .open(path)
            .expect("it opens");
        file.write_all_at(&vec![0xff; len], at as u64)
            .expect("it is written");
    };
    damage(&paths[0], 3, 20);
    damage(&paths[1], 44, 200);
    fs::remove_file(&paths[2]).expect("a segment is removed");
    let (found, model) = salvaged(dir.path());
    assert_eq!(model.meta, written.meta);
    for (number, (len, queues)) in &model.messages {
        // Messages settled in the lost part may reappear; nothing else changes.
        let (was, held) = written.messages.get(number).expect("it was there");
        assert!(len == was && queues.is_superset(held), "{number}");
    }
    assert!(
        !model.messages.is_empty() && model.messages.len() < written.messages.len(),
        "{:?}",
        found.segments
    );
    let damaged: Vec<bool> = found
        .segments
        .iter()
        .map(|found| found.damage.is_some())
        .collect();
    assert_eq!(damaged[..4], [true, true, true, false]);
    assert!(found.segments[2].to_string().contains("missing"));
    assert!(found.segments[0].messages > 0, "{}", found.segments[0]);
}

#[test]
fn a_salvage_that_a_crash_interrupted_is_finished_by_the_next_start() {
    let dir = tempfile::tempdir().expect("a folder");
    let whole = dir.path().join("salvage-whole");
    let mut log = Modelled::new(&whole);
    log.publish(&[1], 100);
    let (model, _) = log.close();
    // The damaged segments are still in their places.
    for number in 1..4 {
        fs::write(dir.path().join(format!("{number:016x}.log")), b"damaged")
            .expect("it is written");
    }
    let (found, _) = recover(dir.path()).expect("what was kept takes their place");
    assert_eq!(found, model);
    assert!(!whole.exists());
    let aside = fs::read_dir(dir.path())
        .expect("it is listed")
        .filter_map(Result::ok);
    let aside = aside.filter(|entry| entry.file_name().to_string_lossy().starts_with("damaged-"));
    let files: Vec<usize> = aside
        .map(|entry| fs::read_dir(entry.path()).expect("it is listed").count())
        .collect();
    assert_eq!(files, [3]);
}

#[test]
fn an_empty_newest_segment_is_removed_unless_those_before_it_are_gone() {
    let dir = tempfile::tempdir().expect("a folder");
    let model = written(dir.path());
    let paths = segments(dir.path());
    let last = paths.last().expect("there are segments");
    let name = last
        .file_stem()
        .and_then(|name| name.to_str())
        .expect("text");
    let next = u64::from_str_radix(name, 16).expect("a number") + 1;
    let empty = dir.path().join(format!("{next:016x}.log"));
    fs::write(&empty, b"").expect("it is written");
    let (log, recovered) = Log::open(dir.path(), SMALL, || ()).expect("it opens");
    drop(log);
    assert_eq!(recovered.empty.as_ref(), Some(&empty));
    assert_eq!(Model::from_recovered(&recovered), model);

    let alone = tempfile::tempdir().expect("a folder");
    fs::write(alone.path().join(format!("{:016x}.log", 7)), b"").expect("it is written");
    let error = recover(alone.path()).expect_err("what it held is lost");
    assert!(error.to_string().contains("--salvage"), "{error}");
}
