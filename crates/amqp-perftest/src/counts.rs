//! What a worker counted since it last said so.

use harness::recorder::Recorder;

use crate::outcome::count;

/// Counts by field: by name only once a turn, since a name costs as much as a message.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) published: u64,
    pub(crate) warmup: u64,
    /// Messages written, those of the warm-up too.
    pub(crate) written: u64,
    /// Messages that came, whatever they are.
    pub(crate) delivered: u64,
    pub(crate) confirmed: u64,
    pub(crate) consumed: u64,
    pub(crate) redelivered: u64,
    pub(crate) foreign: u64,
    /// Questions that found no message.
    pub(crate) empty: u64,
    /// Operations that began, and those that ended as they should.
    pub(crate) begun: u64,
    pub(crate) ok: u64,
    /// What became of messages of the warm-up: part of the rates, where it happens inside the measured time, and of no
    /// total.
    pub(crate) published_of_warmup: u64,
    pub(crate) confirmed_of_warmup: u64,
    pub(crate) consumed_of_warmup: u64,
    pub(crate) ok_of_warmup: u64,
}

impl Counts {
    /// Writes them down and begins anew.
    pub(crate) fn write(&mut self, record: &Recorder) {
        let counts = std::mem::take(self);
        for (name, number) in [
            (count::PUBLISHED, counts.published),
            (count::WARMUP, counts.warmup),
            (count::WRITTEN, counts.written),
            (count::DELIVERED, counts.delivered),
            (count::CONFIRMED, counts.confirmed),
            (count::CONSUMED, counts.consumed),
            (count::REDELIVERED, counts.redelivered),
            (count::FOREIGN, counts.foreign),
            (count::EMPTY_GETS, counts.empty),
        ] {
            if number > 0 {
                record.count(name, number);
            }
        }
        if counts.begun > 0 {
            record.begin_many(counts.begun);
        }
        record.ok_many(counts.ok);
        record.ok_of_warmup(counts.ok_of_warmup);
        record.count_of_warmup(count::PUBLISHED, counts.published_of_warmup);
        record.count_of_warmup(count::CONFIRMED, counts.confirmed_of_warmup);
        record.count_of_warmup(count::CONSUMED, counts.consumed_of_warmup);
    }
}
