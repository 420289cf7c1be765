//! A connection before and beside the load: made, negotiated, asked and answered, one method at a time.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use amq_protocol::frame::{AMQPFrame, gen_frame, parse_frame};
use amq_protocol::protocol::{AMQPClass, channel, connection};
use amq_protocol::types::{AMQPValue, FieldTable, LongString};
use amq_protocol::uri::{AMQPScheme, AMQPUri};
use harness::plan::Invalid;

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
        let field = || format!("--uri {text}");
        let mut uri: AMQPUri = text.parse().map_err(|problem| {
            let problem =
                format!("{problem}: write it as amqp://guest:guest@localhost:5672/, with %2f for a / in the vhost");
            Invalid::new(field(), problem)
        })?;
        if uri.scheme == AMQPScheme::AMQPS {
            let problem = "TLS is spoken by neither engine: use amqp://, or have a proxy such as stunnel speak it";
            return Err(Invalid::new(field(), problem));
        }
        if uri.vhost.is_empty() {
            uri.vhost = "/".to_owned();
        }
        if uri.vhost.len() > 255 {
            return Err(Invalid::new(field(), "its vhost is longer than 255 bytes"));
        }
        Ok(Self {
            uri,
            text: text.to_owned(),
        })
    }

    /// What a person can do about a failed connection or call.
    pub(crate) fn explain(&self, error: &SessionError) -> Invalid {
        let remedy = match (error, error.code()) {
            (SessionError::Io(io), _) if io.kind() == io::ErrorKind::ConnectionRefused => {
                "nobody listens there: start the broker, or leave --uri out to have one launched"
            }
            (SessionError::Io(io), _) if is_timeout(io) => {
                "it does not answer: is it an AMQP broker, and not stuck?"
            }
            (SessionError::Silent(_), _) | (_, Some(403)) => {
                "are user and password right, and may the user do this?"
            }
            (_, Some(530)) => "is there such a vhost, and may the user enter it?",
            (_, Some(404)) => "declare it first, or leave predeclared out to have it declared",
            (_, Some(406)) => {
                "it exists with other properties: name another one (--queue), delete it, or take it as it is with predeclared"
            }
            (_, Some(405)) => "another connection has it to itself: name another one (--queue)",
            (_, Some(503)) => "it does not know what was asked for: see --type",
            (_, Some(_)) => "its log may say more",
            _ => "is it an AMQP 0-9-1 broker?",
        };
        Invalid::new(format!("--uri {}", self.text), format!("{error}: {remedy}"))
    }
}

/// A connection that waits for each answer.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) stream: TcpStream,
    /// What was read and not yet looked at.
    pub(crate) input: Vec<u8>,
    pub(crate) frame_max: u32,
    /// Most channels; 0 for no limit.
    pub(crate) channel_max: u16,
    /// Seconds between two heartbeats; 0 for none.
    pub(crate) heartbeat: u16,
}

impl Session {
    /// Connects and negotiates. `heartbeat` in place of what URI and broker say, in seconds.
    pub(crate) fn open(broker: &Broker, heartbeat: Option<u16>) -> Result<Self, SessionError> {
        let authority = &broker.uri.authority;
        let stream = connect(&authority.host, authority.port)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut session = Self {
            stream,
            input: Vec::with_capacity(PREFETCH_ROOM),
            frame_max: FRAME_MAX,
            channel_max: 0,
            heartbeat: 0,
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
        loop {
            match self.frame()? {
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
        loop {
            if let Some((octets, frame)) =
                whole_frame(&self.input).map_err(SessionError::Protocol)?
            {
                self.input.drain(..octets);
                return Ok(frame);
            }
            let mut piece = [0; 16 << 10];
            match self.stream.read(&mut piece)? {
                0 => return Err(SessionError::Silent("")),
                octets => self.input.extend_from_slice(&piece[..octets]),
            }
        }
    }

    /// Says goodbye, as far as the broker listens.
    pub(crate) fn close(mut self) {
        let close = connection::Close {
            reply_code: 200,
            reply_text: "done".into(),
            class_id: 0,
            method_id: 0,
        };
        // It may be gone already, and then there is nobody to say goodbye to.
        let _ = self.call(
            0,
            AMQPClass::Connection(connection::AMQPMethod::Close(close)),
        );
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
    )
}

/// Tries all addresses of a name, each for as long as a broker may take.
fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
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

/// The octets of a frame.
pub(crate) fn encode(frame: &AMQPFrame) -> Vec<u8> {
    gen_frame(frame)(Vec::new().into())
        .expect("memory takes any frame")
        .into_inner()
        .0
}

/// The first frame of these octets and its length, once it is there whole.
pub(crate) fn whole_frame(octets: &[u8]) -> Result<Option<(usize, AMQPFrame)>, String> {
    if octets.starts_with(b"AMQP") {
        return Err("the broker speaks another version of AMQP than 0-9-1".to_owned());
    }
    let Some(size) = octets.get(3..7) else {
        return Ok(None);
    };
    let whole = u32::from_be_bytes([size[0], size[1], size[2], size[3]]) as usize + 8;
    if !matches!(octets[0], 1..=3 | 8) || whole > 64 << 20 {
        return Err("what was received is no frame of AMQP 0-9-1".to_owned());
    }
    if octets.len() < whole {
        return Ok(None);
    }
    parse_frame(&octets[..whole])
        .map(|(_, frame)| Some((whole, frame)))
        .map_err(|error| format!("a frame that can't be read: {error}"))
}
