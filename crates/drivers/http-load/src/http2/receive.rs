//! The receiving side: frames, whole or in pieces.

use super::frame::{self, Fault, FrameHead, MAX_PAYLOAD, code, flag, kind, setting};
use super::response::{Head, OpenBlock};
use super::{
    Connection, Event, Input, LAST_STREAM, MOST_UNSENT, Response, Sink, Table, WINDOW, hpack,
};
use crate::outcome;

impl<T> Connection<T> {
    /// Takes received bytes up to the next event. Returns the number of bytes taken, which is all of them if there is
    /// none.
    ///
    /// # Errors
    /// The fault of the server. It does not depend on how the bytes are split.
    pub(crate) fn take(
        &mut self,
        bytes: &[u8],
        sink: &mut impl Sink<T>,
    ) -> Result<(usize, Option<Event<T>>), Fault> {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            let event = match self.input {
                Input::Frame if rest.is_empty() => return Ok((used, None)),
                Input::Frame => {
                    let (taken, event) = self.take_frame(rest, sink)?;
                    used += taken;
                    event
                }
                Input::Ignored(left) => {
                    let piece = left.min(rest.len());
                    used += piece;
                    if piece < left {
                        self.input = Input::Ignored(left - piece);
                        return Ok((used, None));
                    }
                    self.input = Input::Frame;
                    None
                }
                Input::Data {
                    stream,
                    left,
                    padding,
                    ends,
                } => {
                    let piece = left.min(rest.len());
                    let blank = padding.min(rest.len() - piece);
                    used += piece + blank;
                    let event = self.data(stream, &rest[..piece], sink);
                    let is_whole = piece == left && blank == padding;
                    self.input = if is_whole {
                        Input::Frame
                    } else {
                        Input::Data {
                            stream,
                            left: left - piece,
                            padding: padding - blank,
                            ends,
                        }
                    };
                    match event {
                        Some(event) => Some(event),
                        None if !is_whole => return Ok((used, None)),
                        None if ends => self.finish(stream),
                        None => None,
                    }
                }
            };
            if event.is_some() {
                return Ok((used, event));
            }
        }
    }

    /// Takes a frame, or holds a part of it.
    #[inline]
    fn take_frame(
        &mut self,
        bytes: &[u8],
        sink: &mut impl Sink<T>,
    ) -> Result<(usize, Option<Event<T>>), Fault> {
        if self.held.is_empty()
            && let Some(head) = self.frame_head(bytes)?
            && let Some(frame) = bytes.get(..head.needed())
        {
            let event = self.frame(head, &frame[frame::HEAD..], sink)?;
            return Ok((frame.len(), event));
        }
        let mut used = 0;
        loop {
            let head = self.frame_head(&self.held)?;
            let needed = head.map_or(frame::HEAD, FrameHead::needed);
            let missing = needed - self.held.len();
            if let Some(head) = head.filter(|_| missing == 0) {
                let held = std::mem::take(&mut self.held);
                let event = self.frame(head, &held[frame::HEAD..], sink)?;
                return Ok((used, event));
            }
            let rest = &bytes[used..];
            if rest.is_empty() {
                return Ok((used, None));
            }
            let piece = &rest[..rest.len().min(missing)];
            self.held.extend_from_slice(piece);
            used += piece.len();
        }
    }

    /// Parses the head of a frame, and checks that the frame may come now.
    fn frame_head(&self, bytes: &[u8]) -> Result<Option<FrameHead>, Fault> {
        let Some(head) = FrameHead::parse(bytes) else {
            return Ok(None);
        };
        if head.length > MAX_PAYLOAD {
            return Err(Fault::FrameSize);
        }
        let fits = self
            .block
            .as_ref()
            .is_none_or(|block| head.kind == kind::CONTINUATION && head.stream == block.stream);
        let begins = self.has_settings || head.kind == kind::SETTINGS && !head.has(flag::ACK);
        if fits && begins {
            Ok(Some(head))
        } else {
            Err(Fault::Protocol)
        }
    }

    /// Handles a frame. The payload of one that is streamed is at most the length of its padding.
    #[inline]
    fn frame(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        sink: &mut impl Sink<T>,
    ) -> Result<Option<Event<T>>, Fault> {
        let of_stream = matches!(
            head.kind,
            kind::DATA | kind::HEADERS | kind::PRIORITY | kind::RST_STREAM | kind::CONTINUATION
        );
        let of_connection = matches!(head.kind, kind::SETTINGS | kind::PING | kind::GOAWAY);
        if of_stream && head.stream == 0 || of_connection && head.stream != 0 {
            return Err(Fault::Protocol);
        }
        match head.kind {
            kind::DATA => self.begin_data(head, payload).map(|()| None),
            kind::HEADERS => {
                let fragment = frame::unpadded(head, payload)?;
                let ends = head.has(flag::END_STREAM);
                if head.has(flag::END_HEADERS) {
                    return self.header_block(head.stream, ends, fragment, sink);
                }
                self.block = Some(Box::new(OpenBlock::new(head.stream, ends, fragment)));
                Ok(None)
            }
            kind::CONTINUATION => {
                let mut block = self.block.take().ok_or(Fault::Protocol)?;
                block.extend(payload)?;
                if head.has(flag::END_HEADERS) {
                    return self.header_block(block.stream, block.ends, &block.bytes, sink);
                }
                self.block = Some(block);
                Ok(None)
            }
            kind::RST_STREAM => self.reset_by_server(head, payload),
            kind::SETTINGS => self.settings(head, payload).map(|()| None),
            kind::PING => self.ping(head, payload).map(|()| None),
            kind::GOAWAY => {
                let last = frame::number(payload)? & LAST_STREAM;
                frame::number(&payload[4..])?;
                self.last = Some(self.last.map_or(last, |before| before.min(last)));
                Ok(Some(Event::Closing))
            }
            kind::WINDOW_UPDATE => self.window_update(head, payload).map(|()| None),
            kind::PRIORITY if payload.len() == 5 => Ok(None),
            kind::PRIORITY => Err(Fault::FrameSize),
            // Pushes were refused.
            kind::PUSH_PROMISE => Err(Fault::Protocol),
            _ => {
                self.input = Input::Ignored(head.length);
                Ok(None)
            }
        }
    }

    /// Checks that a stream was opened. One that has ended may only get frames if it was reset here: they may have been
    /// under way.
    fn check_stream(&mut self, id: u32) -> Result<(), Fault> {
        if id >= self.next || id.is_multiple_of(2) {
            Err(Fault::Protocol)
        } else if !self.has_reset && self.streams.get_mut(id).is_none() {
            Err(Fault::StreamClosed)
        } else {
            Ok(())
        }
    }

    fn begin_data(&mut self, head: FrameHead, padding: &[u8]) -> Result<(), Fault> {
        self.check_stream(head.stream)?;
        let (padding, own) = match (head.has(flag::PADDED), padding.first()) {
            (true, Some(padding)) => (usize::from(*padding), 1),
            (true, None) => return Err(Fault::FrameSize),
            _ => (0, 0),
        };
        let left = (head.length - own).checked_sub(padding);
        self.unreported += head.length as u32;
        report(&mut self.out, 0, &mut self.unreported);
        if let Some(stream) = self.streams.get_mut(head.stream) {
            if stream.status.is_none() {
                return Err(Fault::Protocol);
            }
            stream.unreported += head.length as u32;
            report(&mut self.out, head.stream, &mut stream.unreported);
        }
        self.input = Input::Data {
            stream: head.stream,
            left: left.ok_or(Fault::Protocol)?,
            padding,
            ends: head.has(flag::END_STREAM),
        };
        Ok(())
    }

    /// Hands on a piece of a body. A body that is too long, or that may not be, fails its stream.
    fn data(&mut self, id: u32, piece: &[u8], sink: &mut impl Sink<T>) -> Option<Event<T>> {
        if piece.is_empty() {
            return None;
        }
        let stream = self.streams.get_mut(id)?;
        stream.received += piece.len() as u64;
        if stream.length.is_some_and(|length| stream.received > length) || !stream.may_have_body() {
            return self.malformed(id);
        }
        let taken = sink.body(&mut stream.item, piece);
        taken.err().and_then(|kind| {
            let item = self.cancel(id)?;
            Some(Event::Failed(item, kind))
        })
    }

    /// Ends a stream whose response is complete.
    fn finish(&mut self, id: u32) -> Option<Event<T>> {
        let stream = self.streams.get_mut(id)?;
        let is_whole =
            !stream.may_have_body() || stream.length.is_none_or(|length| length == stream.received);
        if !is_whole {
            return self.malformed(id);
        }
        let stream = self.streams.remove(id)?;
        if self.end_upload(id) {
            // The server does not need the rest of the request (§8.1).
            frame::put_number(&mut self.out, kind::RST_STREAM, id, code::CANCEL);
        }
        let response = Response {
            status: stream.status?,
            body: stream.received,
        };
        Some(Event::Answered(stream.item, response))
    }

    /// Resets a stream with a malformed response (§8.1.1).
    fn malformed(&mut self, id: u32) -> Option<Event<T>> {
        let item = self.reset(id, code::PROTOCOL_ERROR)?;
        Some(Event::Failed(item, outcome::HTTP2))
    }

    /// Handles a whole header block: the head of a response, an interim one, or trailers.
    fn header_block(
        &mut self,
        id: u32,
        ends: bool,
        block: &[u8],
        sink: &mut impl Sink<T>,
    ) -> Result<Option<Event<T>>, Fault> {
        self.check_stream(id)?;
        let stream = self.streams.get_mut(id);
        let head = Head::decode(&mut self.decoder, block, stream, sink)?;
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(None);
        };
        let is_trailer = stream.status.is_some();
        let is_wrong = match head.status {
            _ if head.is_malformed => true,
            None => !is_trailer || !ends,
            // 101 does not exist in HTTP/2 (§8.6).
            Some(status) => is_trailer || status == 101 || status < 200 && ends,
        };
        if is_wrong {
            return Ok(self.malformed(id));
        }
        if let Some(status) = head.status.filter(|status| *status >= 200) {
            (stream.status, stream.length) = (Some(status), head.length);
        }
        Ok(if ends { self.finish(id) } else { None })
    }

    fn reset_by_server(
        &mut self,
        head: FrameHead,
        payload: &[u8],
    ) -> Result<Option<Event<T>>, Fault> {
        let code = frame::number(payload)?;
        if payload.len() != 4 {
            return Err(Fault::FrameSize);
        }
        if head.stream >= self.next || head.stream.is_multiple_of(2) {
            return Err(Fault::Protocol);
        }
        let Some(stream) = self.streams.remove(head.stream) else {
            return Ok(None);
        };
        self.end_upload(head.stream);
        Ok(Some(match code {
            code::REFUSED_STREAM => Event::Refused(stream.item),
            _ => Event::Failed(stream.item, outcome::RESET),
        }))
    }

    fn settings(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        if head.has(flag::ACK) {
            return payload.is_empty().then_some(()).ok_or(Fault::FrameSize);
        }
        let (settings, []) = payload.as_chunks::<6>() else {
            return Err(Fault::FrameSize);
        };
        for [a, b, value @ ..] in settings {
            let value = u32::from_be_bytes(*value);
            match u16::from_be_bytes([*a, *b]) {
                setting::HEADER_TABLE_SIZE if (value as usize) < hpack::TABLE_SIZE => {
                    self.table = Table::Reduced;
                }
                setting::ENABLE_PUSH if value != 0 => return Err(Fault::Protocol),
                setting::MAX_CONCURRENT_STREAMS => self.most_streams = value as usize,
                setting::INITIAL_WINDOW_SIZE => self.resize_windows(value)?,
                setting::MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&value) => {
                    return Err(Fault::Protocol);
                }
                _ => {}
            }
        }
        self.has_settings = true;
        self.acknowledge(head, &[])
    }

    fn resize_windows(&mut self, size: u32) -> Result<(), Fault> {
        if size > LAST_STREAM {
            return Err(Fault::FlowControl);
        }
        let change = i64::from(size) - self.initial_window;
        self.initial_window = size.into();
        for stream in self.streams.iter_mut() {
            stream.window = widened(stream.window, change)?;
        }
        Ok(())
    }

    fn ping(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        if payload.len() != 8 {
            Err(Fault::FrameSize)
        } else if head.has(flag::ACK) {
            Ok(())
        } else {
            self.acknowledge(head, payload)
        }
    }

    fn acknowledge(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        if self.output().len() >= MOST_UNSENT {
            return Err(Fault::Flood);
        }
        let head = FrameHead {
            length: payload.len(),
            flags: flag::ACK,
            ..head
        };
        head.put(&mut self.out);
        self.out.extend_from_slice(payload);
        Ok(())
    }

    fn window_update(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        let more = frame::number(payload)? & LAST_STREAM;
        if payload.len() != 4 {
            return Err(Fault::FrameSize);
        }
        if more == 0 || head.stream >= self.next {
            return Err(Fault::Protocol);
        }
        let window = match head.stream {
            0 => Some(&mut self.window),
            id => self.streams.get_mut(id).map(|stream| &mut stream.window),
        };
        // It may be for a stream that has ended.
        if let Some(window) = window {
            *window = widened(*window, more.into())?;
        }
        Ok(())
    }
}

fn widened(window: i64, change: i64) -> Result<i64, Fault> {
    let window = window + change;
    if window > LAST_STREAM.into() {
        Err(Fault::FlowControl)
    } else {
        Ok(window)
    }
}

/// Lets the server send as many bytes again as were received, in large steps.
fn report(out: &mut Vec<u8>, stream: u32, unreported: &mut u32) {
    if *unreported > WINDOW / 2 {
        let bytes = std::mem::take(unreported);
        frame::put_number(out, kind::WINDOW_UPDATE, stream, bytes);
    }
}
