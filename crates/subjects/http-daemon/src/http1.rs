//! HTTP/1 on a connection: one request after the other.
//!
//! A connection that waits for a request has no buffer: bytes are read into one that the worker's connections share, and
//! only what has come of a request is kept. A file is sent by the kernel if nothing is between it and the socket.

pub(crate) mod content;
pub(crate) mod head;

use std::fmt::Write as _;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Poll, ready};

use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use hyper::header::{CONTENT_LENGTH, EXPECT};
use hyper::{Method, StatusCode, Version};
use nix::libc::MSG_MORE;
use nix::sys::socket::{MsgFlags, send};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use self::content::Content;
use self::head::{Head, has_option};
use crate::answer::Answer;
use crate::connection::Connection;
use crate::conversation::Ended;
use crate::service;
use crate::worker::Worker;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A connection that speaks HTTP/1.
pub(crate) struct Http1<'a, S> {
    worker: &'a Worker,
    connection: &'a Rc<Connection>,
    stream: S,
    /// True if the stream is the socket itself.
    is_plain: bool,
    /// Bytes that have come and are not used yet.
    received: Vec<u8>,
}

impl<'a, S: AsyncRead + AsyncWrite + Unpin> Http1<'a, S> {
    pub(crate) fn new(
        worker: &'a Worker,
        connection: &'a Rc<Connection>,
        stream: S,
        is_plain: bool,
    ) -> Self {
        Self {
            worker,
            connection,
            stream,
            is_plain,
            received: Vec::new(),
        }
    }

    /// Serves the connection to its end.
    pub(crate) async fn serve(&mut self) -> Ended {
        let connection = self.connection;
        let ended = loop {
            if self.received.is_empty() {
                self.received = Vec::new();
                match connection.unless_ordered(self.read()).await {
                    Err(order) => break order.into(),
                    Ok(Err(_) | Ok(0)) => break Ended::Well,
                    Ok(Ok(_)) => {}
                }
            }
            // Boxed, so that an idle connection does not pay for the size.
            match Box::pin(self.exchange()).await {
                Ok(None) => {}
                Ok(Some(ended)) => break ended,
                Err(error) => {
                    tracing::debug!(%error, "serving failed");
                    return Ended::Well;
                }
            }
        };
        if !self.is_plain {
            // TLS announces its end. A client that does not read it is given up like any other.
            let end = Box::pin(self.stream.shutdown());
            let _ = connection.unless_broken_off(end).await;
        }
        ended
    }

    /// Reads a request and answers it. Returns how the connection ends, if it does.
    async fn exchange(&mut self) -> io::Result<Option<Ended>> {
        let connection = self.connection;
        let head = connection.unless_ordered(pin!(self.head())).await;
        let answered = match head {
            Err(order) => return Ok(Some(order.into())),
            Ok(head) => match head? {
                None => return Ok(Some(Ended::Well)),
                Some(Err(status)) => {
                    let refused = pin!(self.refuse(status));
                    connection.unless_broken_off(refused).await
                }
                Some(Ok(head)) => {
                    let answered = pin!(self.answer(head));
                    connection.unless_broken_off(answered).await
                }
            },
        };
        answered.unwrap_or_else(|order| Ok(Some(order.into())))
    }

