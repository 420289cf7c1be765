//! The end of a worker: consumers are cancelled, what has arrived is acknowledged, connections are closed.

use amq_protocol::frame::AMQPFrame;
use harness::clock;
use harness::slots::Id;

use super::Loop;
use crate::outcome::count;
use crate::session::{self, encode};

/// How long brokers may take to cancel consumers and to close connections.
const CLOSING_NS: u64 = 2_000_000_000;
/// How much of it they may take to cancel consumers.
const CANCELLING_NS: u64 = 1_500_000_000;

impl Loop<'_> {
    /// The end: consumers are cancelled, and what comes until then still counts. Only when none of them is given any more
    /// is all that has arrived acknowledged and are connections closed (AMQP 0-9-1, 4.2.2): what went back to a queue would
    /// be given to another consumer, or be taken for a message that never arrived. Then what is open is given up.
    pub(super) fn close(mut self) -> anyhow::Result<()> {
        let now = clock::now();
        self.end_publishing(u64::MAX);
        self.closing = true;
        self.cancel_consumers();
        self.serve_while(now + CANCELLING_NS, |this| {
            this.consumers.iter().any(|consumer| consumer.consumes)
        })?;
        (0..self.consumers.len()).for_each(|place| self.acknowledge_rest(place));
        self.parting = true;
        self.say_goodbye(now);
        self.serve_while(now + CLOSING_NS, |this| !this.links.is_empty())?;
        if !self.links.is_empty() {
            let unsent = self.links.iter().any(|(_, link)| link.is_full());
            self.driver.fell_silent(unsent);
        }
        self.hand_in();
        (0..self.producers.len()).for_each(|place| self.forsake(place, None));
        for since in self.gone.values() {
            let ms = now.saturating_sub(*since) / 1_000_000;
            self.worker.record.count(count::GAP_MS, ms);
        }
        self.count();
        anyhow::ensure!(
            self.gone.is_empty(),
            "{} connections were lost and not made again by the end: {}",
            self.gone.len(),
            self.why
        );
        Ok(())
    }

    /// Serves what comes for as long as it is waited for, until a time.
    fn serve_while(&mut self, until: u64, waits: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        while waits(self) && clock::now() < until {
            for place in 0..self.reactor.wait(until, clock::now())? {
                if let Some(event) = self.reactor.event(place) {
                    self.serve(event);
                }
            }
        }
        Ok(())
    }

    fn say_goodbye(&mut self, now: u64) {
        let goodbye = encode(&AMQPFrame::Method(0, session::goodbye()));
        let ids: Vec<Id> = self.links.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.unblock(id, now);
            if self.write(id, &goodbye).is_err() {
                self.links.remove(id);
            }
        }
    }
}
