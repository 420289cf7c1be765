//! What happened in one turn of the loop: counting by name costs more than adding, so names are looked up once a turn.

use harness::recorder::Recorder;
use measure::audit::count as audit;

use crate::checks::Seen;
use crate::driver::HttpLoad;
use crate::judge::{Complete, Judge};
use crate::operation::Operation;
use crate::outcome::count;
use crate::redirect::{Hop, Hops};
use crate::series::{RECEIVING, RESPONSE, SERVICE, WAITING};

/// A whole answer, and when it came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    /// The place of its connection among all.
    pub(crate) place: u32,
    /// Bytes of its content.
    pub(crate) body: u64,
    /// Its checksum, where it is compared.
    pub(crate) sum: Option<u32>,
    /// Where phases are measured, when its request was sent whole.
    pub(crate) written: u64,
    /// Where phases are measured, when its first byte came.
    pub(crate) first_byte: u64,
    /// When its last byte came.
    pub(crate) now: u64,
}

/// What one turn adds up, and the checks that are asked of each answer.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    driver: &'a HttpLoad,
    judge: Option<Judge<'a>>,
    hops: Hops,
    sums: Sums,
}

#[derive(Debug, Default)]
struct Sums {
    started: u64,
    warmup: u64,
    ok: u64,
    answers: u64,
    served: u64,
    bytes: u64,
    body_bytes: u64,
    expected_body_bytes: u64,
    bytes_sent: u64,
    redirects: u64,
    compared: u64,
    of_warmup: OfWarmup,
}

/// What operations of the warm-up do: part of the rates, where it happens inside the measured time, and of no total.
#[derive(Debug, Default)]
struct OfWarmup {
    ok: u64,
    answers: u64,
    bytes: u64,
    body_bytes: u64,
    bytes_sent: u64,
    redirects: u64,
}

impl<'a> Turn<'a> {
    pub(crate) fn new(driver: &'a HttpLoad) -> Self {
        Self {
            driver,
            judge: Judge::new(&driver.checks),
            hops: Hops::default(),
            sums: Sums::default(),
        }
    }

    /// An operation begins.
    pub(crate) fn begin(&mut self, counted: bool) {
        match counted {
            true => self.sums.started += 1,
            false => self.sums.warmup += 1,
        }
    }

    /// So many bytes came for operations that count, or for those of the warm-up, heads included.
    pub(crate) fn received(&mut self, bytes: u64, counted: bool) {
        match counted {
            true => self.sums.bytes += bytes,
            false => self.sums.of_warmup.bytes += bytes,
        }
    }

    /// So many bytes were sent for them.
    pub(crate) fn sent(&mut self, bytes: u64, counted: bool) {
        match counted {
            true => self.sums.bytes_sent += bytes,
            false => self.sums.of_warmup.bytes_sent += bytes,
        }
    }

    /// What an operation asks, if it was led on by a redirect.
    pub(crate) fn hop(&self, operation: &Operation) -> Option<&Hop> {
        self.hops.of(operation)
    }

    /// An operation has failed.
    pub(crate) fn failed(&mut self, record: &Recorder, operation: &Operation, kind: &'static str) {
        self.hops.forget(operation);
        match operation.counted {
            true => record.error(kind),
            false => record.error_of_warmup(),
        }
    }

    /// An operation was answered: it is as it should be, or not, or led on. Whether it has ended with that. `seen` is what is
    /// kept of the answer, where that is asked for.
    #[inline]
    pub(crate) fn answered(
        &mut self,
        record: &Recorder,
        operation: &mut Operation,
        answered: Answered,
        seen: Option<&Seen>,
    ) -> bool {
        self.sums.served += 1;
        let (status, place) = (answered.status, answered.place);
        let kind = match self
            .hops
            .follow(self.driver, operation, (status, place), seen)
        {
            Ok(true) => {
                self.led_on(record, operation, answered);
                return false;
            }
            Ok(false) => self.driver.outcome(status, answered.body, answered.sum),
            Err(astray) => Some(astray.kind()),
        };
        self.hops.forget(operation);
        self.ended(record, operation, answered, seen, kind);
        true
    }

    /// The answer is a redirect that is followed: one that counts, with no length that it should have.
    fn led_on(&mut self, record: &Recorder, operation: &Operation, answered: Answered) {
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
        if self.driver.expected_length().is_some() {
            self.sums.expected_body_bytes += answered.body;
        }
        self.phases(record, answered);
    }

    #[inline]
    fn ended(
        &mut self,
        record: &Recorder,
        operation: &Operation,
        answered: Answered,
        seen: Option<&Seen>,
        kind: Option<&'static str>,
    ) {
        let driver = self.driver;
        if !operation.counted {
            return self.ended_of_warmup(record, answered, kind);
        }
        self.sums.answers += 1;
        self.sums.body_bytes += answered.body;
        self.sums.expected_body_bytes += driver.expected_length().unwrap_or(0);
        self.sums.compared += u64::from(answered.sum.is_some());
        let now = answered.now;
        let service_ns = now - operation.sent;
        if let Some(judge) = &mut self.judge {
            let complete = Complete {
                status: answered.status,
                length: answered.body,
                service_ns,
                seen,
            };
            judge.judge(complete, kind.is_none());
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
        answered: Answered,
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
    fn phases(&self, record: &Recorder, answered: Answered) {
        if self.driver.settings.phases {
            let waiting = answered.first_byte.saturating_sub(answered.written);
            record.value(WAITING, waiting.max(1));
            record.value(RECEIVING, (answered.now - answered.first_byte).max(1));
        }
    }

    /// Counts it all, and begins anew.
    pub(crate) fn hand_over(&mut self, record: &Recorder) {
        let sums = std::mem::take(&mut self.sums);
        let counts = [
            (count::WARMUP, sums.warmup),
            (count::ANSWERS, sums.answers),
            (count::SERVED, sums.served),
            (count::BYTES, sums.bytes),
            (count::BODY_BYTES, sums.body_bytes),
            (audit::EXPECTED_BODY_BYTES, sums.expected_body_bytes),
            (count::BYTES_SENT, sums.bytes_sent),
            (count::REDIRECTS, sums.redirects),
            (count::COMPARED, sums.compared),
        ];
        // What ended first: it was open when the turn began, and what is open at once must not seem to be more.
        record.ok_many(sums.ok);
        if sums.started > 0 {
            record.begin_many(sums.started);
        }
        for (name, number) in counts.into_iter().filter(|(_, number)| *number > 0) {
            record.count(name, number);
        }
        sums.of_warmup.hand_over(record);
        if let Some(judge) = &mut self.judge {
            judge.hand_over(record);
        }
    }
}

impl OfWarmup {
    fn hand_over(&self, record: &Recorder) {
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
