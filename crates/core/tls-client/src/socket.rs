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
    Tls(Box<(TcpStream, ClientConnection)>),
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
            Some(tls) => Stream::Tls(Box::new((tcp, tls.connect()?))),
        }))
    }

    /// Returns the TCP connection itself.
    #[must_use]
    pub fn tcp(&self) -> &TcpStream {
        match &self.0 {
            Stream::Plain(tcp) => tcp,
            Stream::Tls(stream) => &stream.0,
        }
    }

    /// Completes the TLS handshake of a blocking connection.
    ///
    /// # Errors
    /// Errors of the socket, its timeout among them, and of TLS.
    pub fn complete_handshake(&mut self) -> io::Result<()> {
        if let Stream::Tls(stream) = &mut self.0 {
            while stream.1.is_handshaking() {
                stream.1.complete_io(&mut stream.0)?;
            }
        }
        Ok(())
    }

    /// Returns true if bytes were accepted that the kernel has not accepted yet: the caller then waits for room to write
    /// and calls [`flush`](Write::flush). Check it after reads too, because a handshake answers what was read.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        match &self.0 {
            Stream::Plain(_) => false,
            Stream::Tls(stream) => stream.1.wants_write(),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp().as_fd()
    }
}

/// Writes accepted bytes until the kernel accepts no more.
fn push(tcp: &mut TcpStream, tls: &mut ClientConnection) -> io::Result<()> {
    while tls.wants_write() {
        match tls.write_tls(tcp) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Read for Socket {
    /// With TLS, returns what has been decrypted, or reads the kernel's data until there is something: the caller of a
    /// level-triggered loop must read until `WouldBlock`, or until less than 16 KiB of a larger buffer were filled.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (tcp, tls) = match &mut self.0 {
            Stream::Plain(tcp) => return tcp.read(buffer),
            Stream::Tls(stream) => (&mut stream.0, &mut stream.1),
        };
        loop {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Some servers close without a TLS close_notify.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => return read,
            }
            let read = tls.read_tls(tcp)?;
            tls.process_new_packets().map_err(io::Error::other)?;
            push(tcp, tls)?;
            if read == 0 && tls.is_handshaking() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (tcp, tls) = match &mut self.0 {
            Stream::Plain(tcp) => return tcp.write(bytes),
            Stream::Tls(stream) => (&mut stream.0, &mut stream.1),
        };
        push(tcp, tls)?;
        if tls.wants_write() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = tls.writer().write(bytes)?;
        push(tcp, tls)?;
        match taken {
            0 => Err(io::ErrorKind::WouldBlock.into()),
            taken => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Stream::Plain(_) => Ok(()),
            Stream::Tls(stream) => push(&mut stream.0, &mut stream.1),
        }
    }
}
