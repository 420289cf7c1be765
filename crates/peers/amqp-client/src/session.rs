//! A connection that sends one method at a time and waits for its answer.

use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::time::Duration;

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, channel, connection};
use amq_protocol::types::{AMQPValue, FieldTable, LongString};
use load::clock;
use tls_client::Socket;

use crate::broker::{Broker, connect};
use crate::error::SessionError;
use crate::frame::{encode, whole_frame};

/// Time that a broker may take for one answer.
pub(crate) const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// The frame size to ask for if the broker names no limit, bytes: 0 would mean no limit at all.
pub const FRAME_MAX: u32 = 131_072;
/// The smallest frame size that a peer may ask for, bytes (AMQP 0-9-1, connection.tune).
pub(crate) const FRAME_MIN: u32 = 4096;
const PREFETCH_ROOM: usize = 64 << 10;

/// A negotiated connection. Each call waits for its answer.
#[derive(Debug)]
pub struct Session {
    /// The socket.
    pub stream: Socket,
    /// Octets that were read and are not parsed yet.
    pub input: Vec<u8>,
    /// The negotiated frame size, bytes.
    pub frame_max: u32,
    /// The most channels that may be open; 0 for no limit.
    pub channel_max: u16,
    /// Seconds between heartbeats; 0 for none.
    pub heartbeat: u16,
    /// Time that the broker may take for one answer.
    reply_timeout: Duration,
}

impl Session {
    /// Connects and negotiates. `heartbeat`, in seconds, overrides URI and broker.
    ///
    /// # Errors
    /// A broker that cannot be reached, refuses, or does not answer in time.
    pub fn open(broker: &Broker, heartbeat: Option<u16>) -> Result<Self, SessionError> {
        Self::open_within(broker, heartbeat, REPLY_TIMEOUT)
    }

