//! Counts of a worker since it last recorded them. Counting by name is more expensive than adding, so names are looked up
//! once per turn of the loop.

use load::recorder::Recorder;

use crate::outcome::count;

/// Counts by field.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) ok: u64,
    pub(crate) ok_of_warmup: u64,
    pub(crate) heartbeats: u64,
    pub(crate) keep_alives: u64,
    pub(crate) connected: u64,
    pub(crate) joins: u64,
    pub(crate) leaves: u64,
    pub(crate) snapshot_members: u64,
    pub(crate) late_acks: u64,
    pub(crate) duplicate_acks: u64,
    pub(crate) unknown_acks: u64,
    pub(crate) ignored: u64,
    pub(crate) connections_lost: u64,
    pub(crate) reconnects: u64,
    pub(crate) retries: u64,
    pub(crate) left: u64,
    pub(crate) cut: u64,
    pub(crate) expired: u64,
    pub(crate) dropped: u64,
    pub(crate) unread: u64,
    pub(crate) bytes: u64,
    pub(crate) bytes_sent: u64,
}

impl Counts {
    /// Records the counts and resets them.
    pub(crate) fn write(&mut self, record: &Recorder) {
        let counts = std::mem::take(self);
        record.ok_many(counts.ok);
        record.ok_of_warmup(counts.ok_of_warmup);
        for (name, number) in [
            (count::HEARTBEATS, counts.heartbeats),
            (count::KEEP_ALIVES, counts.keep_alives),
            (count::CONNECTED, counts.connected),
            (count::JOINS, counts.joins),
            (count::LEAVES, counts.leaves),
            (count::SNAPSHOT_MEMBERS, counts.snapshot_members),
            (count::LATE_ACKS, counts.late_acks),
            (count::DUPLICATE_ACKS, counts.duplicate_acks),
            (count::UNKNOWN_ACKS, counts.unknown_acks),
            (count::IGNORED, counts.ignored),
            (count::CONNECTIONS_LOST, counts.connections_lost),
            (count::RECONNECTS, counts.reconnects),
            (count::RETRIES, counts.retries),
            (count::LEFT, counts.left),
            (count::CUT, counts.cut),
            (count::EXPIRED, counts.expired),
            (count::DROPPED, counts.dropped),
            (count::UNREAD, counts.unread),
            (count::BYTES, counts.bytes),
            (count::BYTES_SENT, counts.bytes_sent),
        ] {
            if number > 0 {
                record.count(name, number);
            }
        }
    }
}
