//! Fuzz targets: the frames of brokers, as the engine `wire` reads them, the ledgers of shards, and folders to merge.

use std::fs;

use amqp_client::frame::{encode, whole_frame};
use harness::divided::shard_folder;
use harness::store::{LEDGERS, RESULT, SECONDS, read_result, write_sums};
use measure::tally::Tally;

use crate::driver::Perftest;
use crate::engine::wire::{Event, Reader};
use crate::ledger::{LedgerLine, MergedLedger};
use crate::spec::SPEC;

/// A target: its name, and the function that takes an input.
type Target = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[Target] = &[("ledger", ledger), ("merge", merge), ("wire", wire)];

/// The files of a shard, in the order of an input.
const FILES: [&str; 3] = [RESULT, SECONDS, LEDGERS];

/// Returns the events in the pieces of a stream, and true if it is malformed.
fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<String>, bool) {
    let (mut reader, mut unread, mut events) = (Reader::new(4096), Vec::new(), Vec::new());
    for piece in pieces {
        unread.extend_from_slice(piece);
        let mut taken = 0;
        loop {
            let Ok((octets, event)) = reader.next(&unread[taken..]) else {
                return (events, true);
            };
            taken += octets;
            let Some((channel, event)) = event else {
                break;
            };
            if let Event::Method(frame) = event {
                // The library reads the rest, and may refuse it.
                if let Ok(frame) = whole_frame(frame) {
                    let (length, frame) = frame.expect("a method is whole");
                    assert!(length >= 12 && encode(&frame).len() >= 12);
                }
            }
            events.push(format!("{channel} {event:?}"));
        }
        unread.drain(..taken);
        assert!(unread.len() < 4096, "{} octets are kept", unread.len());
    }
    (events, false)
}

/// Frames have one meaning, however they are divided into reads.
pub fn wire(input: &[u8]) {
    let Some((&size, stream)) = input.split_first() else {
        return;
    };
    let whole = read([stream].into_iter());
    assert_eq!(read(stream.chunks(usize::from(size) + 1)), whole);
}

/// Ledgers have one sum, whatever their order.
pub fn ledger(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    let merged = |lines: &mut dyn Iterator<Item = &str>| {
        let mut merged = MergedLedger::default();
        for line in lines {
            match serde_json::from_str(line) {
                Ok(LedgerLine::Part(part)) => merged.add(part),
                Ok(LedgerLine::Queues(queues)) => merged.add_queues(queues),
                Err(_) => {}
            }
        }
        let total = Tally::new(&SPEC.series);
        format!("{:?}", merged.reconcile(false, true, false, &total))
    };
    let forwards = merged(&mut text.lines());
    assert_eq!(merged(&mut text.lines().rev()), forwards);
}

/// The result of a merge can be read. An input has the files of one shard after the other, separated by NUL.
pub fn merge(input: &[u8]) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let files: Vec<&[u8]> = input.split(|byte| *byte == 0).collect();
    for (index, shard) in files.chunks(FILES.len()).enumerate() {
        let part = folder.path().join(shard_folder(index as u64));
        fs::create_dir(&part).expect("a folder can be made");
        let files = FILES.iter().zip(shard);
        for (name, content) in files.filter(|(_, content)| !content.is_empty()) {
            fs::write(part.join(name), content).expect("a file can be written");
        }
        write_sums(&part, shard[0]).expect("a file can be written");
    }
    if let Ok(merged) = harness::merge::merge::<Perftest>(folder.path()) {
        let written = serde_json::to_vec(&merged).expect("a result can be written");
        let whole = folder.path().join(RESULT);
        fs::write(&whole, written).expect("a file can be written");
        read_result(&whole).expect("a merged result can be read");
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn inputs_that_were_found_do_no_harm() {
        harness_testing::fuzz::replay(env!("CARGO_MANIFEST_DIR"), super::TARGETS);
    }
}