    /// Connects and negotiates. The broker may take `reply_timeout` for each answer.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_within(
        broker: &Broker,
        heartbeat: Option<u16>,
        reply_timeout: Duration,
    ) -> Result<Self, SessionError> {
        let tcp = connect(broker, reply_timeout)?;
        let mut stream = Socket::new(tcp, broker.tls.as_ref())?;
        stream.complete_handshake()?;
        let mut session = Self {
            stream,
            input: Vec::with_capacity(PREFETCH_ROOM),
            frame_max: FRAME_MAX,
            channel_max: 0,
            heartbeat: 0,
            reply_timeout,
        };
        session.stream.write_all(b"AMQP\0\0\x09\x01")?;
        match session.receive(0)? {
            AMQPClass::Connection(connection::AMQPMethod::Start(_)) => {}
            other => return Err(unexpected("connection.start", &other)),
        }
        session.send(0, start_ok(broker))?;
        let tune = match session.receive(0) {
            Ok(AMQPClass::Connection(connection::AMQPMethod::Tune(tune))) => tune,
            Ok(other) => return Err(unexpected("connection.tune", &other)),
            // Without the capability authentication_failure_close, a broker refuses a login in this way.
            Err(SessionError::Silent(_)) => {
                return Err(SessionError::Silent(" during authentication"));
            }
            Err(error) => return Err(error),
        };
        session.tune(&tune, broker, heartbeat)?;
        let open = connection::Open {
            virtual_host: broker.uri.vhost.as_str().into(),
        };
        let open = AMQPClass::Connection(connection::AMQPMethod::Open(open));
        match session.call(0, open)? {
            AMQPClass::Connection(connection::AMQPMethod::OpenOk(_)) => Ok(session),
            other => Err(unexpected("connection.open-ok", &other)),
        }
    }

    fn tune(
        &mut self,
        offered: &connection::Tune,
        broker: &Broker,
        heartbeat: Option<u16>,
    ) -> Result<(), SessionError> {
        // 0 means no limit on either side.
        let least = |mine: u32, theirs: u32| match (mine, theirs) {
            (0, other) | (other, 0) => other,
            (mine, theirs) => mine.min(theirs),
        };
        let query = &broker.uri.query;
        // 0 stands for no limit of one's own.
        let wanted = query.frame_max.filter(|octets| *octets > 0);
        let wanted = wanted.unwrap_or(FRAME_MAX);
        self.frame_max = least(wanted, offered.frame_max);
        if self.frame_max < FRAME_MIN {
            return Err(SessionError::Protocol(format!(
                "the broker offers frames of at most {} bytes, below the minimum of {FRAME_MIN} of AMQP 0-9-1",
                self.frame_max
            )));
        }
        let channels = u32::from(query.channel_max.unwrap_or(0));
        self.channel_max = least(channels, u32::from(offered.channel_max)) as u16;
        self.heartbeat = heartbeat.or(query.heartbeat).unwrap_or(offered.heartbeat);
        let tune = connection::TuneOk {
            channel_max: self.channel_max,
            frame_max: self.frame_max,
            heartbeat: self.heartbeat,
        };
        self.send(
            0,
            AMQPClass::Connection(connection::AMQPMethod::TuneOk(tune)),
        )
    }

    /// Sends a heartbeat (AMQP 0-9-1, 4.2.7).
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn send_heartbeat(&mut self) -> Result<(), SessionError> {
        Ok(self.stream.write_all(&encode(&AMQPFrame::Heartbeat))?)
    }

    /// Opens a channel.
    ///
    /// # Errors
    /// The broker's refusal, or a lost connection.
    pub fn open_channel(&mut self, number: u16) -> Result<(), SessionError> {
        let open = AMQPClass::Channel(channel::AMQPMethod::Open(channel::Open {}));
        match self.call(number, open)? {
            AMQPClass::Channel(channel::AMQPMethod::OpenOk(_)) => Ok(()),
            other => Err(unexpected("channel.open-ok", &other)),
        }
    }

    /// Sends a method and returns the next one on its channel.
    ///
    /// # Errors
    /// channel.close and connection.close, and a lost connection.
    pub fn call(&mut self, channel: u16, method: AMQPClass) -> Result<AMQPClass, SessionError> {
        let what = name(&method);
        self.send(channel, method)?;
        match self.receive(channel)? {
            AMQPClass::Channel(channel::AMQPMethod::Close(close)) => {
                let ok = AMQPClass::Channel(channel::AMQPMethod::CloseOk(channel::CloseOk {}));
                self.send(channel, ok)?;
                Err(SessionError::Channel {
                    code: close.reply_code,
                    text: close.reply_text.to_string(),
                    what,
                })
            }
            answer => Ok(answer),
        }
    }

    /// Sends a method.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn send(&mut self, channel: u16, method: AMQPClass) -> Result<(), SessionError> {
        Ok(self
            .stream
            .write_all(&encode(&AMQPFrame::Method(channel, method)))?)
    }

    /// Returns the next method on a channel.
    ///
    /// # Errors
    /// connection.close, a lost connection, or no method in time.
    pub fn receive(&mut self, channel: u16) -> Result<AMQPClass, SessionError> {
        let until = self.by();
        loop {
            match self.frame_by(until)? {
                AMQPFrame::Method(
                    0,
                    AMQPClass::Connection(connection::AMQPMethod::Close(close)),
                ) => {
                    let ok = connection::AMQPMethod::CloseOk(connection::CloseOk {});
                    // The broker closes the socket either way.
                    let _ = self.send(0, AMQPClass::Connection(ok));
                    return Err(SessionError::Closed {
                        code: close.reply_code,
                        text: close.reply_text.to_string(),
                    });
                }
                AMQPFrame::Method(number, method) if number == channel => return Ok(method),
                _ => {}
            }
        }
    }

    /// Returns the next frame of any kind.
    ///
    /// # Errors
    /// A lost connection, or no frame in time.
    pub fn frame(&mut self) -> Result<AMQPFrame, SessionError> {
        self.frame_by(self.by())
    }

    /// Reads a frame with one deadline for all of it: a broker that sends an octet now and then must not block the
    /// caller for ever.
    fn frame_by(&mut self, until: u64) -> Result<AMQPFrame, SessionError> {
        loop {
            if let Some((octets, frame)) =
                whole_frame(&self.input).map_err(SessionError::Protocol)?
            {
                self.input.drain(..octets);
                return Ok(frame);
            }
            if clock::now() >= until {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            let mut piece = [0; 16 << 10];
            match self.stream.read(&mut piece)? {
                0 => return Err(SessionError::Silent("")),
                octets => self.input.extend_from_slice(&piece[..octets]),
            }
        }
    }

    /// Returns the deadline of the next answer.
    fn by(&self) -> u64 {
        clock::now() + self.reply_timeout.as_nanos() as u64
    }

    /// Sends connection.close and does not wait for the answer: everything that matters was answered.
    pub fn close(mut self) {
        // The broker may have closed the connection already.
        let _ = self.send(0, close_method());
        let _ = self.stream.tcp().shutdown(Shutdown::Write);
    }

    /// Closes the connection and waits for the answer.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn end(mut self) -> Result<(), SessionError> {
        self.call(0, close_method()).map(drop)
    }
}

