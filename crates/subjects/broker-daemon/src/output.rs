//! The pending output of a connection: small data copied one after the other, large bodies shared.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::rc::Rc;

use amq_protocol::frame::{AMQPFrame, gen_frame};
use amq_protocol::protocol::AMQPClass;

use crate::frame::{self, BODY, HEADER, METHOD, OVERHEAD};
use crate::message::{Message, push_short};

/// Body parts from this length on are written without copying. Below, a copy costs less than another slice.
const SHARED_FROM: usize = 8 * 1024;
/// Slices per write.
const SLICES: usize = 64;
/// Bytes of its buffer that an idle connection may keep: there may be 100,000 connections.
const KEPT: usize = 4 * 1024;
/// Larger buffers than this are not kept as spares.
const SPARED: usize = 256 * 1024;
/// Written bytes at the head of a buffer above which they are dropped, if they are most of it. Otherwise a client that
/// reads steadily but never everything would let the buffer grow for ever.
const CUT: usize = 64 * 1024;

/// Pending frames, in order.
#[derive(Debug, Default)]
pub(crate) struct Output {
    chunks: VecDeque<Chunk>,
    /// Written bytes of the first chunk.
    written: usize,
    pending: usize,
}

#[derive(Debug)]
enum Chunk {
    Own(Vec<u8>),
    Shared(Rc<Message>, usize, usize),
}

impl Chunk {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(message, start, end) => &message.body()[*start..*end],
        }
    }
}

/// A delivery with the fields that basic.deliver and basic.get-ok share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivery<'a> {
    pub(crate) channel: u16,
    pub(crate) tag: u64,
    pub(crate) is_redelivered: bool,
    pub(crate) message: &'a Rc<Message>,
}

impl Output {
    /// Returns the bytes that are not written yet.
    pub(crate) fn pending(&self) -> usize {
        self.pending
    }

    /// Returns its memory in bytes, without the messages.
    pub(crate) fn own_bytes(&self) -> usize {
        let own = self.chunks.iter().map(|chunk| match chunk {
            Chunk::Own(bytes) => bytes.capacity(),
            Chunk::Shared(..) => 0,
        });
        own.sum()
    }

    fn compose(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if !matches!(self.chunks.back(), Some(Chunk::Own(_))) {
            self.chunks.push_back(Chunk::Own(Vec::new()));
        }
        if let Some(Chunk::Own(bytes)) = self.chunks.back_mut() {
            let before = bytes.len();
            write(bytes);
            self.pending += bytes.len() - before;
        }
    }

