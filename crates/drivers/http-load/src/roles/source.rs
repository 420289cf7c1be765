//! The next request of an operation, as bytes or as the values in it: the one that both engines send.

use std::collections::HashMap;
use std::time::SystemTime;

use load::schedule::Share;
use traffic::{Replay, RowReader, Values};

use crate::outcome;
use crate::requests::Requests;
use crate::roles::checks::Captured;
use crate::roles::cookies::Cookies;
use crate::roles::operation::Operation;
use crate::roles::redirect::RedirectTarget;
use crate::roles::session::{SET_COOKIE, Session};
use crate::shared::Shared;

/// The requests of one worker, with its rows and the memory of its clients.
#[derive(Debug)]
pub(crate) struct RequestSource<'a> {
    shared: &'a Shared,
    rows: Option<RowReader>,
    /// By the client's group and the index of its connections. Only clients that keep something have one.
    sessions: HashMap<(u16, u32), Session>,
    /// Buffer for requests that differ between operations.
    room: Vec<u8>,
}

impl<'a> RequestSource<'a> {
    pub(crate) fn new(shared: &'a Shared, share: Share) -> Self {
        let rows = shared.mix.rows.as_ref();
        Self {
            shared,
            rows: rows.map(|rows| match shared.mix.replay {
                Some(_) => rows.reader(Share::ALL, &shared.columns),
                None => rows.reader(share, &shared.columns),
            }),
            sessions: HashMap::new(),
            room: Vec::new(),
        }
    }

    /// Chooses the request of an operation: by weight, and always the same for its number. If the client has no value yet
    /// that the request needs, it is the request that gives the value.
    #[inline]
    pub(crate) fn choose(&self, group: u16, number: u64, client: u32) -> u16 {
        if self.shared.is_single {
            return 0;
        }
        self.choose_one(group, number, client)
    }

    fn choose_one(&self, group: u16, number: u64, client: u32) -> u16 {
        let request = self.shared.mix.choices[usize::from(group)].pick(number) as u16;
        if self.shared.has_needs {
            self.first_needed(group, request, client)
        } else {
            request
        }
    }

    fn first_needed(&self, group: u16, request: u16, client: u32) -> u16 {
        let own = self.sessions.get(&(group, client));
        let is_missing = |value: &&usize| own.is_none_or(|own| own.values[**value].is_none());
        let needs = &self.shared.needs;
        let missing = needs.of_request(request).iter().find(is_missing);
        match missing.and_then(|value| needs.giver(group, *value)) {
            // The plan has no circles.
            Some(giver) => self.first_needed(group, giver, client),
            None => request,
        }
    }

    /// Returns the bytes of an operation's next request over the connection with this index. Bytes that differ between
    /// operations are written again by each call, with the next row: who sends only a part of them keeps the rest.
    #[inline]
    pub(crate) fn bytes(
        &mut self,
        operation: &Operation,
        index: u32,
        hop: Option<&RedirectTarget>,
    ) -> RequestBytes<'_> {
        let requests = self.shared.requests_of(operation.request, index);
        match (hop, requests.fixed(operation.index)) {
            (None, Some(fixed)) if !self.shared.settings.cookies => RequestBytes::Fixed(fixed),
            _ => RequestBytes::Written(self.write(requests, (operation, index), hop)),
        }
    }

    fn write(
        &mut self,
        requests: &'a Requests,
        (operation, index): (&Operation, u32),
        hop: Option<&RedirectTarget>,
    ) -> &[u8] {
        // After a redirect it is the same row.
        if hop.is_none() {
            self.advance(requests, operation);
        }
        let session = self.sessions.get(&(operation.group, index));
        let values = values(self.shared, self.rows.as_ref(), session, operation);
        self.room.clear();
        requests.render(values, cookies(session), hop, &mut self.room);
        &self.room
    }

    /// Returns the values of an operation's request, with the next row unless it `is_redirected`, and the client's cookies.
    pub(crate) fn values(
        &mut self,
        operation: &Operation,
        index: u32,
        is_redirected: bool,
    ) -> (Values<'_>, &Cookies) {
        if !is_redirected {
            let requests = self.shared.requests_of(operation.request, index);
            self.advance(requests, operation);
        }
        let session = self.sessions.get(&(operation.group, index));
        let values = values(self.shared, self.rows.as_ref(), session, operation);
        (values, cookies(session))
    }

    /// Takes the values from a successful answer. Returns the kind of failure if there is none for a capture.
    #[inline]
    pub(crate) fn learn(
        &mut self,
        operation: &Operation,
        client: u32,
        captured: Option<&Captured>,
    ) -> Option<&'static str> {
        if self.shared.is_single {
            return None;
        }
        let request = &self.shared.mix.requests[usize::from(operation.request)];
        if request.captures.is_empty() && request.sent.is_none() {
            return None;
        }
        let checks = &self.shared.checks;
        let learned = self
            .session((operation.group, client))
            .learn(request, checks, captured);
        learned.err().map(|_| outcome::CAPTURE)
    }

    /// Keeps the cookies of an answer, if the plan wants it.
    #[inline]
    pub(crate) fn keep_cookies(
        &mut self,
        operation: &Operation,
        client: u32,
        captured: Option<&Captured>,
    ) {
        if self.shared.settings.cookies
            && let Some(fields) = self.shared.checks.field(captured, SET_COOKIE)
        {
            self.session((operation.group, client))
                .cookies
                .keep(fields, SystemTime::now());
        }
    }

    fn session(&mut self, client: (u16, u32)) -> &mut Session {
        let names = self.shared.mix.names.values.len();
        let session = self.sessions.entry(client);
        session.or_insert_with(|| Session::new(names))
    }

    /// Reads the row of an operation: the next one, or of a log the one with the operation's number.
    fn advance(&mut self, requests: &Requests, operation: &Operation) {
        let mix = &self.shared.mix;
        if let (Some(reader), Some(rows), true) = (&mut self.rows, &mix.rows, requests.use_rows) {
            match mix.replay {
                Some(_) => reader.go_to(rows, operation.index),
                None => reader.advance(rows),
            }
        }
    }

    /// Fails once rows can't be read any more.
    ///
    /// # Errors
    /// The reason.
    pub(crate) fn check(&mut self) -> anyhow::Result<()> {
        let failure = self.rows.as_mut().and_then(RowReader::take_failure);
        let replay = self.shared.mix.replay.as_ref();
        let failure = failure.or_else(|| replay.and_then(Replay::failure).cloned());
        failure.map_or(Ok(()), |problem| Err(anyhow::anyhow!(problem)))
    }
}

fn values<'v>(
    shared: &'v Shared,
    row: Option<&'v RowReader>,
    session: Option<&'v Session>,
    operation: &Operation,
) -> Values<'v> {
    Values {
        number: operation.index,
        row,
        own: session.map_or(&[], |session| &session.values),
        shared: shared.setup_values(),
    }
}

fn cookies(session: Option<&Session>) -> &Cookies {
    session.map_or(Cookies::NONE, |session| &session.cookies)
}

/// The bytes of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RequestBytes<'a> {
    /// The same for every operation.
    Fixed(&'a [u8]),
    /// Written for this operation, and lost with the next one.
    Written(&'a [u8]),
}
