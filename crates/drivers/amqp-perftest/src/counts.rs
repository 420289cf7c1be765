//! Counters of a worker since it last recorded them.

use load::recorder::Recorder;

use crate::outcome::count;

/// Counts by field. They are recorded by name only once per loop iteration, because a lookup by name costs as much as a
/// message.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) published: u64,
    pub(crate) warmup: u64,
    /// Messages written, including the warm-up's.
    pub(crate) written: u64,
    /// Messages received, of any kind.
    pub(crate) delivered: u64,
    pub(crate) confirmed: u64,
    pub(crate) consumed: u64,
    pub(crate) redelivered: u64,
    pub(crate) foreign: u64,
    /// `basic.get` requests that found no message.
    pub(crate) empty: u64,
    /// Operations started, and operations that ended successfully.
    pub(crate) begun: u64,
    pub(crate) ok: u64,
    /// Results for messages of the warm-up. They count for the rates if they fall into the measured time, and for no
    /// total.
    pub(crate) published_of_warmup: u64,
    pub(crate) confirmed_of_warmup: u64,
    pub(crate) consumed_of_warmup: u64,
    pub(crate) ok_of_warmup: u64,
}

impl Counts {
    /// Records the counts and resets them.
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
