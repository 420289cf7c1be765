//! A request and its response without a connection, which benches their cost.

use load::net::http1::{Answer, Reader, RequestInfo, ResponseError};
use load::plan::Invalid;
use traffic::{Names, Values};

use crate::requests::Requests;
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
