//! Parser of server-sent events that arrive in pieces of any size.
//!
//! The rules are in the HTML standard, section 9.2.6 "Interpreting an event stream": lines end with LF, CR LF or
//! CR, a colon begins a comment, `data` may come in several lines, an empty line ends an event. Other fields are
//! ignored.

use memchr::memchr2;

use super::failure::BackendFailure;

/// Maximum length of a line, and of the data of an event.
const LIMIT: usize = 1 << 20;
/// Buffer capacity above this is released once it is not needed, since a stream may be held for a long time.
const KEPT: usize = 16 << 10;

/// The parser's state: incomplete lines and events.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// A line whose end has not arrived.
    line: Vec<u8>,
    /// The data of an event whose end has not arrived.
    data: Vec<u8>,
    has_data: bool,
    /// True if the last byte was a CR: a following LF belongs to the same line end.
    after_cr: bool,
    is_begun: bool,
}

impl Parser {
    /// Parses a piece and calls `event` with the data of each event that it completes. Stops at the first error of
    /// either.
    pub(super) fn feed(
        &mut self,
        mut piece: &[u8],
        mut event: impl FnMut(&[u8]) -> Result<(), BackendFailure>,
    ) -> Result<(), BackendFailure> {
        while let Some(&first) = piece.first() {
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                piece = &piece[1..];
                continue;
            }
            let Some(end) = memchr2(b'\n', b'\r', piece) else {
                return append(&mut self.line, piece);
            };
            self.after_cr = piece[end] == b'\r';
            self.end_line(&piece[..end], &mut event)?;
            piece = &piece[end + 1..];
        }
        Ok(())
    }

    /// Processes the end of a line.
    fn end_line(
        &mut self,
        rest: &[u8],
        event: &mut impl FnMut(&[u8]) -> Result<(), BackendFailure>,
    ) -> Result<(), BackendFailure> {
        append(&mut self.line, rest)?;
        let mut line = std::mem::take(&mut self.line);
        let ended = self.take_line(&line, event);
        empty(&mut line);
        self.line = line;
        ended
    }

    fn take_line(
        &mut self,
        line: &[u8],
        event: &mut impl FnMut(&[u8]) -> Result<(), BackendFailure>,
    ) -> Result<(), BackendFailure> {
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        let line = match line.strip_prefix("\u{feff}".as_bytes()) {
            Some(line) if is_first => line,
            _ => line,
        };
        if line.is_empty() {
            return self.dispatch(event);
        }
        let Some(value) = data(line) else {
            return Ok(());
        };
        if self.has_data {
            self.data.push(b'\n');
        }
        self.has_data = true;
        append(&mut self.data, value)
    }

    fn dispatch(
        &mut self,
        event: &mut impl FnMut(&[u8]) -> Result<(), BackendFailure>,
    ) -> Result<(), BackendFailure> {
        if !std::mem::take(&mut self.has_data) {
            return Ok(());
        }
        let passed = event(&self.data);
        empty(&mut self.data);
        passed
    }
}

/// Returns the value of a line if its field is `data`.
fn data(line: &[u8]) -> Option<&[u8]> {
    match line.strip_prefix(b"data")? {
        [] => Some(&[]),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value),
        // This field has a longer name.
        _ => None,
    }
}

fn append(buffer: &mut Vec<u8>, bytes: &[u8]) -> Result<(), BackendFailure> {
    if buffer.len() + bytes.len() > LIMIT {
        return Err(BackendFailure::TooLong);
    }
    buffer.extend_from_slice(bytes);
    Ok(())
}

fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > KEPT {
        buffer.shrink_to(KEPT);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn events<'a>(
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Vec<String>, BackendFailure> {
        let (mut parser, mut found) = (Parser::default(), Vec::new());
        for piece in pieces {
            parser.feed(piece, |data| {
                found.push(String::from_utf8(data.to_vec()).unwrap());
                Ok(())
            })?;
        }
        Ok(found)
    }

    fn whole_events(text: &str) -> Vec<String> {
        events([text.as_bytes()]).unwrap()
    }

    #[test]
    fn lines_end_with_lf_cr_lf_or_cr() {
        assert_eq!(
            whole_events("data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\r\n\n"),
            ["a", "b", "c", "d"]
        );
    }

    #[test]
    fn comments_other_fields_and_events_without_data_are_passed_over() {
        let text =
            ": hello\n\nid: 1\nevent: x\nretry: 5\nnonsense\n\ndatas: x\n:data: x\ndata:a\n\n";
        assert_eq!(whole_events(text), ["a"]);
    }

    #[test]
    fn data_in_several_lines_is_joined_by_line_feeds() {
        assert_eq!(whole_events("data: a\ndata\ndata:  b\n\n"), ["a\n\n b"]);
    }

    #[test]
    fn of_empty_data_there_is_an_event() {
        assert_eq!(whole_events("data\n\ndata:\n\ndata: \n\n"), ["", "", ""]);
    }

    #[test]
    fn a_byte_order_mark_counts_at_the_beginning_alone() {
        assert_eq!(
            whole_events("\u{feff}data: a\n\n\u{feff}data: b\n\n"),
            ["a"]
        );
    }

    #[test]
    fn an_event_without_its_end_is_none() {
        assert!(whole_events("data: a\ndata: b\n").is_empty());
    }

    #[test]
    fn a_line_and_an_event_have_a_limit() {
        let long = "x".repeat(LIMIT - 6);
        assert_eq!(whole_events(&format!("data: {long}\n\n")), [long.as_str()]);
        let lines = format!("data: {long}\ndata: {long}\n\n");
        assert!(matches!(
            events([lines.as_bytes()]),
            Err(BackendFailure::TooLong)
        ));
        let endless = vec![b'x'; LIMIT / 2 + 1];
        assert!(matches!(
            events([&endless[..], &endless[..]]),
            Err(BackendFailure::TooLong)
        ));
    }

    #[test]
    fn the_room_of_a_long_event_is_given_back() {
        let mut parser = Parser::default();
        let text = format!("data: {}\n\n", "x".repeat(500_000));
        parser.feed(text.as_bytes(), |_| Ok(())).unwrap();
        assert!(parser.line.capacity() + parser.data.capacity() <= 2 * KEPT);
    }

    proptest! {
        #[test]
        fn where_the_pieces_are_cut_makes_no_difference(
            lines in prop::collection::vec("(data: ?|data|: |id: |)[é😀a:]{0,3}(\n|\r|\r\n)", 0..20),
            cuts in prop::collection::vec(1usize..8, 1..60),
        ) {
            let text = lines.concat();
            let mut rest = text.as_bytes();
            let mut pieces = Vec::new();
            for cut in cuts.into_iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = after;
            }
            prop_assert_eq!(events(pieces).unwrap(), events([text.as_bytes()]).unwrap());
        }
    }
}
