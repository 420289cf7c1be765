//! A TCP connection to a broker, with TLS where the URI asks for it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use rustls::ClientConnection;

use crate::tls::Tls;

/// The connection. Reads and writes as a `TcpStream` does, blocking or not.
#[derive(Debug)]
pub(crate) struct Socket {
    tcp: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Socket {
    /// Takes a connection whose reads and writes have their timeouts; waits for the handshake where there is TLS.
    pub(crate) fn new(mut tcp: TcpStream, tls: Option<&Tls>) -> io::Result<Self> {
        let mut tls = tls.map(Tls::client).transpose()?.map(Box::new);
        if let Some(tls) = &mut tls {
            while tls.is_handshaking() {
                tls.complete_io(&mut tcp)?;
            }
        }
        Ok(Self { tcp, tls })
    }

    /// The TCP connection itself.
    pub(crate) fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Whether something was taken that the kernel has not taken yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Gives the kernel what was taken, as far as it takes it.
    pub(crate) fn push(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else {
            return Ok(());
        };
        while tls.wants_write() {
            match tls.write_tls(&mut self.tcp) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}

impl Read for Socket {
    /// With TLS: all that one read of the socket brings, for a buffer of 32 KB or more, so that whoever waits for the
    /// socket misses nothing.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return self.tcp.read(buffer);
        };
        loop {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The end without a word of TLS is what brokers do.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            tls.read_tls(&mut self.tcp)?;
            tls.process_new_packets().map_err(io::Error::other)?;
        }
    }
}

impl Write for Socket {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if self.tls.is_none() {
            return self.tcp.write(octets);
        }
        self.push()?;
        if self.is_pending() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = match &mut self.tls {
            Some(tls) => tls.writer().write(octets)?,
            None => 0,
        };
        self.push()?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.push()
    }
}
