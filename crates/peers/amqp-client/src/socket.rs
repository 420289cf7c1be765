//! A TCP connection to a broker, with TLS if the URI requests it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use rustls::ClientConnection;
use tls_client::TlsClient;

/// A connection that reads and writes like a `TcpStream`, blocking or not.
#[derive(Debug)]
pub struct Socket {
    tcp: TcpStream,
    tls: Option<Box<ClientConnection>>,
}

impl Socket {
    /// Wraps a connection whose reads and writes have timeouts. With TLS, completes the handshake.
    pub(crate) fn new(mut tcp: TcpStream, tls: Option<&TlsClient>) -> io::Result<Self> {
        let mut tls = tls.map(TlsClient::connect).transpose()?.map(Box::new);
        if let Some(tls) = &mut tls {
            while tls.is_handshaking() {
                tls.complete_io(&mut tcp)?;
            }
        }
        Ok(Self { tcp, tls })
    }

    /// Returns the TCP connection itself.
    #[must_use]
    pub fn tcp(&self) -> &TcpStream {
        &self.tcp
    }

    /// Returns true if octets were accepted that the kernel has not accepted yet.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Writes accepted octets until the kernel accepts no more.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn push(&mut self) -> io::Result<()> {
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
    /// With TLS and a buffer of at least 32 KB, returns everything that one read of the socket brings: a caller that
    /// waits for the socket to be readable misses nothing.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else {
            return self.tcp.read(buffer);
        };
        loop {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Brokers close without a TLS close_notify.
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