/// Returns the connection.close that ends a connection without error.
#[must_use]
pub fn close_method() -> AMQPClass {
    AMQPClass::Connection(connection::AMQPMethod::Close(connection::Close {
        reply_code: 200,
        reply_text: "done".into(),
        class_id: 0,
        method_id: 0,
    }))
}

fn start_ok(broker: &Broker) -> AMQPClass {
    let mut capabilities = FieldTable::default();
    for name in [
        "authentication_failure_close",
        "publisher_confirms",
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
    ] {
        capabilities.insert(name.into(), AMQPValue::Boolean(true));
    }
    let text = |text: &str| AMQPValue::LongString(LongString::from(text));
    let mut properties = FieldTable::default();
    properties.insert("product".into(), text("drover"));
    properties.insert("version".into(), text(env!("CARGO_PKG_VERSION")));
    properties.insert("capabilities".into(), AMQPValue::FieldTable(capabilities));
    let user = &broker.uri.authority.userinfo;
    AMQPClass::Connection(connection::AMQPMethod::StartOk(connection::StartOk {
        client_properties: properties,
        mechanism: "PLAIN".into(),
        // RFC 4616.
        response: format!("\0{}\0{}", user.username, user.password).into(),
        locale: "en_US".into(),
    }))
}

fn unexpected(wanted: &str, came: &AMQPClass) -> SessionError {
    SessionError::Protocol(format!("expected {wanted}, got {}", name(came)))
}

/// Returns the name of a method, such as `queue.declare`, from its debug form.
fn name(method: &AMQPClass) -> String {
    let text = format!("{method:?}");
    let mut words = text
        .split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty());
    let (class, method) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    format!("{}.{}", class.to_lowercase(), method.to_lowercase())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::error::is_timeout;

    fn session(listener: &TcpListener) -> Session {
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        Session {
            stream: Socket::new(stream, None).unwrap(),
            input: Vec::new(),
            frame_max: FRAME_MAX,
            channel_max: 0,
            heartbeat: 0,
            reply_timeout: REPLY_TIMEOUT,
        }
    }

    #[test]
    fn an_answer_that_has_begun_is_not_waited_for_for_ever() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut session = session(&listener);
        let (mut broker, _) = listener.accept().unwrap();
        broker.write_all(&[1, 0]).unwrap();
        let given_up = session.frame_by(clock::now()).unwrap_err();
        assert!(
            matches!(&given_up, SessionError::Io(error) if is_timeout(error)),
            "{given_up}"
        );
    }

    #[test]
    fn frames_below_what_every_peer_takes_are_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let broker = Broker::parse("amqp://localhost").unwrap();
        for (offered, granted) in [(0, Some(FRAME_MAX)), (4096, Some(4096)), (10, None)] {
            let mut session = session(&listener);
            let offered = connection::Tune {
                channel_max: 0,
                frame_max: offered,
                heartbeat: 0,
            };
            let tuned = session.tune(&offered, &broker, None);
            let tuned = tuned.ok().map(|()| session.frame_max);
            assert_eq!(tuned, granted);
        }
    }
}
