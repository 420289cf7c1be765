//! Requests and their responses without a socket, which benches their cost.

use load::net::http1::{Answer, Reader, RequestInfo, ResponseError};
use load::plan::Invalid;
use traffic::{Names, Values};

use crate::http2::{Connection, Event, Fault, OwnPart, RequestBlocks, Sink, Table};
use crate::requests::Requests;
use crate::roles::cookies::Cookies;
use crate::settings::Settings;
use crate::shared::parse_url;

/// The requests to one server, and the parser of its responses.
#[derive(Debug)]
pub struct Exchange {
    requests: Requests,
    room: Vec<u8>,
    reader: Reader,
}

impl Exchange {
    /// Builds the requests of some settings to the server that `url` names.
    ///
    /// # Errors
    /// An invalid URL or setting.
    pub fn new(settings: &Settings, url: &str) -> Result<Self, Invalid> {
        Ok(Self {
            requests: Requests::new(settings, &parse_url(url)?, &Names::default())?,
            room: Vec::new(),
            reader: Reader::new(),
        })
    }

    /// Returns the bytes of the request with this number.
    pub fn request(&mut self, number: u64) -> &[u8] {
        let values = Values::from_number(number);
        self.requests.bytes(values, None, &mut self.room)
    }

    /// Parses received bytes. Returns the response once it is complete.
    ///
    /// # Errors
    /// A malformed response.
    pub fn receive(&mut self, bytes: &[u8]) -> Result<Option<Answer>, ResponseError> {
        let asked = RequestInfo { head: false };
        Ok(self.reader.take(asked, bytes, &mut ())?.done)
    }
}

/// The requests over one connection of HTTP/2, one after the other.
#[derive(Debug)]
pub struct Http2Exchange {
    blocks: RequestBlocks,
    own: OwnPart,
    connection: Connection<()>,
}

/// Keeps nothing of a response.
struct Nothing;

impl Sink<()> for Nothing {}

impl Http2Exchange {
    /// Builds the requests of some settings to the server that `url` names.
    ///
    /// # Errors
    /// An invalid URL or setting.
    pub fn new(settings: &Settings, url: &str) -> Result<Self, Invalid> {
        Ok(Self {
            blocks: RequestBlocks::new(settings, &parse_url(url)?, &Names::default())?,
            own: OwnPart::default(),
            connection: Connection::new(Table::Empty),
        })
    }

    /// Writes the request with this number, and returns the number of bytes, which count as sent.
    pub fn request(&mut self, number: u64) -> usize {
        let values = Values::from_number(number);
        self.blocks
            .write(values, Cookies::NONE, None, &mut self.own);
        self.connection.open((), &self.blocks, &self.own);
        self.connection.upload();
        let length = self.connection.output().len();
        self.connection.advance(length);
        length
    }

    /// Parses received bytes. Returns the length of a body that is complete with them.
    ///
    /// # Errors
    /// The reason why the connection can't be used any more.
    pub fn receive(&mut self, mut bytes: &[u8]) -> Result<Option<u64>, String> {
        let mut body = None;
        while !bytes.is_empty() {
            let taken = self.connection.take(bytes, &mut Nothing);
            let (used, event) = taken.map_err(|fault: Fault| fault.to_string())?;
            bytes = &bytes[used..];
            if let Some(Event::Answered((), response)) = event {
                body = Some(response.body);
            }
        }
        Ok(body)
    }
}
