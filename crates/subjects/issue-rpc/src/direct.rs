//! Operations without a daemon.

use std::path::Path;
use std::time::Duration;

use issue_store::{Error, Options, Reader, Store, Timestamp, Writer};
use serde_json::value::RawValue;

use crate::answer::Answer;
use crate::client::{Call, ClientError, Deadline, Sent, understand};
use crate::code::Code;
use crate::execute;
use crate::operation::Operation;
use crate::request::{Request, WriteRequest};
use crate::version::VERSION;

/// A database that this process opens itself. It answers as a daemon does.
#[derive(Debug)]
pub struct Direct {
    store: Store,
    reader: Option<Reader>,
    writer: Option<Writer>,
}

impl Direct {
    /// Opens a database, and creates it if it is missing.
    ///
    /// # Errors
    /// The file cannot be opened, or is not a database of issues.
    pub fn open(path: &Path, options: Options) -> Result<Self, Error> {
        Ok(Self {
            store: Store::open(path, options)?,
            reader: None,
            writer: None,
        })
    }

    /// Performs a request. A write waits for other processes that write, until its deadline: it is answered `busy`
    /// then.
    pub fn call(&mut self, request: Request) -> Answer {
        let Request { header, operation } = request;
        match operation {
            Operation::Service(_) => {
                let problem = "no daemon runs: start one with `issue daemon start`, or do without this operation";
                Answer::failure(Code::UnknownOperation, problem)
            }
            Operation::Read(read) => match self.reader() {
                Ok(reader) => execute::read(reader, &read, false),
                Err(error) => error.into(),
            },
            Operation::Write(write) => self
                .write(&WriteRequest { header, write })
                .unwrap_or_else(Answer::from),
        }
    }

    /// Performs a request in the same way as [`Client::call`](crate::Client::call), from the text of the request to
    /// the text of the answer.
    ///
    /// # Errors
    /// The request was refused, or the database failed.
    pub fn perform(
        &mut self,
        call: &Call,
        actor: &str,
        timeout: Option<Duration>,
    ) -> Result<Box<RawValue>, ClientError> {
        const ID: u64 = 1;
        let line = Sent {
            call,
            request_id: ID,
            actor,
            client_version: VERSION,
            expected_db: None,
            deadline_ms: Deadline::after(timeout).unix_ms,
        }
        .line()?;
        let line = match Request::parse(&line) {
            Ok(request) => {
                let id = request.header.request_id.clone();
                self.call(request).line(id.as_ref())
            }
            Err(rejection) => rejection.answer.line(rejection.request_id.as_ref()),
        };
        understand(line.as_bytes(), ID)?.result()
    }

    fn write(&mut self, request: &WriteRequest) -> Result<Answer, Error> {
        if self.writer.is_none() {
            self.writer = Some(self.store.writer()?);
        }
        let writer = self.writer.as_mut().expect("it was opened above");
        let unix_ms = |time: Timestamp| (time.0 / 1_000) as u64;
        let late = "the deadline passed before the write began: nothing was stored";
        let asked = unix_ms(Timestamp::now());
        if request.header.is_expired(asked) {
            return Ok(Answer::failure(Code::Timeout, late));
        }
        let mut group = writer.begin_within(request.header.time_left(asked))?;
        let now = Timestamp::now();
        // The wait for the lock may have been long.
        if request.header.is_expired(unix_ms(now)) {
            return Ok(Answer::failure(Code::Timeout, late));
        }
        let answer = execute::write(&mut group, now, request)?;
        group.commit()?;
        writer.checkpoint_if_due()?;
        Ok(answer)
    }

    fn reader(&mut self) -> Result<&Reader, Error> {
        match &mut self.reader {
            Some(reader) => Ok(reader),
            none => Ok(none.insert(self.store.reader()?)),
        }
    }
}
