//! The end of a worker: consumers are cancelled, arrived deliveries are acknowledged, connections are closed.

use amq_protocol::frame::AMQPFrame;
use load::clock;
use load::slots::Id;

use super::Loop;
use crate::outcome::count;
use amqp_client::frame::encode;
use amqp_client::session;

/// Time that brokers may take to cancel consumers and to close connections.
const CLOSING_NS: u64 = 2_000_000_000;
/// Part of that time for cancelling consumers.
const CANCELLING_NS: u64 = 1_500_000_000;

impl Loop<'_> {
    /// Ends the worker. Consumers are cancelled first; deliveries until then still count. Once no consumer receives
    /// anything, all arrived deliveries are acknowledged and connections are closed (AMQP 0-9-1, 4.2.2): a requeued
    /// delivery would reach another consumer, or be taken for a message that never arrived. Then open operations are
    /// given up.
    pub(super) fn close(mut self) -> anyhow::Result<()> {
        let now = clock::now();
        self.end_publishing(u64::MAX);
        self.closing = true;
        self.cancel_consumers();
        self.serve_while(now + CANCELLING_NS, |this| {
            this.consumers.iter().any(|consumer| consumer.consumes)
        })?;
        (0..self.consumers.len()).for_each(|index| self.acknowledge_rest(index));
        self.closing_connections = true;
        self.say_goodbye(now);
        self.serve_while(now + CLOSING_NS, |this| !this.links.is_empty())?;
        if !self.links.is_empty() {
            let unsent = self.links.iter().any(|(_, link)| link.has_pending_writes());
            self.driver.close_timed_out(unsent);
        }
        self.hand_in();
        (0..self.producers.len()).for_each(|index| self.fail_unconfirmed(index, None));
        for since in self.gone.values() {
            let ms = now.saturating_sub(*since) / 1_000_000;
            self.worker.record.count(count::GAP_MS, ms);
        }
        self.count();
        anyhow::ensure!(
            self.gone.is_empty(),
            "{} connections were lost and not reestablished by the end: {}",
            self.gone.len(),
            self.why
        );
        Ok(())
    }

    /// Serves the sockets while `waits` returns true, until the time `until`.
    fn serve_while(&mut self, until: u64, waits: impl Fn(&Self) -> bool) -> anyhow::Result<()> {
        while waits(self) && clock::now() < until {
            for index in 0..self.reactor.wait(until, clock::now())? {
                if let Some(event) = self.reactor.event(index) {
                    self.serve(event);
                }
            }
        }
        Ok(())
    }

    fn say_goodbye(&mut self, now: u64) {
        let goodbye = encode(&AMQPFrame::Method(0, session::close_method()));
        let ids: Vec<Id> = self.links.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.unblock(id, now);
            if self.write(id, &goodbye).is_err() {
                self.links.remove(id);
            }
        }
    }
}
