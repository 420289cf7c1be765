//! Counters of one turn of the loop. Counting by name costs more than adding, so names are looked up once per turn.

use load::recorder::Recorder;

use crate::outcome::count;
use crate::roles::checks::counters::CheckCounters;
use crate::roles::checks::{Captured, ResponseView};
use crate::roles::operation::Operation;
use crate::roles::redirect::RedirectTarget;
use crate::roles::redirect::table::RedirectTable;
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
}

/// The sums of one turn, and the checks of each response.
#[derive(Debug)]
pub(crate) struct BatchCounters<'a> {
    shared: &'a Shared,
    checks: Option<CheckCounters<'a>>,
    redirects: RedirectTable,
    counted: Sums,
    of_warmup: Sums,
    served: u64,
    compared: u64,
    expected_body_bytes: u64,
}

/// Sums for the operations that count, or for the warm-up's. The latter are part of the rates if they happen
/// within the measured time, and of no total.
#[derive(Debug, Default)]
struct Sums {
    ok: u64,
    answers: u64,
    bytes: u64,
    body_bytes: u64,
    bytes_sent: u64,
    redirects: u64,
}

impl Sums {
    fn counts(&self) -> [(&'static str, u64); 5] {
        [
            (count::ANSWERS, self.answers),
            (count::BYTES, self.bytes),
            (count::BODY_BYTES, self.body_bytes),
            (count::BYTES_SENT, self.bytes_sent),
            (count::REDIRECTS, self.redirects),
        ]
    }
}

impl<'a> BatchCounters<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            checks: CheckCounters::new(&shared.checks),
            redirects: RedirectTable::default(),
            counted: Sums::default(),
            of_warmup: Sums::default(),
            served: 0,
            compared: 0,
            expected_body_bytes: 0,
        }
    }

    fn sums(&mut self, counted: bool) -> &mut Sums {
        if counted {
            &mut self.counted
        } else {
            &mut self.of_warmup
        }
    }

    /// Counts received bytes, heads included, for operations that count or for the warm-up's.
    pub(crate) fn received(&mut self, bytes: u64, counted: bool) {
        self.sums(counted).bytes += bytes;
    }

    /// Counts sent bytes, in the same way.
    pub(crate) fn sent(&mut self, bytes: u64, counted: bool) {
        self.sums(counted).bytes_sent += bytes;
    }

    /// Returns the request of an operation that was redirected.
    pub(crate) fn hop(&self, operation: &Operation) -> Option<&RedirectTarget> {
        self.redirects.get(operation)
    }

    pub(crate) fn failed(&mut self, record: &Recorder, operation: &Operation, kind: &'static str) {
        self.redirects.forget(operation);
        if operation.counted {
            record.error(kind)
        } else {
            record.error_of_warmup()
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
        self.served += 1;
        let sums = self.sums(operation.counted);
        sums.answers += 1;
        sums.body_bytes += answered.body;
        let at = (answered.status, answered.index);
        let (shared, counted) = (self.shared, operation.counted);
        let kind = match self.redirects.follow(shared, operation, at, captured) {
            Ok(true) => {
                self.sums(counted).redirects += 1;
                if counted {
                    // No length is expected of a redirect, so its own is taken.
                    let is_expected = shared.expected_length().is_some();
                    self.expected_body_bytes += u64::from(is_expected) * answered.body;
                    self.phases(record, answered);
                }
                return false;
            }
            Ok(false) => shared.outcome(answered.status, answered.body, answered.sum),
            Err(error) => Some(error.kind()),
        };
        self.redirects.forget(operation);
        match (counted, kind) {
            (true, _) => self.ended(record, operation, answered, captured, kind),
            (false, None) => self.of_warmup.ok += 1,
            (false, Some(_)) => record.error_of_warmup(),
        }
        true
    }

    /// Records the response to an operation that counts.
    #[inline]
    fn ended(
        &mut self,
        record: &Recorder,
        operation: &Operation,
        answered: CompletedResponse,
        captured: Option<&Captured>,
        kind: Option<&'static str>,
    ) {
        self.expected_body_bytes += self.shared.expected_length().unwrap_or(0);
        self.compared += u64::from(answered.sum.is_some());
        let service_ns = answered.now - operation.sent;
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
        self.counted.ok += 1;
        record.value(RESPONSE, answered.now - operation.at);
        record.value(SERVICE, service_ns);
        self.phases(record, answered);
    }

    #[inline]
    fn phases(&self, record: &Recorder, answered: CompletedResponse) {
        if self.shared.settings.phases {
            let waiting = answered.first_byte.saturating_sub(answered.written);
            record.value(WAITING, waiting.max(1));
            record.value(RECEIVING, (answered.now - answered.first_byte).max(1));
        }
    }

    pub(crate) fn flush(&mut self, record: &Recorder) {
        let take = std::mem::take::<u64>;
        let of_counted = [
            (count::SERVED, take(&mut self.served)),
            (count::COMPARED, take(&mut self.compared)),
            (
                count::EXPECTED_BODY_BYTES,
                take(&mut self.expected_body_bytes),
            ),
        ];
        let counted = std::mem::take(&mut self.counted);
        record.ok_many(counted.ok);
        let counts = counted.counts().into_iter().chain(of_counted);
        for (name, number) in counts.filter(|(_, number)| *number > 0) {
            record.count(name, number);
        }
        let of_warmup = std::mem::take(&mut self.of_warmup);
        record.ok_of_warmup(of_warmup.ok);
        for (name, number) in of_warmup.counts() {
            record.count_of_warmup(name, number);
        }
        if let Some(checks) = &mut self.checks {
            checks.flush(record);
        }
    }
}