    /// Answers a head that is not valid.
    async fn refuse(&mut self, status: StatusCode) -> io::Result<Option<Ended>> {
        let worker = self.worker;
        worker.counts.answered(status.as_u16(), 1);
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\ndate: {}\r\n\r\n",
            worker.date.borrow()
        );
        self.write(answer.as_bytes(), false).await?;
        Ok(Some(Ended::Refused))
    }

    /// Reads a head. Returns `None` if the client has left, and the status for one that is not valid.
    async fn head(&mut self) -> io::Result<Option<Result<Head, StatusCode>>> {
        let limit = self.worker.resources.config.performance.request_buffer_size;
        let mut seen = 0;
        loop {
            // Bytes that end no line change nothing, unless they are too many.
            let new = &self.received[seen..];
            if seen == 0 || self.received.len() > limit || memchr::memchr(b'\n', new).is_some() {
                match head::parse(&self.received, limit) {
                    Err(status) => return Ok(Some(Err(status))),
                    Ok(Some((head, length))) => {
                        self.received.drain(..length);
                        return Ok(Some(Ok(head)));
                    }
                    Ok(None) => {}
                }
            }
            seen = self.received.len();
            self.connection.begin_head();
            if self.read().await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Answers a request. Returns how the connection ends, if it does.
    async fn answer(&mut self, head: Head) -> io::Result<Option<Ended>> {
        let Head {
            parts,
            mut content,
            mut keeps_alive,
        } = head;
        let (worker, connection) = (self.worker, self.connection);
        let busy = connection.begin();
        let is_plain = self.is_plain;
        let is_old = parts.version == Version::HTTP_10;
        let expectation = parts.headers.get(EXPECT).filter(|_| !is_old);
        let expects =
            expectation.is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        let length = self.read_content(&mut content, expects);
        let answer = service::answer_to(worker, &parts, is_plain, length, busy).await;
        // Nobody wants the content of other requests.
        if content.take(&mut self.received).is_err() || !content.is_complete() {
            connection.leave_body();
            keeps_alive = false;
        }
        keeps_alive &= !connection.is_draining() && !has_option(answer.headers(), "close");
        let sent = self.respond(answer, &parts.method, is_old, keeps_alive);
        Ok((!sent.await?).then_some(Ended::Well))
    }

    /// Reads and counts the content of a request, after asking for it if the client waits for that.
    async fn read_content(&mut self, content: &mut Content, expects: bool) -> io::Result<u64> {
        let mut length = content.take(&mut self.received)?;
        if expects && length == 0 && !content.is_complete() {
            self.write(CONTINUE, false).await?;
        }
        while !content.is_complete() {
            if self.read().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            length += content.take(&mut self.received)?;
        }
        Ok(length)
    }

    /// Sends a response. Returns true if the connection can take another request.
    async fn respond(
        &mut self,
        answer: Answer,
        method: &Method,
        is_old: bool,
        mut keeps_alive: bool,
    ) -> io::Result<bool> {
        let (parts, mut body) = answer.into_parts();
        let is_empty = method == Method::HEAD || matches!(parts.status.as_u16(), 204 | 304);
        let length = body.size_hint().exact();
        let is_chunked = !is_empty && length.is_none() && !is_old;
        // Without a length, the end of the connection is the end of the content.
        keeps_alive &= is_empty || length.is_some() || is_chunked;
        let mut head = format!("HTTP/1.1 {}\r\n", parts.status).into_bytes();
        for (name, value) in &parts.headers {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        let mut more = String::new();
        if let Some(length) = length.filter(|_| !is_empty)
            && !parts.headers.contains_key(CONTENT_LENGTH)
        {
            let _ = write!(more, "content-length: {length}\r\n");
        }
        if is_chunked {
            more.push_str("transfer-encoding: chunked\r\n");
        }
        if !keeps_alive && !has_option(&parts.headers, "close") {
            more.push_str("connection: close\r\n");
        } else if keeps_alive && is_old {
            more.push_str("connection: keep-alive\r\n");
        }
        let _ = write!(more, "date: {}\r\n\r\n", self.worker.date.borrow());
        head.extend_from_slice(more.as_bytes());
        if is_empty {
            self.write(&head, false).await?;
            return Ok(keeps_alive);
        }
        if !is_chunked {
            // Most responses are one write.
            head.extend_from_slice(&body.take_whole());
        }
        self.write(&head, body.is_file()).await?;
        if self.is_plain && body.is_file() {
            body.send_file().await?;
        }
        while let Some(frame) = body.frame().await {
            let Ok(bytes) = frame?.into_data() else {
                continue;
            };
            if is_chunked {
                let line = format!("{:x}\r\n", bytes.len());
                let chunk = [line.as_bytes(), &bytes, b"\r\n"].concat();
                self.write(&chunk, false).await?;
            } else {
                self.write(&bytes, false).await?;
            }
        }
        if is_chunked {
            self.write(b"0\r\n\r\n", false).await?;
        }
        Ok(keeps_alive)
    }

    /// Reads what has come; returns 0 once the client has ended its side.
    fn read(&mut self) -> impl Future<Output = io::Result<usize>> + Unpin {
        poll_fn(|cx| {
            let mut shared = self.worker.buffer.borrow_mut();
            let mut buffer = ReadBuf::new(&mut shared);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            self.received.extend_from_slice(buffer.filled());
            Poll::Ready(Ok(buffer.filled().len()))
        })
    }

    /// Writes all bytes. If more follow at once, the kernel may wait for them to fill a packet.
    async fn write(&mut self, mut bytes: &[u8], more: bool) -> io::Result<()> {
        if !self.is_plain {
            self.stream.write_all(bytes).await?;
            return self.stream.flush().await;
        }
        let mut flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        if more {
            flags |= MsgFlags::from_bits_retain(MSG_MORE);
        }
        while !bytes.is_empty() {
            let call = |socket: BorrowedFd<'_>| Ok(send(socket.as_raw_fd(), bytes, flags)?);
            let written = self.connection.write_with(call).await?;
            bytes = &bytes[written..];
        }
        Ok(())
    }
}
