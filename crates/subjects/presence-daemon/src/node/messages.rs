//! Messages between nodes: events, one after the other.

use crate::presence::cluster::Record;
use crate::presence::event::{Kind, Reason};

/// Parses a message. Ends at the first event that it does not understand.
///
/// An event is `ROOM_LENGTH PREVIOUS SEQ TIME KIND CONN_LENGTH MEMBER_LENGTH`, a line feed, and room, connection id and
/// member without anything between.
pub(crate) fn records(message: &str) -> impl Iterator<Item = Record<'_>> {
    let mut rest = message;
    std::iter::from_fn(move || {
        let (record, after) = parse(rest)?;
        rest = after;
        Some(record)
    })
}

fn parse(text: &str) -> Option<(Record<'_>, &str)> {
    let (head, body) = text.split_once('\n')?;
    let mut fields = head.split(' ');
    let room_length = fields.next()?.parse().ok()?;
    let previous = fields.next()?.parse().ok()?;
    let seq = fields.next()?.parse().ok()?;
    let time_us = fields.next()?.parse().ok()?;
    let kind = parse_kind(fields.next()?)?;
    let conn_length = fields.next()?.parse().ok()?;
    let stored_length = fields.next()?.parse().ok()?;
    let (room, body) = body.split_at_checked(room_length)?;
    let (conn, body) = body.split_at_checked(conn_length)?;
    let (stored, after) = body.split_at_checked(stored_length)?;
    let record = Record {
        room,
        previous,
        seq,
        kind,
        time_us,
        conn,
        stored,
    };
    Some((record, after))
}

/// Parses the two letters of a kind: `None` for numbers that were reserved or a snapshot alone.
pub(crate) fn parse_kind(text: &str) -> Option<Option<Kind>> {
    Some(match text {
        "j-" => Some(Kind::Join),
        "u-" => Some(Kind::Update),
        "x-" | "--" => None,
        _ => {
            let letters = ["ll", "ld", "le", "ln"];
            let index = letters.iter().position(|letter| *letter == text)?;
            Some(Kind::Leave(Reason::ALL[index]))
        }
    })
}

/// Returns the letters of a leave.
pub(crate) fn leave_kind(reason: Reason) -> &'static str {
    match reason {
        Reason::Leave => "ll",
        Reason::Disconnect => "ld",
        Reason::Expired => "le",
        Reason::NodeDown => "ln",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_several_events() {
        let message = "3 4 5 1700 u- 3 9\nräabc7 3 \"u\"{}1 5 9 1800 x- 0 0\nrbroken";
        let mut found = records(message);
        let update = Record {
            room: "rä",
            previous: 4,
            seq: 5,
            kind: Some(Kind::Update),
            time_us: 1700,
            conn: "abc",
            stored: "7 3 \"u\"{}",
        };
        assert_eq!(found.next(), Some(update));
        let reserved = Record {
            room: "r",
            previous: 5,
            seq: 9,
            kind: None,
            time_us: 1800,
            conn: "",
            stored: "",
        };
        assert_eq!(found.next(), Some(reserved));
        assert_eq!(found.next(), None);
    }

    #[test]
    fn the_letters_of_a_leave_are_parsed_as_its_reason() {
        for reason in Reason::ALL {
            assert_eq!(
                parse_kind(leave_kind(reason)),
                Some(Some(Kind::Leave(reason)))
            );
        }
        assert_eq!(parse_kind("--"), Some(None));
        assert_eq!(parse_kind("??"), None);
    }
}
