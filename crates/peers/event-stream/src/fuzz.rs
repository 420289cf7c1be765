//! Fuzz target: streams of server-sent events.

use crate::{Reader, Record, TooLong};

/// A target: its name, and the function that takes an input.
type Target = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[Target] = &[("records", records)];

/// The data and the name of an event.
type Event = (Vec<u8>, Option<Vec<u8>>, bool);

/// Returns the events of a stream, and whether it ends within one.
pub(crate) fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Event>, bool) {
    let (mut reader, mut events) = (Reader::default(), Vec::new());
    let mut take = |record: &Record<'_>| {
        let data = record.data.as_deref().unwrap_or_default().to_vec();
        events.push((data, record.event.map(<[u8]>::to_vec), record.has_unknown));
        Ok::<_, TooLong>(())
    };
    for piece in pieces {
        reader.take(piece, &mut take).expect("the input is short");
    }
    (events, reader.is_cut())
}

/// A stream has one meaning, however it is divided into reads.
pub fn records(input: &[u8]) {
    let Some((&size, stream)) = input.split_first() else {
        return;
    };
    let pieces = read(stream.chunks(usize::from(size) + 1));
    assert_eq!(read([stream].into_iter()), pieces);
}
