//! Counters of one turn of the loop. Counting by name costs more than adding, so names are looked up once per turn.

use load::recorder::Recorder;

use crate::check_counters::CheckCounters;
use crate::checks::{Captured, ResponseView};
use crate::operation::Operation;
use crate::outcome::count;
use crate::redirect::RedirectTarget;
use crate::redirect_table::RedirectTable;
use crate::series::{RECEIVING, RESPONSE, SERVICE, WAITING};
use crate::shared::Shared;

/// A complete response, with its times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompletedResponse {
    pub(crate) status: u16,
    /// The index of its connection.
    pub(crate) index: u32,
    /// Length of its body in bytes.
    pub(crate) body: u64,
    /// The checksum of its body, if it is compared.
    pub(crate) sum: Option<u32>,
    /// Time when its request was sent completely; set only if phases are measured.
    pub(crate) written: u64,
    /// Time of its first byte; set only if phases are measured.
    pub(crate) first_byte: u64,
    /// Time of its last byte.
    pub(crate) now: u64,
}

/// The sums of one turn, and the checks of each response.
#[derive(Debug)]
pub(crate) struct BatchCounters<'a> {
    shared: &'a Shared,
    checks: Option<CheckCounters<'a>>,
    redirects: RedirectTable,
    sums: Sums,
}

#[derive(Debug, Default)]
struct Sums {
    ok: u64,
    answers: u64,
    served: u64,
    bytes: u64,
    body_bytes: u64,
    expected_body_bytes: u64,
    bytes_sent: u64,
    redirects: u64,
    compared: u64,
    of_warmup: WarmupSums,
}

/// Counts of warm-up operations. They are part of the rates if they happen within the measured time, and of no total.
#[derive(Debug, Default)]
struct WarmupSums {
    ok: u64,
    answers: u64,
    bytes: u64,
    body_bytes: u64,
    bytes_sent: u64,
    redirects: u64,
}

impl<'a> BatchCounters<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            checks: CheckCounters::new(&shared.checks),
            redirects: RedirectTable::default(),
            sums: Sums::default(),
        }
    }

    /// Counts received bytes, heads included, for operations that count or for those of the warm-up.
    pub(crate) fn received(&mut self, bytes: u64, counted: bool) {
        match counted {
            true => self.sums.bytes += bytes,
            false => self.sums.of_warmup.bytes += bytes,
        }
    }

    /// Counts sent bytes, in the same way.
    pub(crate) fn sent(&mut self, bytes: u64, counted: bool) {
        match counted {
            true => self.sums.bytes_sent += bytes,
            false => self.sums.of_warmup.bytes_sent += bytes,
        }
    }

    /// Returns the request of an operation that was redirected.
    pub(crate) fn hop(&self, operation: &Operation) -> Option<&RedirectTarget> {
        self.redirects.get(operation)
    }

    /// Records a failed operation.
    pub(crate) fn failed(&mut self, record: &Recorder, operation: &Operation, kind: &'static str) {
        self.redirects.forget(operation);
        match operation.counted {
            true => record.error(kind),
            false => record.error_of_warmup(),
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
    ) -> bool {
        self.sums.served += 1;
        let (status, index) = (answered.status, answered.index);
        let kind = match self
            .redirects
            .follow(self.shared, operation, (status, index), captured)
        {
            Ok(true) => {
                self.on_redirect(record, operation, answered);
                return false;
            }
            Ok(false) => self.shared.outcome(status, answered.body, answered.sum),
            Err(astray) => Some(astray.kind()),
        };
        self.redirects.forget(operation);
        self.ended(record, operation, answered, captured, kind);
        true
    }

    /// Records a redirect that is followed: a response that counts, with no expected length.
    fn on_redirect(
        &mut self,
        record: &Recorder,
        operation: &Operation,
        answered: CompletedResponse,
    ) {
        if !operation.counted {
            let sums = &mut self.sums.of_warmup;
            sums.redirects += 1;
            sums.answers += 1;
            sums.body_bytes += answered.body;
            return;
        }
        self.sums.redirects += 1;
        self.sums.answers += 1;
        self.sums.body_bytes += answered.body;
        if self.shared.expected_length().is_some() {
            self.sums.expected_body_bytes += answered.body;
        }
        self.phases(record, answered);
    }

    #[inline]
    fn ended(
        &mut self,
        record: &Recorder,
        operation: &Operation,
        answered: CompletedResponse,
        captured: Option<&Captured>,
        kind: Option<&'static str>,
    ) {
        let shared = self.shared;
        if !operation.counted {
            return self.ended_of_warmup(record, answered, kind);
        }
        self.sums.answers += 1;
        self.sums.body_bytes += answered.body;
        self.sums.expected_body_bytes += shared.expected_length().unwrap_or(0);
        self.sums.compared += u64::from(answered.sum.is_some());
        let now = answered.now;
        let service_ns = now - operation.sent;
        if let Some(checks) = &mut self.checks {
            let complete = ResponseView {
                status: answered.status,
                length: answered.body,
                service_ns,
                captured,
            };
            checks.record(complete, kind.is_none());
        }
        if let Some(kind) = kind {
            return record.error(kind);
        }
        self.sums.ok += 1;
        record.value(RESPONSE, now - operation.at);
        record.value(SERVICE, service_ns);
        self.phases(record, answered);
    }

    fn ended_of_warmup(
        &mut self,
        record: &Recorder,
        answered: CompletedResponse,
        kind: Option<&'static str>,
    ) {
        let sums = &mut self.sums.of_warmup;
        sums.answers += 1;
        sums.body_bytes += answered.body;
        match kind {
            None => sums.ok += 1,
            Some(_) => record.error_of_warmup(),
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

    /// Records the sums and resets them.
    pub(crate) fn flush(&mut self, record: &Recorder) {
        let sums = std::mem::take(&mut self.sums);
        let counts = [
            (count::ANSWERS, sums.answers),
            (count::SERVED, sums.served),
            (count::BYTES, sums.bytes),
            (count::BODY_BYTES, sums.body_bytes),
            (count::EXPECTED_BODY_BYTES, sums.expected_body_bytes),
            (count::BYTES_SENT, sums.bytes_sent),
            (count::REDIRECTS, sums.redirects),
            (count::COMPARED, sums.compared),
        ];
        record.ok_many(sums.ok);
        for (name, number) in counts.into_iter().filter(|(_, number)| *number > 0) {
            record.count(name, number);
        }
        sums.of_warmup.flush(record);
        if let Some(checks) = &mut self.checks {
            checks.flush(record);
        }
    }
}

impl WarmupSums {
    fn flush(&self, record: &Recorder) {
        record.ok_of_warmup(self.ok);
        for (name, number) in [
            (count::ANSWERS, self.answers),
            (count::BYTES, self.bytes),
            (count::BODY_BYTES, self.body_bytes),
            (count::BYTES_SENT, self.bytes_sent),
            (count::REDIRECTS, self.redirects),
        ] {
            record.count_of_warmup(name, number);
        }
    }
}
