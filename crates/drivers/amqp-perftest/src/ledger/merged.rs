//! The ledger of a run whose workers were in several processes, merged from their parts.
//!
//! The parts are added in any order, and the outcomes do not depend on it:
//!
//! - A message has arrived if any process has received it. Its operation is ok once: each further process that has
//!   counted it counts a repeated arrival.
//! - A repeated arrival is a duplicate, unless the broker marked one of the two as redelivered.
//! - A message that only came with that flag arrives first where its latency is least: all count from one start.
//! - A message that failed at its producer and arrived at a consumer of another process has arrived, and its failure is
//!   withdrawn: nobody can tell which was first. Within one process the first of the two counts, as always.
//! - A message that failed in several processes has failed once, in the first way by name.
//! - A published message that neither arrived nor failed is missing; if it is below the `refusable_below` of its stream,
//!   the broker may have refused it.

use std::collections::BTreeMap;

use load::reconciliation::Reconciliation;
use load::recorder;
use measure::tally::{OK, STARTED, Tally, merge_counts};
use roaring::RoaringTreemap;

use super::missing::Missing;
use super::part::{LedgerPart, QueueDepth, StreamPart};
use crate::outcome::{self, count};
use crate::spec::{END_TO_END, SPEC};
use amqp_client::stamp;

/// The merged ledger.
#[derive(Debug, Default)]
pub(crate) struct MergedLedger {
    /// The streams, by run and number.
    streams: BTreeMap<(u32, u32), MergedStream>,
    given_back: u64,
    redelivered: u64,
    is_unsent: bool,
    queues: Option<QueueDepth>,
}

/// The messages of one stream.
#[derive(Debug, Default)]
struct MergedStream {
    published: Option<u64>,
    refusable_below: u64,
    /// Messages that arrived without the redelivered flag, or in a process that had received them before.
    arrived: RoaringTreemap,
    /// Messages that arrived in some process with the redelivered flag first, with the least latency.
    set_aside: BTreeMap<u64, Option<u64>>,
    failed: BTreeMap<String, FailedMessages>,
    late: Vec<(u64, bool)>,
    /// Arrivals beyond the first among those without the flag, and among those with it.
    repeated: u64,
    repeated_marked: u64,
}

/// Messages that failed in one way.
#[derive(Debug, Default)]
struct FailedMessages {
    numbers: RoaringTreemap,
    /// Failures of messages that had failed in the same way in another process.
    repeated: u64,
}

/// Differences between the outcomes of a stream and the sum of what the processes have counted.
#[derive(Debug, Default)]
struct Corrections {
    /// Operations that several processes have counted as ok.
    ok_withdrawn: u64,
    /// Latencies of operations that no process has counted as ok; `None` if the sender's clock was ahead.
    ok_added: Vec<Option<u64>>,
    failed_withdrawn: BTreeMap<String, u64>,
    late_withdrawn: u64,
    duplicated: u64,
    redelivered: u64,
    /// Messages that have arrived or failed, and published ones that have not.
    ended: u64,
    missing: u64,
    /// Missing messages that the broker may have refused.
    refusable: u64,
}

impl MergedStream {
    fn add(&mut self, part: StreamPart) {
        // One process publishes a stream. Of two that say so, the order of their lines must not decide.
        self.published = self.published.max(part.published);
        self.refusable_below = self.refusable_below.max(part.refusable_below);
        self.repeated += self.arrived.intersection_len(&part.arrived.0);
        self.arrived |= part.arrived.0;
        for (sequence, latency) in part.set_aside {
            let first = self.set_aside.entry(sequence);
            first
                .and_modify(|first| {
                    self.repeated_marked += 1;
                    *first = (*first).min(latency);
                })
                .or_insert(latency);
        }
        for (kind, numbers) in part.failed {
            let failed = self.failed.entry(kind).or_default();
            failed.repeated += failed.numbers.intersection_len(&numbers.0);
            failed.numbers |= numbers.0;
        }
        self.late.extend(part.late);
    }

    fn corrections(&self) -> Corrections {
        let mut found = Corrections {
            ok_withdrawn: self.repeated,
            duplicated: self.repeated,
            redelivered: self.repeated_marked,
            ..Corrections::default()
        };
        for (sequence, latency) in &self.set_aside {
            if self.arrived.contains(*sequence) {
                found.redelivered += 1
            } else {
                found.ok_added.push(*latency)
            }
        }
        let has_arrived = |sequence: u64| {
            self.arrived.contains(sequence) || self.set_aside.contains_key(&sequence)
        };
        for (sequence, is_marked) in &self.late {
            if has_arrived(*sequence) {
                found.late_withdrawn += 1;
                let is_duplicate = !is_marked && self.arrived.contains(*sequence);
                found.duplicated += u64::from(is_duplicate);
                found.redelivered += u64::from(!is_duplicate);
            }
        }
        let mut failed = RoaringTreemap::new();
        for (kind, messages) in &self.failed {
            let mut fresh = messages.numbers.clone() - &failed;
            fresh.retain(|number| !has_arrived(number));
            let withdrawn = messages.repeated + messages.numbers.len() - fresh.len();
            if withdrawn > 0 {
                found.failed_withdrawn.insert(kind.clone(), withdrawn);
            }
            failed |= fresh;
        }
        found.ended = self.arrived.len() + found.ok_added.len() as u64 + failed.len();
        found.missing = self.published.unwrap_or(0).saturating_sub(found.ended);
        if let Some(last) = self.refusable_below.checked_sub(1) {
            let set_aside = self.set_aside.keys().copied();
            let ended = &self.arrived | &failed | RoaringTreemap::from_iter(set_aside);
            found.refusable = self.refusable_below - ended.rank(last);
        }
        found
    }
}

