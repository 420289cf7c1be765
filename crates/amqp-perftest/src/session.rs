//! A connection before and beside the load: made, negotiated, asked and answered, one method at a time.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use amq_protocol::frame::AMQPFrame;
use amq_protocol::protocol::{AMQPClass, channel, connection};
use amq_protocol::types::{AMQPValue, FieldTable, LongString};
use amq_protocol::uri::{AMQPScheme, AMQPUri};
use harness::clock;
use harness::plan::Invalid;
use measure::redact;
use nix::errno::Errno;

use crate::outcome;
use crate::settings::Settings;
use crate::socket::Socket;
use crate::tls::Tls;

mod frame;

pub(crate) use frame::{encode, whole_frame};

/// How long a broker may take for one answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The frame size asked for where the broker names no limit: 0 would mean none at all.
pub(crate) const FRAME_MAX: u32 = 131_072;
/// The smallest that any peer may ask for (AMQP 0-9-1, connection.tune).
const FRAME_MIN: u32 = 4096;
const PREFETCH_ROOM: usize = 64 << 10;

/// Where a broker is and who asks.
#[derive(Debug, Clone)]
pub(crate) struct Broker {
    pub(crate) uri: AMQPUri,
    /// As it was typed.
    pub(crate) text: String,
    /// With `amqps`.
    tls: Option<Tls>,
}

/// Why there is no connection, or no longer one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the broker closed the connection without a word {0}")]
    Silent(&'static str),
    #[error("the broker answered {code} {text}")]
    Closed { code: u16, text: String },
    #[error("the broker answered {code} {text} to {what}")]
    Channel {
        code: u16,
        text: String,
        what: String,
    },
    #[error("{0}")]
    Protocol(String),
}

impl SessionError {
    /// The kind of an attempt that failed since this process has no descriptor or port left.
    pub(crate) fn exhausted(&self) -> Option<&'static str> {
        let Self::Io(error) = self else {
            return None;
        };
        match Errno::from_raw(error.raw_os_error()?) {
            Errno::EMFILE | Errno::ENFILE => Some(outcome::DESCRIPTORS),
            Errno::EADDRNOTAVAIL => Some(outcome::PORTS),
            _ => None,
        }
    }

    /// The reply code, where the broker gave one (AMQP 0-9-1, 1.1 and RabbitMQ's).
    pub(crate) fn code(&self) -> Option<u16> {
        match self {
            Self::Closed { code, .. } | Self::Channel { code, .. } => Some(*code),
            _ => None,
        }
    }
}

impl Broker {
    /// Reads a URI: `amqp://user:password@host:port/vhost?heartbeat=10`.
    ///
    /// # Errors
    /// What is wrong with it, and the remedy.
    pub(crate) fn parse(text: &str) -> Result<Self, Invalid> {
        Self::read(text, None)
    }

    /// The same for a run with these settings, which may be `amqps`.
    ///
    /// # Errors
    /// What is wrong with it or with how TLS is to be spoken, and the remedy.
    pub(crate) fn of_run(text: &str, settings: &Settings) -> Result<Self, Invalid> {
        let broker = Self::read(text, Some(settings))?;
        let asked = settings.tls_insecure || settings.tls_ca.is_some();
        if asked && broker.tls.is_none() {
            let problem = format!(
                "{} is without TLS: write amqps://, or leave it out",
                redact::uri(text)
            );
            return Err(Invalid::new(
                "driver.tls_ca (--tls-ca, --tls-insecure)",
                problem,
            ));
        }
        Ok(broker)
    }

