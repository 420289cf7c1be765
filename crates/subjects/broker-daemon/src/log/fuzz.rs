//! A fuzz target: the segments of a log.

use std::path::PathBuf;
use std::{env, fs, process};

use super::format::{BATCH_HEADER, SegmentHeader, append_content, seal};
use super::{Error, Log, LogOptions, salvage};

/// The header of the segment that is read.
const HEADER: SegmentHeader = SegmentHeader {
    salt: 7,
    number: 1,
    first_id: 1,
    previous_len: 0,
};

/// Small segments, so that little space is reserved for each input.
const OPTIONS: LogOptions = LogOptions {
    segment_bytes: 64 << 10,
    in_flight_bytes: 16 << 10,
};

/// A folder that is removed with all that is in it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing of it is left, or a later input begins with it.
        fs::remove_dir_all(&self.0).expect("the folder can be removed");
    }
}

/// Returns a segment with batches of these records, whose checksums are right: none would be found by chance. A record
/// is a byte for its length and its content; an empty one ends the batch.
fn sealed(mut records: &[u8]) -> Vec<u8> {
    let mut segment = HEADER.encode();
    let mut batch = vec![0; BATCH_HEADER];
    while let [length, rest @ ..] = records {
        let (content, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        records = rest;
        append_content(&mut batch, content);
        if content.is_empty() || records.is_empty() {
            seal(&mut batch, HEADER.salt, segment.len() as u64);
            segment.append(&mut batch);
            batch.resize(BATCH_HEADER, 0);
        }
    }
    segment
}

/// A segment is read, or found to be damaged; what is salvaged of it can be read.
pub(crate) fn segment(input: &[u8]) {
    let Some((&first, rest)) = input.split_first() else {
        return;
    };
    let segment = match first {
        0 => rest.to_vec(),
        1 => [HEADER.encode(), rest.to_vec()].concat(),
        _ => sealed(rest),
    };
    let folder = Folder(env::temp_dir().join(format!("fuzz-segment-{}", process::id())));
    fs::create_dir_all(&folder.0).expect("a folder can be made");
    let name = folder.0.join(format!("{:016x}.log", HEADER.number));
    fs::write(name, segment).expect("a segment can be written");
    let open = || Log::open(&folder.0, OPTIONS, || ());
    match open() {
        Ok((log, _)) => log.close().expect("the log can be closed"),
        Err(Error::Corrupt { .. } | Error::NotALog { .. }) => {
            salvage(&folder.0, OPTIONS).expect("the log can be salvaged");
        }
        Err(Error::Version { .. }) => return,
        Err(error) => panic!("{error}"),
    }
    let (log, _) = open().expect("the log can be opened again");
    log.close().expect("the log can be closed again");
}