impl MergedLedger {
    /// Adds the part of a process.
    pub(crate) fn add(&mut self, part: LedgerPart) {
        self.given_back += part.given_back;
        self.redelivered += part.redelivered;
        self.is_unsent |= part.is_unsent;
        for stream in part.streams {
            let number = (part.run, stream.stream);
            self.streams.entry(number).or_default().add(stream);
        }
    }

    /// Adds the depth of the queues after the run. One process reads it; of two that differ, none is known to be right.
    pub(crate) fn add_queues(&mut self, queues: QueueDepth) {
        self.queues = match self.queues.take() {
            Some(other) if other != queues => Some(QueueDepth { messages: None }),
            _ => Some(queues),
        };
    }

    /// Returns the reason why the messages in queues are unknown, if they are.
    pub(crate) fn why_unknown(&self, is_complete: bool) -> Option<&'static str> {
        match &self.queues {
            _ if !is_complete => Some("the ledger of a process is missing"),
            None => Some(
                "no shard saw that all had ended, so the queue depths were not read and the queues not deleted",
            ),
            Some(QueueDepth { messages: None }) => Some("the queue depths could not be read"),
            Some(_) if self.is_unsent => {
                Some("the broker did not read everything that was published")
            }
            Some(_) => None,
        }
    }

    /// Returns the corrections of what the processes have counted together, `total`. `consume_only` is set if the run has
    /// no producers, `is_complete` if no part is missing, `may_drop` if the plan permits the queues to drop messages.
    pub(crate) fn reconcile(
        &self,
        consume_only: bool,
        is_complete: bool,
        may_drop: bool,
        total: &Tally,
    ) -> Reconciliation {
        let mut reconciliation = Reconciliation::new(&SPEC.series);
        let Reconciliation { added, withdrawn } = &mut reconciliation;
        let mut redelivered = self.redelivered;
        let mut settled = 0;
        let mut missing = Missing::default();
        for ((_, stream), messages) in &self.streams {
            let found = messages.corrections();
            redelivered += found.redelivered;
            added.count(count::DUPLICATED, found.duplicated);
            let counts = consume_only || stamp::counts(*stream);
            missing.add(counts, found.missing, found.refusable);
            if !counts {
                continue;
            }
            settled += found.ended;
            let begun = consume_only.then_some(STARTED);
            for name in [OK].into_iter().chain(begun) {
                added.count(name, found.ok_added.len() as u64);
                withdrawn.count(name, found.ok_withdrawn);
            }
            for latency in found.ok_added {
                match latency {
                    Some(latency) => added.record(END_TO_END, latency),
                    None => added.count(count::NEGATIVE_LATENCY, 1),
                }
            }
            merge_counts(&mut withdrawn.errors, &found.failed_withdrawn);
            withdrawn.count(count::ARRIVED_LATE, found.late_withdrawn);
        }
        for name in [count::DUPLICATED, count::OUT_OF_ORDER, count::REDELIVERED] {
            // The result then shows 0 for these counters.
            added.count(name, 0);
        }
        let unasked = redelivered.saturating_sub(self.given_back);
        added.count(count::REDELIVERED_AFTER_ACK, unasked);
        if consume_only {
            return reconciliation;
        }
        if !is_complete {
            // A process without a ledger may have published some of these messages, and received others.
            let ended = total.counted(OK) + added.counted(OK) - withdrawn.counted(OK)
                + total.errors.values().sum::<u64>()
                - withdrawn.errors.values().sum::<u64>();
            let elsewhere = ended.saturating_sub(settled);
            let begun = total.counted(STARTED);
            let open = missing.counted.saturating_sub(elsewhere);
            let open = open.max(begun.saturating_sub(ended));
            added.count(recorder::UNFINISHED, open);
            added.count(STARTED, (ended + open).saturating_sub(begun));
            return reconciliation;
        }
        let queues = self.queues.as_ref().filter(|_| !self.is_unsent);
        let again = self.given_back.saturating_sub(redelivered);
        let queued = queues.and_then(|queues| Some(queues.messages?.saturating_sub(again)));
        let missing = missing.explained_by(queued);
        added.count(recorder::UNFINISHED, missing.unfinished);
        let kind = outcome::of_missing(may_drop);
        added.count(count::LOST, 0);
        added.count(kind, missing.lost + missing.lost_of_warmup);
        for (kind, number) in [(outcome::REFUSED, missing.refused), (kind, missing.lost)] {
            if number > 0 {
                *added.errors.entry(kind.into()).or_default() += number;
            }
        }
        reconciliation
    }
}

#[cfg(test)]
mod tests;
