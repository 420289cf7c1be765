//! A TCP connection, with TLS if it is asked for.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

use rustls::ClientConnection;

use crate::TlsClient;

/// A connection that reads and writes like a `TcpStream`, blocking or not. It may be connecting.
#[derive(Debug)]
pub struct Socket(Stream);

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

#[derive(Debug)]
struct TlsStream {
    tcp: TcpStream,
    tls: ClientConnection,
    /// True if the last read left nothing in the kernel.
    is_drained: bool,
    /// True if the peer closed without an alert.
    is_cut: bool,
}

impl TlsStream {
    /// Reads from the kernel once, and answers what the protocol requires. Returns the number of bytes read.
    fn pull(&mut self) -> io::Result<usize> {
        let mut source = Source {
            tcp: &self.tcp,
            is_drained: true,
        };
        let read = self.tls.read_tls(&mut source)?;
        self.is_drained = source.is_drained;
        self.tls.process_new_packets().map_err(io::Error::other)?;
        self.push()?;
        Ok(read)
    }

    /// Writes accepted bytes until the kernel accepts no more.
    fn push(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.tcp) {
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

/// Tells whether a read took all that the kernel had.
struct Source<'a> {
    tcp: &'a TcpStream,
    is_drained: bool,
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.tcp.read(buffer)?;
        self.is_drained = read < buffer.len();
        Ok(read)
    }
}

impl Socket {
    /// Wraps a connection. With `tls` the handshake goes along with the first writes and reads; bytes written before its
    /// end are kept and sent after it.
    ///
    /// # Errors
    /// An error of the TLS library.
    pub fn new(tcp: impl Into<TcpStream>, tls: Option<&TlsClient>) -> io::Result<Self> {
        let tcp = tcp.into();
        Ok(Self(match tls {
            None => Stream::Plain(tcp),
            Some(tls) => Stream::Tls(Box::new(TlsStream {
                tcp,
                tls: tls.connect()?,
                is_drained: false,
                is_cut: false,
            })),
        }))
    }

    /// Returns the TCP connection itself.
    #[must_use]
    pub fn tcp(&self) -> &TcpStream {
        match &self.0 {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(stream) => &stream.tcp,
        }
    }

    /// Completes the TLS handshake, or goes on with it as far as a non-blocking connection lets it.
    ///
    /// # Errors
    /// Errors of the socket and of TLS: `WouldBlock` if it must be called again once the socket is ready, or after the
    /// timeout of a blocking one.
    pub fn complete_handshake(&mut self) -> io::Result<()> {
        if let Stream::Tls(stream) = &mut self.0 {
            while stream.tls.is_handshaking() {
                stream.tls.complete_io(&mut stream.tcp)?;
            }
        }
        Ok(())
    }

    /// Returns the protocol that was negotiated (ALPN), once the handshake is complete.
    #[must_use]
    pub fn protocol(&self) -> Option<&[u8]> {
        match &self.0 {
            Stream::Plain(_) => None,
            Stream::Tls(stream) => stream.tls.alpn_protocol(),
        }
    }

    /// Returns true if nothing was left in the kernel by the last read, which filled less than its buffer: the caller of
    /// an edge-triggered loop need not read again.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        match &self.0 {
            Stream::Plain(_) => true,
            Stream::Tls(stream) => stream.is_drained,
        }
    }

    /// Returns true if the peer closed without the alert `close_notify` (RFC 8446 §6.1), as many do: then data whose end
    /// is the end of the connection may be incomplete.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        match &self.0 {
            Stream::Plain(_) => false,
            Stream::Tls(stream) => stream.is_cut,
        }
    }

    /// Returns true if bytes were accepted that the kernel has not accepted yet: the caller then waits for room to write
    /// and calls [`flush`](Write::flush). Check it after reads too, because a handshake answers what was read.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        match &self.0 {
            Stream::Plain(_) => false,
            Stream::Tls(stream) => stream.tls.wants_write(),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp().as_fd()
    }
}

impl Read for Socket {
    /// With TLS, returns what has been decrypted, or reads the kernel's data until there is something: the caller of a
    /// level-triggered loop must read until `WouldBlock`, or until less than 16 KiB of a larger buffer were filled.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let stream = match &mut self.0 {
            Stream::Plain(tcp) => return tcp.read(buffer),
            Stream::Tls(stream) => stream,
        };
        loop {
            match stream.tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    stream.is_cut = true;
                    return Ok(0);
                }
                read => return read,
            }
            if stream.pull()? == 0 && stream.tls.is_handshaking() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let stream = match &mut self.0 {
            Stream::Plain(tcp) => return tcp.write(bytes),
            Stream::Tls(stream) => stream,
        };
        stream.push()?;
        if stream.tls.wants_write() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = stream.tls.writer().write(bytes)?;
        stream.push()?;
        match taken {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            taken => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Stream::Plain(_) => Ok(()),
            Stream::Tls(stream) => stream.push(),
        }
    }
}
