//! The client before the run: it sends the request `setup`, and each request of the plan once, and takes values from the
//! answers as clients do in the run.

use std::time::SystemTime;

use anyhow::{Context as _, bail, ensure};
use load::plan::Invalid;
use load::schedule::Share;
use traffic::{RowReader, Values};

use crate::check::preflight;
use crate::check::sample::{Fetched, Sample};
use crate::content::Expected;
use crate::findings::ANY_LENGTH;
use crate::mix::MixRequest;
use crate::requests::Requests;
use crate::roles::checks::ResponseCapture;
use crate::roles::session::{SET_COOKIE, Session};
use crate::shared::Shared;

/// Maximum number of characters of a body in a message.
const QUOTED: usize = 200;

/// The client.
pub(crate) struct FirstClient<'a> {
    shared: &'a Shared,
    session: Session,
    rows: Option<RowReader>,
    /// The answers to the requests of the plan so far.
    answers: Vec<Option<Sample>>,
}

impl<'a> FirstClient<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        let rows = shared.mix.rows.as_ref();
        let mut rows = rows.map(|rows| (rows.reader(Share::ALL, &shared.columns), rows));
        if let Some((reader, rows)) = &mut rows {
            reader.advance(rows);
        }
        Self {
            session: Session::new(shared.mix.names.values.len()),
            rows: rows.map(|(reader, _)| reader),
            answers: vec![None; shared.mix.requests.len()],
            shared,
        }
    }

    /// Sends the request `setup` to the first server, and returns the values that it gives.
    ///
    /// # Errors
    /// No answer, an unexpected status, or an answer without a value.
    pub(crate) fn set_up(&mut self) -> Result<Vec<Option<Box<[u8]>>>, Invalid> {
        let shared = self.shared;
        if let (Some(setup), Some(requests)) = (&shared.mix.setup, &shared.setup_requests) {
            let answer = self.fetch(setup, requests, 0).and_then(|fetched| {
                fetched.sample.check(&setup.settings)?;
                self.learn(setup, &fetched)
            });
            answer.map_err(|error| Invalid::new("driver.setup", format!("{error:#}")))?;
        }
        Ok(std::mem::replace(
            &mut self.session,
            Session::new(shared.mix.names.values.len()),
        )
        .values)
    }

    /// Sends every request of the plan to every server once: the status must be expected, and all must respond alike.
    /// Returns the answer to the first request.
    ///
    /// # Errors
    /// A wrong answer.
    pub(crate) fn check(&mut self) -> anyhow::Result<Option<Sample>> {
        for request in 0..self.answers.len() {
            self.check_request(request as u16)?;
        }
        Ok(self.answers.first().cloned().flatten())
    }

    fn check_request(&mut self, number: u16) -> anyhow::Result<()> {
        let (shared, index) = (self.shared, usize::from(number));
        if self.answers[index].is_some() {
            return Ok(());
        }
        for value in shared.needs.of_request(number) {
            let giver = shared.needs.any_giver(*value);
            giver.map_or(Ok(()), |giver| self.check_request(giver))?;
        }
        let (request, content) = (&shared.mix.requests[index], &shared.contents[index]);
        let (mut first, mut are_alike) = (None::<Sample>, true);
        for server in 0..shared.servers.len() {
            let requests = &shared.requests_to(server)[index];
            let answer = self.fetch(request, requests, server).and_then(|fetched| {
                let sample = &fetched.sample;
                sample.check(&request.settings)?;
                if let Some(body) = content.body.get() {
                    sample.check_content(body)?;
                }
                // The content of a stream may differ.
                if let Some(first) = first.as_ref().filter(|_| !request.settings.events) {
                    are_alike &= self.compare(number, first, sample, server)?;
                }
                self.learn(request, &fetched)?;
                Ok(fetched.sample)
            });
            let answer = answer.map_err(|error| {
                Invalid::new(self.address(number, server), format!("{error:#}"))
            })?;
            first.get_or_insert(answer);
        }
        let first = first.context("there is no server")?;
        let _ = content.has_expected_length(first.length);
        if are_alike {
            self.learn_content(number, &first)?;
        }
        self.answers[index] = Some(first);
        Ok(())
    }

    /// Compares the answer of a server with the first one's. Other addresses of one URL may have other content, as one
    /// server may at another time; then returns false.
    fn compare(
        &self,
        number: u16,
        first: &Sample,
        sample: &Sample,
        server: usize,
    ) -> anyhow::Result<bool> {
        let [one, other] = [0, server].map(|server| &self.shared.servers[server].authority);
        let may_differ = !self.shared.contents[usize::from(number)].has_one_length();
        if one == other && first.status == sample.status {
            let (one, other) = (first.length, sample.length);
            ensure!(
                one == other || may_differ,
                "the same request returned {one} and {other} bytes from two addresses: {ANY_LENGTH}"
            );
            return Ok(first == sample);
        }
        first.compare(sample)?;
        Ok(true)
    }

    fn fetch(
        &self,
        request: &MixRequest,
        requests: &Requests,
        server: usize,
    ) -> anyhow::Result<Fetched> {
        let values = Values {
            number: 0,
            row: self.rows.as_ref(),
            own: &self.session.values,
            shared: self.shared.setup_values(),
        };
        preflight::fetch(
            &request.settings,
            &self.shared.servers[server],
            requests,
            &self.shared.mix.names,
            (values, &self.session.cookies),
        )
    }

    /// Takes values and cookies from an answer.
    fn learn(&mut self, request: &MixRequest, fetched: &Fetched) -> anyhow::Result<()> {
        let checks = &self.shared.checks;
        let mut captured = checks.new_capture();
        if let Some(captured) = &mut captured {
            let mut capture = ResponseCapture { checks, captured };
            for (name, value) in &fetched.fields {
                capture.field(name, value);
            }
            capture.piece(&fetched.body);
        }
        if let Some(fields) = checks.field(captured.as_deref(), SET_COOKIE)
            && self.shared.settings.cookies
        {
            self.session.cookies.keep(fields, SystemTime::now());
        }
        let learned = self.session.learn(request, checks, captured.as_deref());
        if let Err(capture) = learned {
            let body = String::from_utf8_lossy(&fetched.body);
            let begin: String = body.chars().take(QUOTED).collect();
            bail!(
                "the answer ({}) has no value for `{capture}`: correct the capture, or the request; its body begins with {begin:?}",
                fetched.sample.status
            );
        }
        Ok(())
    }

    /// Sends the request again: if both responses have the same body, all responses should have it.
    ///
    /// # Errors
    /// The second body has another length, so that most responses would fail.
    fn learn_content(&self, number: u16, first: &Sample) -> anyhow::Result<()> {
        let (shared, index) = (self.shared, usize::from(number));
        let (request, content) = (&shared.mix.requests[index], &shared.contents[index]);
        let settings = &request.settings;
        let fixed = content.has_one_length() && !settings.any_content && first.length > 0;
        if !fixed || shared.is_head(number) || content.body.get().is_some() {
            return Ok(());
        }
        // If the second request fails, the run itself will show it.
        let Ok(again) = self.fetch(request, &shared.requests_to(0)[index], 0) else {
            return Ok(());
        };
        let again = again.sample;
        if again.length != first.length && settings.expect_length.is_none() {
            let (one, other) = (first.length, again.length);
            let problem =
                format!("the same request returned {one} and {other} bytes: {ANY_LENGTH}");
            return Err(Invalid::new(self.address(number, 0), problem).into());
        }
        if again == *first {
            let _ = content.body.set(Expected::sampled(first.length, first.sum));
        }
        Ok(())
    }

    /// Names what is requested from a server, for messages.
    fn address(&self, number: u16, server: usize) -> String {
        let server = &self.shared.servers[server];
        let path = self.shared.settings_of(number).path_at(server);
        let planned = self.shared.settings.requests.get(usize::from(number));
        let name = planned.map_or_else(String::new, |planned| format!("{}: ", planned.name));
        format!("{name}{path} of {}", server.peer)
    }
}
