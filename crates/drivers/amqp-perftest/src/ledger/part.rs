//! The part of one process in the ledger of a run, as it is stored and sent to others.
//!
//! An arrival that the broker marks as redelivered does not end its operation here, unless the message has arrived here
//! before: its first delivery may have been to a consumer of another process. It is set aside with its latency until
//! the parts are merged.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use roaring::RoaringTreemap;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{Arrival, Ledger};

/// A message, by its stream and its number.
type Message = (u32, u64);

/// Records of a process that are needed to merge the parts of a ledger.
#[derive(Debug, Default)]
pub(super) struct PartState {
    /// Messages that arrived with the redelivered flag before they arrived here without it, with the latency of the
    /// first arrival.
    set_aside: HashMap<Message, Option<u64>>,
    /// Failed messages.
    pub(super) failed: Vec<(u32, u64, &'static str)>,
    /// Failed messages that arrived here afterwards, and the redelivered flag.
    late: Vec<(u32, u64, bool)>,
}

impl PartState {
    /// Sets an arrival aside. Returns the number of repeated arrivals: 1 if one was set aside before.
    pub(super) fn set_aside(&mut self, arrival: &Arrival) -> u64 {
        match self.set_aside.entry((arrival.stream, arrival.sequence)) {
            Entry::Vacant(vacant) => {
                vacant.insert(arrival.latency);
                0
            }
            Entry::Occupied(_) => 1,
        }
    }

    pub(super) fn late(&mut self, arrival: &Arrival) {
        self.late
            .push((arrival.stream, arrival.sequence, arrival.redelivered));
    }
}

/// A line of the file with the ledgers of a shard.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LedgerLine {
    /// The part of a process.
    Part(LedgerPart),
    /// The queues after the run, from the process that deletes them.
    Queues(QueueDepth),
}

/// The queues after the run.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct QueueDepth {
    /// Messages in them; `None` if it is unknown.
    pub(crate) messages: Option<u64>,
}

/// The part of one process in the ledger of a run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct LedgerPart {
    /// The run whose messages these are. A run without producers accepts messages of any run, but only one in each
    /// process.
    pub(super) run: u32,
    /// Arrived messages that its consumers requeued.
    pub(super) given_back: u64,
    /// Repeated arrivals, among its own, that the broker marked as redelivered.
    pub(super) redelivered: u64,
    /// True if the kernel had not taken all published data at the end.
    pub(super) is_unsent: bool,
    pub(super) streams: Vec<StreamPart>,
}

/// The part of one process in a stream of messages.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct StreamPart {
    pub(super) stream: u32,
    /// Messages written; absent if another process publishes the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) published: Option<u64>,
    /// Exclusive upper bound of the messages that the broker may have refused.
    #[serde(default)]
    pub(super) refusable_below: u64,
    /// Messages whose operation ended by their arrival.
    #[serde(default, skip_serializing_if = "Numbers::is_empty")]
    pub(super) arrived: Numbers,
    /// Messages that arrived with the redelivered flag first, and the latency of that arrival, nanoseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) set_aside: Vec<(u64, Option<u64>)>,
    /// Failed messages, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) failed: BTreeMap<String, Numbers>,
    /// Failed messages that arrived afterwards, and if the broker marked the arrival as redelivered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) late: Vec<(u64, bool)>,
}

impl StreamPart {
    /// Returns true if this process has nothing to do with the stream.
    fn is_empty(&self) -> bool {
        self.published.is_none()
            && self.arrived.is_empty()
            && self.set_aside.is_empty()
            && self.failed.is_empty()
    }
}

/// Numbers of messages, stored as a Roaring bitmap of 64 bits in base64
/// (<https://github.com/RoaringBitmap/RoaringFormatSpec>).
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Numbers(pub(super) RoaringTreemap);

impl Numbers {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut octets = Vec::with_capacity(self.0.serialized_size());
        self.0
            .serialize_into(&mut octets)
            .map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&BASE64_STANDARD.encode(octets))
    }
}

impl<'de> Deserialize<'de> for Numbers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let octets = BASE64_STANDARD.decode(text).map_err(de::Error::custom)?;
        RoaringTreemap::deserialize_from(octets.as_slice())
            .map(Self)
            .map_err(de::Error::custom)
    }
}

impl Ledger {
    /// Returns the part of this process in the ledger of the run, once all of its workers have left.
    pub(crate) fn part(&self, run: u32, is_unsent: bool) -> LedgerPart {
        let given_back = self.given_back.load(Ordering::Relaxed);
        let mut state = self.state();
        let records = state.part.take().unwrap_or_default();
        let mut streams: Vec<StreamPart> = Vec::new();
        for (number, stream) in (0..).zip(&state.streams) {
            streams.push(StreamPart {
                stream: number,
                published: stream.published,
                refusable_below: stream.refusable_below,
                arrived: Numbers(stream.all_settled()),
                ..StreamPart::default()
            });
        }
        for (number, sequence, kind) in records.failed {
            let part = &mut streams[number as usize];
            part.arrived.0.remove(sequence);
            let kind = part.failed.entry(kind.to_owned()).or_default();
            kind.0.insert(sequence);
        }
        for ((number, sequence), latency) in records.set_aside {
            let index = number as usize;
            while streams.len() <= index {
                streams.push(StreamPart {
                    stream: streams.len() as u32,
                    ..StreamPart::default()
                });
            }
            streams[index].set_aside.push((sequence, latency));
        }
        for (number, sequence, redelivered) in records.late {
            streams[number as usize].late.push((sequence, redelivered));
        }
        streams.retain(|part| !part.is_empty());
        for part in &mut streams {
            let failed = part.failed.values_mut();
            for numbers in failed.chain([&mut part.arrived]) {
                // Ranges are stored as such.
                numbers.0.optimize();
            }
            part.set_aside.sort_unstable();
        }
        LedgerPart {
            run,
            given_back,
            redelivered: state.redelivered,
            is_unsent,
            streams,
        }
    }
}
