//! Records responses: their outcomes, redirects and checks.

use load::recorder::Recorder;

use crate::events::StreamEnd;
use crate::outcome::count;
use crate::roles::checks::counters::CheckCounters;
use crate::roles::checks::{Captured, ResponseView};
use crate::roles::operation::Operation;
use crate::roles::redirect::RedirectTarget;
use crate::roles::redirect::table::RedirectTable;
use crate::roles::source::RequestSource;
use crate::shared::Shared;
use crate::spec::{RECEIVING, RESPONSE, SERVICE, WAITING};

#[derive(Debug, Clone, Copy)]
pub(crate) struct CompletedResponse {
    pub(crate) status: u16,
    /// The index of its connection.
    pub(crate) index: u32,
    pub(crate) body: u64,
    /// The checksum of its body, if it is compared.
    pub(crate) sum: Option<u32>,
    /// Time when its request was sent completely; set only if phases are measured.
    pub(crate) written: u64,
    /// Time of its first byte; set only if phases are measured.
    pub(crate) first_byte: u64,
    /// Time of its last byte.
    pub(crate) now: u64,
    /// The end of its event stream, if the plan wants streams.
    pub(crate) stream: Option<StreamEnd>,
}

/// The redirects and checks of the responses of one worker.
#[derive(Debug)]
pub(crate) struct ResponseCounters<'a> {
    shared: &'a Shared,
    checks: Option<CheckCounters<'a>>,
    redirects: RedirectTable,
}

impl<'a> ResponseCounters<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            checks: CheckCounters::new(&shared.checks),
            redirects: RedirectTable::default(),
        }
    }

    /// Returns the request of an operation that was redirected.
    pub(crate) fn hop(&self, operation: &Operation) -> Option<&RedirectTarget> {
        self.redirects.get(operation)
    }

    pub(crate) fn failed(&mut self, record: &Recorder, operation: &Operation, kind: &'static str) {
        self.redirects.forget(operation);
        self.shared.count_failure(record, operation);
        if operation.counted {
            record.error(kind)
        } else {
            record.error_of_warmup(kind)
        }
    }

    /// Records a response (ok, failed or redirected). Returns true if the operation is complete. `captured` is the kept
    /// part of the response, if any is needed.
    #[inline]
    pub(crate) fn answered(
        &mut self,
        record: &Recorder,
        operation: &mut Operation,
        answered: CompletedResponse,
        captured: Option<&Captured>,
        source: &mut RequestSource<'_>,
    ) -> bool {
        let at = (answered.status, answered.index);
        let (shared, counted) = (self.shared, operation.counted);
        record.count(count::SERVED, 1);
        record.count_of(counted, count::ANSWERS, 1);
        record.count_of(counted, count::BODY_BYTES, answered.body);
        source.keep_cookies(operation, answered.index, captured);
        let kind = match self.redirects.follow(shared, operation, at, captured) {
            Ok(true) => {
                record.count_of(counted, count::REDIRECTS, 1);
                if counted {
                    // No length is expected of a redirect, so its own is taken.
                    let expected = u64::from(shared.has_lengths) * answered.body;
                    record.add(count::EXPECTED_BODY_BYTES, expected);
                    self.phases(record, answered);
                }
                return false;
            }
            Ok(false) => shared.outcome(
                operation.request,
                answered.status,
                answered.body,
                answered.sum,
            ),
            Err(error) => Some(error.kind()),
        };
        let kind = kind.or_else(|| answered.stream?.fault);
        let kind = kind.or_else(|| source.learn(operation, answered.index, captured));
        self.redirects.forget(operation);
        if counted {
            self.ended(record, operation, answered, captured, kind);
        }
        let response = answered.now - operation.at;
        match kind {
            None => record.ok_meeting(
                counted,
                answered.stream.is_none_or(|stream| stream.meets),
                [
                    (RESPONSE, response),
                    (SERVICE, answered.now - operation.sent),
                ],
            ),
            Some(kind) if counted => record.error(kind),
            Some(kind) => record.error_of_warmup(kind),
        }
        if let Some(stream) = answered.stream.filter(|_| kind.is_none()) {
            stream.count(counted, record);
        }
        match shared.named(operation.request) {
            Some(named) if kind.is_none() && counted => record.value(named.series, response),
            Some(_) if kind.is_some() => shared.count_failure(record, operation),
            _ => {}
        }
        true
    }

    /// Records the response to an operation that counts, except for its outcome and its time.
    #[inline]
    fn ended(
        &mut self,
        record: &Recorder,
        operation: &Operation,
        answered: CompletedResponse,
        captured: Option<&Captured>,
        kind: Option<&'static str>,
    ) {
        // A request whose answers may have any length has its own, if others of the plan have one length.
        let own = u64::from(self.shared.has_lengths) * answered.body;
        let expected = self.shared.expected_length(operation.request);
        let expected = expected.unwrap_or(own);
        record.add(count::EXPECTED_BODY_BYTES, expected);
        record.add(count::COMPARED, u64::from(answered.sum.is_some()));
        if let Some(checks) = &mut self.checks {
            let complete = ResponseView {
                status: answered.status,
                length: answered.body,
                service_ns: answered.now - operation.sent,
                captured,
            };
            checks.record(record, complete, kind.is_none());
        }
        if kind.is_none() {
            self.phases(record, answered);
        }
    }

    #[inline]
    fn phases(&self, record: &Recorder, answered: CompletedResponse) {
        if self.shared.settings.phases {
            let waiting = answered.first_byte.saturating_sub(answered.written);
            record.value(WAITING, waiting.max(1));
            record.value(RECEIVING, (answered.now - answered.first_byte).max(1));
        }
    }

    /// Records the counts of checks, at the end of a turn.
    pub(crate) fn flush(&mut self, record: &Recorder) {
        if let Some(checks) = &mut self.checks {
            checks.flush(record);
        }
    }
}
