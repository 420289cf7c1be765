//! What a worker counted since it last said so.

use harness::recorder::Recorder;

use crate::outcome::count;

/// Counts by field: by name only once a turn, since a name costs as much as a message.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) published: u64,
    pub(crate) warmup: u64,
    pub(crate) confirmed: u64,
    pub(crate) consumed: u64,
    pub(crate) redelivered: u64,
    pub(crate) foreign: u64,
    /// Questions that found no message.
    pub(crate) empty: u64,
    /// Operations that began, and those that ended as they should.
    pub(crate) begun: u64,
    pub(crate) ok: u64,
}

impl Counts {
    /// Writes them down and begins anew.
    pub(crate) fn write(&mut self, record: &Recorder) {
        let counts = std::mem::take(self);
        for (name, number) in [
            (count::PUBLISHED, counts.published),
            (count::WARMUP, counts.warmup),
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
    }
}
