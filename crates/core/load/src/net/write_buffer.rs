//! Writes to a non-blocking stream: what the kernel does not take is kept until it has room.

use std::io::{self, Write};

/// The part of a stream's output that the kernel has not taken yet.
///
/// A caller that finds it not [empty](Self::is_empty) after a write watches the descriptor for room and calls
/// [`flush`](Self::flush) when there is some.
#[derive(Debug, Default)]
pub struct WriteBuffer {
    pending: Vec<u8>,
    /// Number of pending bytes that were written since.
    written: usize,
}

impl WriteBuffer {
    /// Returns true if the kernel has taken everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Writes `bytes`, after all that is pending. Copies only what the kernel does not take now.
    ///
    /// # Errors
    /// An error of the stream. The buffer is unusable after that.
    pub fn write(&mut self, stream: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        let written = if self.is_empty() {
            write_available(stream, bytes)?
        } else {
            0
        };
        self.pending.extend_from_slice(&bytes[written..]);
        Ok(())
    }

    /// Keeps `bytes` behind all that is pending, for the next [`flush`](Self::flush): several small messages then cost
    /// one call of the kernel.
    pub fn append(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Writes what is pending, as far as there is room. Returns true if nothing is left.
    ///
    /// # Errors
    /// An error of the stream. The buffer is unusable after that.
    pub fn flush(&mut self, stream: &mut impl Write) -> io::Result<bool> {
        self.written += write_available(stream, &self.pending[self.written..])?;
        if self.written < self.pending.len() {
            return Ok(false);
        }
        self.pending.clear();
        self.written = 0;
        Ok(true)
    }
}

/// Writes until the stream would block; returns the number of bytes that it took.
fn write_available(stream: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    let mut written = 0;
    while written < bytes.len() {
        match stream.write(&bytes[written..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that takes three bytes a call, and `room` bytes in all.
    #[derive(Default)]
    struct Narrow {
        room: usize,
        taken: Vec<u8>,
        interrupted: bool,
    }

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if !std::mem::replace(&mut self.interrupted, true) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let length = bytes.len().min(3).min(self.room - self.taken.len());
            if length == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.taken.extend_from_slice(&bytes[..length]);
            Ok(length)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bytes_keep_their_order_whatever_the_kernel_takes() {
        let (mut buffer, mut stream) = (WriteBuffer::default(), Narrow::default());
        stream.room = 4;
        buffer.write(&mut stream, b"abcdef").unwrap();
        buffer.write(&mut stream, b"gh").unwrap();
        buffer.append(b"ij");
        assert!(!buffer.is_empty());
        assert!(!buffer.flush(&mut stream).unwrap());
        stream.room = 9;
        assert!(!buffer.flush(&mut stream).unwrap());
        stream.room = 20;
        assert!(buffer.flush(&mut stream).unwrap());
        buffer.write(&mut stream, b"kl").unwrap();
        assert_eq!(stream.taken, b"abcdefghijkl");
        assert!(buffer.is_empty());
    }

    #[test]
    fn a_stream_that_takes_nothing_is_an_error() {
        let error = WriteBuffer::default()
            .write(&mut &mut [][..], b"a")
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    }
}