    fn read(text: &str, settings: Option<&Settings>) -> Result<Self, Invalid> {
        let field = || format!("--uri {}", redact::uri(text));
        let mut uri: AMQPUri = text.parse().map_err(|problem: String| {
            // It may say again what was typed.
            let problem = problem.replace(text, &redact::uri(text));
            let remedy = "write it as amqp://localhost:5672/, with user:password@ before the host, and %2f for a / in the vhost";
            Invalid::new(field(), format!("{problem}: {remedy}"))
        })?;
        let is_tls = uri.scheme == AMQPScheme::AMQPS;
        let tls = match settings {
            Some(settings) if is_tls => Some(Tls::new(&uri.authority.host, settings)?),
            None if is_tls => {
                let problem = "TLS is spoken by runs alone, and not by this command: use amqp://";
                return Err(Invalid::new(field(), problem));
            }
            _ => None,
        };
        if uri.vhost.is_empty() {
            uri.vhost = "/".to_owned();
        }
        if uri.vhost.len() > 255 {
            return Err(Invalid::new(field(), "its vhost is longer than 255 bytes"));
        }
        Ok(Self {
            uri,
            text: text.to_owned(),
            tls,
        })
    }

    /// What a person can do about a failed connection or call.
    pub(crate) fn explain(&self, error: &SessionError) -> Invalid {
        let remedy = match (error, error.code()) {
            (SessionError::Io(io), _) if io.kind() == io::ErrorKind::ConnectionRefused => {
                "nobody listens there: start the broker, or leave --uri out to have one launched"
            }
            (SessionError::Io(io), _) if of_tls(io).is_some() => match of_tls(io) {
                Some(rustls::Error::InvalidCertificate(_)) => {
                    "name the file of whoever signed its certificate (--tls-ca), or take any (--tls-insecure)"
                }
                _ => "does it speak TLS there? Its port is often 5671; without TLS write amqp://",
            },
            (SessionError::Io(io), _) if is_timeout(io) => {
                "it does not answer: is it an AMQP broker, and not stuck?"
            }
            (SessionError::Silent(""), _) => {
                "does it end just now, or has too many connections? Its log may say more"
            }
            (SessionError::Silent(_), _) | (_, Some(403)) => {
                "are user and password right, and may the user do this?"
            }
            (_, Some(530)) => "is there such a vhost, and may the user enter it?",
            (_, Some(404)) => "declare it first, or leave predeclared out to have it declared",
            // Of what is there it says "inequivalent arg", of what it can't make "invalid arg" or the like.
            (error, Some(406)) if !error.to_string().contains("inequivalent") => {
                "it takes nothing of this kind: see --queue-args, --type and the type of the queue"
            }
            (_, Some(406)) => {
                "it exists with other properties: name another one (--queue), delete it, or take it as it is with predeclared"
            }
            (_, Some(405)) => "another connection has it to itself: name another one (--queue)",
            (_, Some(503)) => "it does not know what was asked for: see --type",
            (_, Some(_)) => "its log may say more",
            _ => "is it an AMQP 0-9-1 broker?",
        };
        let field = format!("--uri {}", redact::uri(&self.text));
        Invalid::new(field, format!("{error}: {remedy}"))
    }
}

/// A connection that waits for each answer.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) stream: Socket,
    /// What was read and not yet looked at.
    pub(crate) input: Vec<u8>,
    pub(crate) frame_max: u32,
    /// Most channels; 0 for no limit.
    pub(crate) channel_max: u16,
    /// Seconds between two heartbeats; 0 for none.
    pub(crate) heartbeat: u16,
    /// How long the broker may take for one answer.
    patience: Duration,
}

impl Session {
    /// Connects and negotiates. `heartbeat` in place of what URI and broker say, in seconds.
    pub(crate) fn open(broker: &Broker, heartbeat: Option<u16>) -> Result<Self, SessionError> {
        Self::open_within(broker, heartbeat, PATIENCE)
    }

