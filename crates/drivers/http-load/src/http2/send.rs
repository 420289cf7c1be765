//! The sending side: requests, and their bodies as far as the windows allow.

use super::blocks::{OwnPart, RequestBlocks};
use super::frame::{self, FrameHead, MAX_PAYLOAD, flag, kind};
use super::streams::Stream;
use super::{Connection, ENOUGH_UNSENT};

impl<T> Connection<T> {
    /// Opens a stream for a request, whose own part is `own`.
    pub(crate) fn open(&mut self, item: T, blocks: &RequestBlocks, own: &OwnPart) {
        let (id, start) = (self.next, self.out.len());
        self.next += 2;
        let body = own.body.as_ref().filter(|body| !body.is_empty());
        let ends = if body.is_none() { flag::END_STREAM } else { 0 };
        self.out.extend_from_slice(&[0; frame::HEAD]);
        blocks.render(own, &mut self.table, &mut self.out);
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
                is_head: blocks.is_head,
                window: self.initial_window,
                status: None,
                length: None,
                received: 0,
                unreported: 0,
            },
        );
        self.uploads.extend(body.map(|body| (id, body.clone())));
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

    /// Adds as much of the bodies of requests to the output as the windows allow and is worth to be held.
    pub(crate) fn upload(&mut self) {
        let mut index = 0;
        while self.output().len() < ENOUGH_UNSENT
            && let Some((id, body)) = self.uploads.get_mut(index)
        {
            let id = *id;
            let Some(stream) = self.streams.get_mut(id) else {
                return;
            };
            let window = self.window.min(stream.window).clamp(0, MAX_PAYLOAD as i64) as usize;
            if window == 0 {
                index += 1;
                continue;
            }
            let piece = body.split_to(body.len().min(window));
            let is_last = body.is_empty();
            let head = FrameHead {
                length: piece.len(),
                kind: kind::DATA,
                flags: if is_last { flag::END_STREAM } else { 0 },
                stream: id,
            };
            stream.window -= piece.len() as i64;
            self.window -= piece.len() as i64;
            head.put(&mut self.out);
            self.out.extend_from_slice(&piece);
            if is_last {
                self.uploads.remove(index);
            }
        }
    }

    /// Forgets the rest of a request's body; returns true if there was one.
    pub(super) fn end_upload(&mut self, id: u32) -> bool {
        let index = self.uploads.iter().position(|(upload, _)| *upload == id);
        index.map(|index| self.uploads.remove(index)).is_some()
    }
}
