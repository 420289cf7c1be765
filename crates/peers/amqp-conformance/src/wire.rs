//! Raw frames: input that a case sends unchanged, and the broker's frames before they are parsed.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use amqp_client::{Broker, connect};
use anyhow::{Context as _, anyhow, bail};

pub(super) const METHOD: u8 = 1;
pub(super) const HEADER: u8 = 2;
pub(super) const BODY: u8 = 3;
pub(super) const HEARTBEAT: u8 = 8;
const END: u8 = 0xCE;
/// Maximum time of any answer: on a busy machine, with a broker in an emulator.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_secs(8);
/// Maximum frame size: above everything that brokers send in the cases.
const LARGEST: usize = 1 << 20;

/// A frame, AMQP 0-9-1 section 4.2.3.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) channel: u16,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    pub(super) fn new(kind: u8, channel: u16, payload: &[u8]) -> Self {
        Self {
            kind,
            channel,
            payload: payload.to_vec(),
        }
    }

    /// Returns its bytes, including the frame-end octet.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).expect("cases send less than 4 GiB");
        let mut bytes = vec![self.kind];
        bytes.extend(self.channel.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(&self.payload);
        bytes.push(END);
        bytes
    }
}

/// A socket to a broker.
#[derive(Debug)]
pub(super) struct Wire {
    stream: TcpStream,
}

impl Wire {
    pub(super) fn connect(broker: &Broker) -> anyhow::Result<Self> {
        let stream = connect(broker, REPLY_TIMEOUT)
            .with_context(|| format!("connecting to {}", broker.address()))?;
        Ok(Self { stream })
    }

    /// Writes a frame.
    pub(super) fn send(&self, kind: u8, channel: u16, payload: &[u8]) -> anyhow::Result<()> {
        self.write(&Frame::new(kind, channel, payload).bytes())
    }

    pub(super) fn write(&self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut stream = &self.stream;
        stream.write_all(bytes).context("sending to the broker")
    }

    /// Returns the next frame, or an error that explains why there is none.
    pub(super) fn frame(&self) -> anyhow::Result<Frame> {
        let head: [u8; 7] = self.bytes()?;
        if head.starts_with(b"AMQP") {
            bail!("the broker answered with a protocol header");
        }
        let [kind, high, low, length @ ..] = head;
        let length = usize::try_from(u32::from_be_bytes(length))?;
        if ![METHOD, HEADER, BODY, HEARTBEAT].contains(&kind) || length > LARGEST {
            bail!("the broker sent no frame: {head:?}");
        }
        let mut payload = vec![0; length];
        self.fill(&mut payload)?;
        let [end] = self.bytes()?;
        if end != END {
            bail!("a frame of the broker ends in {end:#04x} instead of {END:#04x}");
        }
        Ok(Frame {
            kind,
            channel: u16::from_be_bytes([high, low]),
            payload,
        })
    }

    /// Reads exactly `N` bytes.
    pub(super) fn bytes<const N: usize>(&self) -> anyhow::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&self, bytes: &mut [u8]) -> anyhow::Result<()> {
        let mut stream = &self.stream;
        stream
            .read_exact(bytes)
            .map_err(|error| match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    anyhow!("no answer within {REPLY_TIMEOUT:?}")
                }
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
                    anyhow!("the broker closed the socket without a close frame")
                }
                _ => anyhow!(error).context("reading from the broker"),
            })
    }

    /// Succeeds once the broker has closed the socket; frames before that are an error.
    pub(super) fn ends(&self) -> anyhow::Result<()> {
        let mut byte = [0];
        let mut stream = &self.stream;
        match stream.read(&mut byte) {
            Ok(0) => Ok(()),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
                ) =>
            {
                Ok(())
            }
            Ok(_) => bail!("the broker sends more data instead of closing the socket"),
            Err(_) => bail!("the broker did not close the socket within {REPLY_TIMEOUT:?}"),
        }
    }

    /// Closes the sending side without a close frame.
    pub(super) fn hang_up(&self) {
        // A socket that is already closed needs no shutdown.
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}
