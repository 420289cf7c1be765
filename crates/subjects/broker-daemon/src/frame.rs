//! Frames in place: frame boundaries in a buffer, and a check of payloads before the method parser (AMQP 0-9-1, 4.2.3).

/// Bytes around a payload: type, channel and size before it, the frame-end octet after it.
pub(crate) const OVERHEAD: usize = 8;
const HEAD: usize = 7;
const END: u8 = 0xCE;

/// Maximum nesting of tables. The parser recurses, and a frame has room for 20,000 levels.
const DEEPEST: usize = 64;

pub(crate) const METHOD: u8 = 1;
pub(crate) const HEADER: u8 = 2;
pub(crate) const BODY: u8 = 3;
pub(crate) const HEARTBEAT: u8 = 8;

/// A whole frame, borrowed from a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: u8,
    pub(crate) channel: u16,
    pub(crate) payload: &'a [u8],
}

/// Errors that make the rest of the stream unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameError {
    /// The announced payload size is too large.
    TooLarge(usize),
    /// The frame-end octet is missing.
    NoEnd,
}

/// Returns the first frame of `input` and its length, or `None` if it is incomplete. A payload may have `longest`
/// bytes.
pub(crate) fn split(
    input: &[u8],
    longest: usize,
) -> Result<Option<(Frame<'_>, usize)>, FrameError> {
    let Some((head, rest)) = input.split_at_checked(HEAD) else {
        return Ok(None);
    };
    let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
    if size > longest {
        return Err(FrameError::TooLarge(size));
    }
    let Some(end) = rest.get(size) else {
        return Ok(None);
    };
    if *end != END {
        return Err(FrameError::NoEnd);
    }
    let frame = Frame {
        kind: head[0],
        channel: u16::from_be_bytes([head[1], head[2]]),
        payload: &rest[..size],
    };
    Ok(Some((frame, size + OVERHEAD)))
}

/// Bytes of a frame with basic.ack.
const ACK: usize = 21;

/// Frames that acknowledge one delivery each, on one channel and with consecutive tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AckRun {
    pub(crate) channel: u16,
    pub(crate) first: u64,
    pub(crate) count: usize,
}

impl AckRun {
    /// Returns the frames at the head of `input` that are such a run.
    pub(crate) fn split(input: &[u8]) -> Option<(Self, usize)> {
        let (frames, _) = input.as_chunks::<ACK>();
        let (frame, rest) = frames.split_first()?;
        let [METHOD, c0, c1, 0, 0, 0, 13, 0, 60, 0, 80, tag @ .., 0, END] = frame else {
            return None;
        };
        let first = u64::from_be_bytes(*tag);
        let mut expected = *frame;
        let follows = |(frame, distance): &(&[u8; ACK], u64)| {
            let tag = first.wrapping_add(*distance);
            expected[11..19].copy_from_slice(&tag.to_be_bytes());
            **frame == expected
        };
        let followers = rest.iter().zip(1..).take_while(follows);
        let run = Self {
            channel: u16::from_be_bytes([*c0, *c1]),
            first,
            count: 1 + followers.count(),
        };
        Some((run, run.count * ACK))
    }
}

/// Appends the head of a frame with `size` bytes of payload.
pub(crate) fn begin(to: &mut Vec<u8>, kind: u8, channel: u16, size: usize) {
    let [c0, c1] = channel.to_be_bytes();
    let size = u32::try_from(size).expect("a payload is shorter than frame_max");
    let [s0, s1, s2, s3] = size.to_be_bytes();
    to.extend_from_slice(&[kind, c0, c1, s0, s1, s2, s3]);
}

/// Appends the frame-end octet.
pub(crate) fn end(to: &mut Vec<u8>) {
    to.push(END);
}

/// Returns true if tables and arrays may be nested too deeply for a recursive parser.
///
/// The check counts every `F` and `A` that is followed by a length which fits, so it may overestimate the depth. Text
/// does not matter: four letters as a length are a gigabyte.
pub(crate) fn is_too_deep(payload: &[u8]) -> bool {
    let mut ends: Vec<usize> = Vec::new();
    for (at, window) in payload.windows(5).enumerate() {
        if !matches!(window[0], b'F' | b'A') {
            continue;
        }
        let length = u32::from_be_bytes([window[1], window[2], window[3], window[4]]) as usize;
        let inside = at + 5;
        if length > payload.len() - inside {
            continue;
        }
        while ends.last().is_some_and(|end| *end <= at) {
            ends.pop();
        }
        ends.push(inside + length);
        if ends.len() > DEEPEST {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_frame_is_whole_with_its_end_mark_and_not_before() {
        let mut bytes = Vec::new();
        begin(&mut bytes, METHOD, 258, 3);
        bytes.extend_from_slice(b"abc");
        assert_eq!(split(&bytes, 100), Ok(None));
        end(&mut bytes);
        let (frame, length) = split(&bytes, 100).unwrap().unwrap();
        assert_eq!((frame.kind, frame.channel, length), (METHOD, 258, 11));
        assert_eq!(frame.payload, b"abc");
        assert_eq!(split(&bytes, 2), Err(FrameError::TooLarge(3)));
        bytes[10] = 0;
        assert_eq!(split(&bytes, 100), Err(FrameError::NoEnd));
    }

    #[test]
    fn a_run_of_acknowledgements_ends_where_anything_else_begins() {
        let ack = |channel: u8, tag: u64, multiple: u8| {
            let mut bytes = vec![METHOD, 0, channel, 0, 0, 0, 13, 0, 60, 0, 80];
            bytes.extend(tag.to_be_bytes());
            bytes.extend([multiple, END]);
            bytes
        };
        let run = |frames: &[Vec<u8>]| AckRun::split(&frames.concat());
        let (first, second) = (ack(1, 7, 0), ack(1, 8, 0));
        let expected = |count| {
            let run = AckRun {
                channel: 1,
                first: 7,
                count,
            };
            Some((run, count * ACK))
        };
        assert_eq!(run(&[first.clone(), second.clone()]), expected(2));
        for other in [
            ack(1, 7, 0),
            ack(1, 9, 0),
            ack(2, 8, 0),
            ack(1, 8, 1),
            second[..20].to_vec(),
        ] {
            assert_eq!(run(&[first.clone(), other, second.clone()]), expected(1));
        }
        assert_eq!(run(&[ack(1, 7, 1)]), None);
        assert_eq!(run(&[first[..20].to_vec()]), None);
        let last = ack(1, u64::MAX, 0);
        assert_eq!(run(&[last, first]).map(|(run, _)| run.count), Some(1));
    }

    #[test]
    fn a_table_in_a_table_in_a_table_is_too_deep_at_some_point() {
        let nested = |levels: usize| {
            let mut table = Vec::new();
            for _ in 0..levels {
                let mut outer = vec![1, b'k', b'F'];
                outer.extend(u32::try_from(table.len()).unwrap().to_be_bytes());
                outer.extend(table);
                table = outer;
            }
            table
        };
        assert!(!is_too_deep(&nested(10)));
        assert!(is_too_deep(&nested(100)));
        assert!(!is_too_deep(&[b'A'; 1000]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_none_or_an_error(bytes: Vec<u8>, longest in 0usize..1000) {
            if let Ok(Some((frame, length))) = split(&bytes, longest) {
                prop_assert!(frame.payload.len() <= longest);
                prop_assert!(length <= bytes.len());
            }
            let _ = is_too_deep(&bytes);
        }
    }
}