    /// Appends raw bytes.
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.compose(|to| to.extend_from_slice(bytes));
    }

    /// Appends the content of another output, which must not be partly written yet.
    pub(crate) fn append(&mut self, mut other: Self) {
        self.pending += other.pending;
        self.chunks.append(&mut other.chunks);
    }

    /// Appends a method frame.
    pub(crate) fn method(&mut self, channel: u16, method: AMQPClass) {
        let frame = AMQPFrame::Method(channel, method);
        let written = gen_frame(&frame)(Vec::new().into()).expect("a vector takes every frame");
        self.raw(&written.into_inner().0);
    }

    pub(crate) fn heartbeat(&mut self) {
        self.compose(|to| {
            frame::begin(to, frame::HEARTBEAT, 0, 0);
            frame::end(to);
        });
    }

    /// Appends basic.ack or basic.nack, which have the same layout except for nack's second bit.
    pub(crate) fn confirm(&mut self, channel: u16, is_ack: bool, tag: u64, multiple: bool) {
        let method = if is_ack { 80 } else { 120 };
        self.compose(|to| {
            frame::begin(to, METHOD, channel, 13);
            to.extend_from_slice(&[0, 60, 0, method]);
            to.extend_from_slice(&tag.to_be_bytes());
            to.push(u8::from(multiple));
            frame::end(to);
        });
    }

    /// Appends basic.deliver with its content. `consumer` is the tag as a short string.
    pub(crate) fn deliver(&mut self, delivery: Delivery<'_>, consumer: &[u8], frame_max: usize) {
        let Delivery { message, .. } = delivery;
        let address = message.address();
        self.compose(|to| {
            // Growing by doubling from nothing would copy each message several times.
            to.reserve(
                address.len() + message.header().len() + SHARED_FROM.min(message.body().len()) + 64,
            );
            let size = 4 + consumer.len() + 9 + address.len();
            frame::begin(to, METHOD, delivery.channel, size);
            to.extend_from_slice(&[0, 60, 0, 60]);
            to.extend_from_slice(consumer);
            to.extend_from_slice(&delivery.tag.to_be_bytes());
            to.push(u8::from(delivery.is_redelivered));
            to.extend_from_slice(address);
            frame::end(to);
        });
        self.content(delivery.channel, message, frame_max);
    }

    /// Appends basic.get-ok with its content; `left` messages remain in the queue.
    pub(crate) fn get_ok(&mut self, delivery: Delivery<'_>, left: u32, frame_max: usize) {
        let mut before = [0; 9];
        before[..8].copy_from_slice(&delivery.tag.to_be_bytes());
        before[8] = u8::from(delivery.is_redelivered);
        let (channel, message) = (delivery.channel, delivery.message);
        self.addressed(channel, 71, &before, message.address(), &left.to_be_bytes());
        self.content(channel, message, frame_max);
    }

    /// Appends basic.return with its content.
    pub(crate) fn give_back(
        &mut self,
        channel: u16,
        (code, text): (u16, &str),
        message: &Rc<Message>,
        frame_max: usize,
    ) {
        let mut before = code.to_be_bytes().to_vec();
        push_short(&mut before, text.as_bytes());
        self.addressed(channel, 50, &before, message.address(), &[]);
        self.content(channel, message, frame_max);
    }

    /// Appends a basic method with the address of a message among its arguments.
    fn addressed(&mut self, channel: u16, method: u8, before: &[u8], address: &[u8], after: &[u8]) {
        self.compose(|to| {
            let size = 4 + before.len() + address.len() + after.len();
            frame::begin(to, METHOD, channel, size);
            to.extend_from_slice(&[0, 60, 0, method]);
            to.extend_from_slice(before);
            to.extend_from_slice(address);
            to.extend_from_slice(after);
            frame::end(to);
        });
    }

    fn content(&mut self, channel: u16, message: &Rc<Message>, frame_max: usize) {
        let (header, body) = (message.header(), message.body());
        let longest = frame_max - OVERHEAD;
        let length = body.len();
        let mut start = 0;
        self.compose(|to| {
            frame::begin(to, HEADER, channel, header.len());
            to.extend_from_slice(header);
            frame::end(to);
            // Most bodies are one small frame.
            if (1..SHARED_FROM.min(longest + 1)).contains(&length) {
                frame::begin(to, BODY, channel, length);
                to.extend_from_slice(body);
                frame::end(to);
                start = length;
            }
        });
        while start < length {
            let end = length.min(start + longest);
            self.body(channel, message, start, end);
            start = end;
        }
    }

    fn body(&mut self, channel: u16, message: &Rc<Message>, start: usize, end: usize) {
        let size = end - start;
        if size < SHARED_FROM {
            return self.compose(|to| {
                frame::begin(to, BODY, channel, size);
                to.extend_from_slice(&message.body()[start..end]);
                frame::end(to);
            });
        }
        self.compose(|to| frame::begin(to, BODY, channel, size));
        let shared = Chunk::Shared(Rc::clone(message), start, end);
        self.chunks.push_back(shared);
        self.pending += size;
        self.compose(frame::end);
    }

    /// Writes until everything is written or `write` would block. Returns true if everything is written.
    ///
    /// # Errors
    /// Errors of `write`, except for [`io::ErrorKind::WouldBlock`].
    pub(crate) fn write_to(
        &mut self,
        mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<bool> {
        while self.pending > 0 {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut count = 0;
            for (chunk, slice) in self.chunks.iter().zip(&mut slices) {
                let from = if count == 0 { self.written } else { 0 };
                *slice = IoSlice::new(&chunk.bytes()[from..]);
                count += 1;
            }
            match write(&slices[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(length) => self.advance(length),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn advance(&mut self, mut length: usize) {
        self.pending -= length;
        while let Some(chunk) = self.chunks.front() {
            let left = chunk.bytes().len() - self.written;
            if length < left {
                self.written += length;
                return self.cut();
            }
            length -= left;
            self.written = 0;
            // The last buffer is kept for further output.
            if self.chunks.len() == 1
                && let Some(Chunk::Own(bytes)) = self.chunks.front_mut()
            {
                bytes.clear();
                return;
            }
            self.chunks.pop_front();
        }
    }

    /// Drops the written part of the first buffer. No byte is moved more often than others were written.
    fn cut(&mut self) {
        if let Some(Chunk::Own(bytes)) = self.chunks.front_mut()
            && self.written >= CUT
            && self.written >= bytes.len() / 2
        {
            bytes.drain(..self.written);
            self.written = 0;
        }
    }

    /// Takes its buffer away, if everything is written and the buffer is as large as a burst needs. Returns it if it
    /// may be reused.
    pub(crate) fn spare(&mut self) -> Option<Vec<u8>> {
        if self.pending > 0 {
            return None;
        }
        let is_large =
            |chunk: &mut Chunk| matches!(chunk, Chunk::Own(bytes) if bytes.capacity() > KEPT);
        match self.chunks.pop_front_if(is_large)? {
            Chunk::Own(bytes) if bytes.capacity() <= SPARED => Some(bytes),
            Chunk::Own(_) | Chunk::Shared(..) => None,
        }
    }

    /// Adopts a spare buffer. Both the buffer and the output must be empty.
    pub(crate) fn reuse(&mut self, buffer: Vec<u8>) {
        self.chunks.clear();
        self.chunks.push_back(Chunk::Own(buffer));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::Facts;

    fn message(body: &[u8]) -> Rc<Message> {
        let mut data = b"\x01e\x02rk".to_vec();
        data.extend_from_slice(&[0, 60, 0, 0]);
        data.extend_from_slice(&u64::try_from(body.len()).unwrap().to_be_bytes());
        data.extend_from_slice(&[0, 0]);
        let head = data.len();
        data.extend_from_slice(body);
        let meter = Rc::default();
        Rc::new(Message::new(data, 5, head, Facts::default(), &meter))
    }

    #[test]
    fn a_client_that_never_reads_everything_does_not_let_the_buffer_grow() {
        let mut output = Output::default();
        output.raw(&[0; 1000]);
        for _ in 0..2000 {
            output.raw(&[0; 1000]);
            let mut room = 1000;
            let took = output.write_to(|slices| match std::mem::take(&mut room) {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                room => Ok(room.min(slices[0].len())),
            });
            assert!(!took.unwrap());
        }
        assert_eq!(output.pending(), 1000);
        let held: usize = output.chunks.iter().map(|chunk| chunk.bytes().len()).sum();
        assert!(held < 3 * CUT, "{held}");
    }

    proptest! {
        /// In whatever pieces the socket takes it, the frames arrive unchanged, and the body is complete.
        #[test]
        fn pieces_add_up_to_the_frames(lengths in prop::collection::vec(0usize..40_000, 1..6), steps in prop::collection::vec(1usize..30_000, 1..50)) {
            let mut output = Output::default();
            for (index, length) in lengths.iter().enumerate() {
                let body = vec![u8::try_from(index).unwrap(); *length];
                let delivery = Delivery { channel: 1, tag: 9, is_redelivered: false, message: &message(&body) };
                output.deliver(delivery, b"\x01c", 16_384);
            }
            let mut sent = Vec::new();
            let mut steps = steps.iter().cycle();
            while output.pending() > 0 {
                let mut room = *steps.next().unwrap();
                output.write_to(|slices| {
                    if room == 0 { return Err(io::ErrorKind::WouldBlock.into()); }
                    let all: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
                    let taken = all.len().min(room);
                    sent.extend_from_slice(&all[..taken]);
                    room -= taken;
                    Ok(taken)
                }).unwrap();
            }
            let mut bodies = vec![0; lengths.len()];
            let mut rest = &sent[..];
            let mut current = 0;
            while let Some((frame, length)) = frame::split(rest, 16_384 - OVERHEAD).unwrap() {
                match frame.kind {
                    METHOD => current += 1,
                    BODY => {
                        prop_assert!(frame.payload.iter().all(|byte| usize::from(*byte) == current - 1));
                        bodies[current - 1] += frame.payload.len();
                    }
                    _ => {}
                }
                rest = &rest[length..];
            }
            prop_assert!(rest.is_empty());
            prop_assert_eq!(bodies, lengths);
        }
    }
}
