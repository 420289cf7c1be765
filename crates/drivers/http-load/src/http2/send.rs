//! The sending side: requests, and their bodies as far as the windows allow.

use traffic::Values;

use super::blocks::RequestBlocks;
use super::frame::{self, FrameHead, MAX_PAYLOAD, flag, kind};
use super::streams::Stream;
use super::{Connection, ENOUGH_UNSENT};
use crate::roles::redirect::RedirectTarget;

impl<T> Connection<T> {
    /// Opens a stream for the request of the operation with this number: the first one, or `hop`'s.
    pub(crate) fn open(
        &mut self,
        item: T,
        blocks: &RequestBlocks,
        number: u64,
        hop: Option<&RedirectTarget>,
    ) {
        let (id, start) = (self.next, self.out.len());
        self.next += 2;
        let body = blocks.body(number, hop);
        let values = Values::from_number(number);
        let body = body.filter(|body| !body.bytes(values).is_empty());
        let ends = if body.is_none() { flag::END_STREAM } else { 0 };
        self.out.extend_from_slice(&[0; frame::HEAD]);
        blocks.render(number, hop, &mut self.table, &mut self.out);
        let head = FrameHead {
            length: self.out.len() - start - frame::HEAD,
            kind: kind::HEADERS,
            flags: ends | flag::END_HEADERS,
            stream: id,
        };
        self.put_block_head(start, head);
        self.streams.push(
            id,
            Stream {
                item,
                window: self.initial_window,
                sent: body.map(|_| 0),
                status: None,
                length: None,
                received: 0,
                unreported: 0,
            },
        );
        if body.is_some() {
            self.uploads.push(id);
        }
    }

    /// Writes the head of a header block that begins at `start`, or several heads if it is long (§6.10).
    fn put_block_head(&mut self, start: usize, head: FrameHead) {
        let mut bytes = Vec::with_capacity(frame::HEAD);
        if head.length <= MAX_PAYLOAD {
            head.put(&mut bytes);
            return self.out[start..start + frame::HEAD].copy_from_slice(&bytes);
        }
        let block = self.out.split_off(start + frame::HEAD);
        self.out.truncate(start);
        let mut pieces = block.chunks(MAX_PAYLOAD).enumerate().peekable();
        while let Some((index, piece)) = pieces.next() {
            let begins = index == 0;
            let mut flags = head.flags & if begins { flag::END_STREAM } else { 0 };
            if pieces.peek().is_none() {
                flags |= flag::END_HEADERS;
            }
            let head = FrameHead {
                length: piece.len(),
                kind: if begins {
                    kind::HEADERS
                } else {
                    kind::CONTINUATION
                },
                flags,
                ..head
            };
            head.put(&mut self.out);
            self.out.extend_from_slice(piece);
        }
    }

    /// Returns an open stream whose request body can go on now, with its item.
    pub(crate) fn next_upload(&mut self) -> Option<(u32, &T)> {
        if self.uploads.is_empty() || self.window <= 0 || self.output().len() >= ENOUGH_UNSENT {
            return None;
        }
        let streams = &mut self.streams;
        let mut uploads = self.uploads.iter();
        let id = uploads.find(|id| {
            streams
                .get_mut(**id)
                .is_some_and(|stream| stream.window > 0)
        });
        let id = *id?;
        self.streams.get_mut(id).map(|stream| (id, &stream.item))
    }

    /// Sends as much of a request body as the windows allow and is worth to be held.
    pub(crate) fn upload(&mut self, id: u32, body: &[u8]) {
        while self.output().len() < ENOUGH_UNSENT {
            let Some(stream) = self.streams.get_mut(id) else {
                return;
            };
            let window = self.window.min(stream.window).clamp(0, MAX_PAYLOAD as i64) as usize;
            let Some(sent) = stream.sent.filter(|_| window > 0) else {
                return;
            };
            let left = body.get(sent..).unwrap_or_default();
            let piece = &left[..left.len().min(window)];
            let is_last = piece.len() == left.len();
            let head = FrameHead {
                length: piece.len(),
                kind: kind::DATA,
                flags: if is_last { flag::END_STREAM } else { 0 },
                stream: id,
            };
            stream.window -= piece.len() as i64;
            self.window -= piece.len() as i64;
            stream.sent = (!is_last).then(|| sent + piece.len());
            head.put(&mut self.out);
            self.out.extend_from_slice(piece);
            if is_last {
                self.uploads.retain(|upload| *upload != id);
            }
        }
    }
}
