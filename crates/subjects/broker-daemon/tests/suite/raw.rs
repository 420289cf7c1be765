//! A client that writes its own frames, so that it can send them malformed, late, or not at all.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use amq_protocol::frame::{AMQPFrame, parse_frame};
use amq_protocol::protocol::AMQPClass;

use crate::frames::{declare, encode, greeting};
use crate::support::TIMEOUT;

/// The ids of connection.blocked and basic.deliver.
pub(crate) const BLOCKED: (u16, u16) = (10, 60);
pub(crate) const DELIVER: (u16, u16) = (60, 60);

/// A connection with channel 1.
pub(crate) struct Raw {
    pub(crate) stream: TcpStream,
    unread: Vec<u8>,
}

impl Raw {
    pub(crate) fn connect(address: &str) -> Self {
        let mut raw = Self::greet(address, &greeting("guest", "/"));
        raw.await_method((20, 11));
        raw
    }

    /// Connects and sends a greeting, and waits for no answer.
    pub(crate) fn greet(address: &str, greeting: &[u8]) -> Self {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(greeting).unwrap();
        let unread = Vec::new();
        Self { stream, unread }
    }

    pub(crate) fn send(&mut self, frames: &[AMQPFrame]) {
        self.stream.write_all(&encode(frames)).unwrap();
    }

    /// Reads until a method with these ids of class and method comes.
    pub(crate) fn await_method(&mut self, ids: (u16, u16)) {
        loop {
            let method = self
                .next_method()
                .expect("the broker closed the connection");
            if (method.get_amqp_class_id(), method.get_amqp_method_id()) == ids {
                return;
            }
        }
    }

    /// Reads until a method comes, or the end of the connection.
    pub(crate) fn next_method(&mut self) -> Option<AMQPClass> {
        loop {
            if let Ok((rest, frame)) = parse_frame(&*self.unread) {
                let left = rest.len();
                self.unread.drain(..self.unread.len() - left);
                match frame {
                    AMQPFrame::Method(_, method) => return Some(method),
                    _ => continue,
                }
            }
            let mut more = [0; 4096];
            match self.stream.read(&mut more) {
                Ok(0) => return None,
                Ok(length) => self.unread.extend_from_slice(&more[..length]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) fn declare(&mut self, name: &str) {
        self.send(&[declare(name)]);
        self.await_method((50, 11));
    }
}