    /// The same, where the broker may take no longer than that for each answer.
    pub(crate) fn open_within(
        broker: &Broker,
        heartbeat: Option<u16>,
        patience: Duration,
    ) -> Result<Self, SessionError> {
        let authority = &broker.uri.authority;
        let stream = connect(&authority.host, authority.port, patience)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let mut session = Self {
            stream: Socket::new(stream, broker.tls.as_ref())?,
            input: Vec::with_capacity(PREFETCH_ROOM),
            frame_max: FRAME_MAX,
            channel_max: 0,
            heartbeat: 0,
            patience,
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
            // Without the capability authentication_failure_close this is how a broker refuses.
            Err(SessionError::Silent(_)) => return Err(SessionError::Silent("on the credentials")),
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
        // 0 stands for no limit on either side.
        let least = |mine: u32, theirs: u32| match (mine, theirs) {
            (0, other) | (other, 0) => other,
            (mine, theirs) => mine.min(theirs),
        };
        let query = &broker.uri.query;
        let wanted = query.frame_max.unwrap_or(FRAME_MAX).max(FRAME_MIN);
        self.frame_max = least(wanted, offered.frame_max);
        if self.frame_max < FRAME_MIN {
            return Err(SessionError::Protocol(format!(
                "the broker offers frames of {} bytes at most, below the {FRAME_MIN} of AMQP 0-9-1",
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

    /// Says that we are there (AMQP 0-9-1, 4.2.7).
    pub(crate) fn beat(&mut self) -> Result<(), SessionError> {
        Ok(self.stream.write_all(&encode(&AMQPFrame::Heartbeat))?)
    }

    /// Opens a channel.
    pub(crate) fn open_channel(&mut self, number: u16) -> Result<(), SessionError> {
        let open = AMQPClass::Channel(channel::AMQPMethod::Open(channel::Open {}));
        match self.call(number, open)? {
            AMQPClass::Channel(channel::AMQPMethod::OpenOk(_)) => Ok(()),
            other => Err(unexpected("channel.open-ok", &other)),
        }
    }

    /// Sends a method and waits for the next one on its channel.
    pub(crate) fn call(
        &mut self,
        channel: u16,
        method: AMQPClass,
    ) -> Result<AMQPClass, SessionError> {
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
    pub(crate) fn send(&mut self, channel: u16, method: AMQPClass) -> Result<(), SessionError> {
        Ok(self
            .stream
            .write_all(&encode(&AMQPFrame::Method(channel, method)))?)
    }

    /// The next method on a channel.
    pub(crate) fn receive(&mut self, channel: u16) -> Result<AMQPClass, SessionError> {
        let until = self.by();
        loop {
            match self.frame_by(until)? {
                AMQPFrame::Method(
                    0,
                    AMQPClass::Connection(connection::AMQPMethod::Close(close)),
                ) => {
                    let ok = connection::AMQPMethod::CloseOk(connection::CloseOk {});
                    // It closes whatever we say.
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

    /// The next frame, whatever it is.
    pub(crate) fn frame(&mut self) -> Result<AMQPFrame, SessionError> {
        self.frame_by(self.by())
    }

    /// A broker that sends a little now and then must not hold us up for ever, so that each answer has an end, and not
    /// each read alone.
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

    /// Until when the next answer may take.
    fn by(&self) -> u64 {
        clock::now() + self.patience.as_nanos() as u64
    }

    /// Says goodbye, as far as the broker listens, and waits for no answer: all that matters was answered.
    pub(crate) fn close(mut self) {
        // It may be gone already, and then there is nobody to say goodbye to.
        let _ = self.send(0, goodbye());
        let _ = self.stream.tcp().shutdown(Shutdown::Write);
    }

    /// Closes the connection and waits for the answer.
    pub(crate) fn end(mut self) -> Result<(), SessionError> {
        self.call(0, goodbye()).map(drop)
    }
}

/// `connection.close` of one who is done.
pub(crate) fn goodbye() -> AMQPClass {
    AMQPClass::Connection(connection::AMQPMethod::Close(connection::Close {
        reply_code: 200,
        reply_text: "done".into(),
        class_id: 0,
        method_id: 0,
    }))
}

/// What TLS says, where it is that.
fn of_tls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
    )
}

/// Tries all addresses of a name, each for as long as a broker may take.
fn connect(host: &str, port: u16, patience: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
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
    properties.insert("product".into(), text("amqp-perftest"));
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
    SessionError::Protocol(format!("{} came where {wanted} was expected", name(came)))
}

/// A method as a person reads it: what its debug form begins with.
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
    use std::net::TcpListener;

    use super::*;

    fn session(listener: &TcpListener) -> Session {
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        Session {
            stream: Socket::new(stream, None).unwrap(),
            input: Vec::new(),
            frame_max: FRAME_MAX,
            channel_max: 0,
            heartbeat: 0,
            patience: PATIENCE,
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
