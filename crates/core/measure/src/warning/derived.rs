//! Warnings that follow from the figures of a result, so that they can be derived again when it is read.

use super::{Kind, Severity, Warning};
use crate::disturbance::Context;
use crate::result::{Operations, RunResult};
use crate::spec::{ErrorCause, Spec};
use crate::tally::{Counts, Distribution, MISSED_WAITING};

impl Warning {
    /// Returns the warnings about the disturbances of the daemon and of the driver with its `workers`. The load average
    /// before the start counts only if the CPU use of other processes was not measured: in a suite it is mostly the load
    /// of the run before.
    #[must_use]
    pub fn of_disturbances(facts: &RunResult, busy_waits: bool, workers: u64) -> Vec<Self> {
        let RunResult {
            machine,
            usage,
            services,
            audit_inputs,
            ..
        } = facts;
        let context = Context {
            workers,
            busy_waits,
            closed: audit_inputs.users.is_some(),
            worker_cpu_pct: audit_inputs.worker_cpu_pct.unwrap_or(0.0),
            forced_switches: usage
                .driver
                .as_ref()
                .map_or(0, |side| side.involuntary_switches),
            daemon_thread_pct: usage
                .daemon
                .iter()
                .chain(services.iter().map(|service| &service.usage))
                .filter_map(|side| side.busiest_thread_pct)
                .reduce(f64::max),
            daemon_allotment_pct: usage.daemon.as_ref().and_then(|side| {
                let allotment = facts.isolation.daemon_allotment(facts.daemon.instances)?;
                Some(side.cpu_avg_pct / allotment)
            }),
        };
        let found = usage
            .disturbance
            .map(|disturbance| disturbance.warnings(&context));
        let others = usage
            .disturbance
            .and_then(|disturbance| disturbance.others_cpu_pct);
        let load1 = machine.load1.filter(|_| others.is_none());
        let noisy = Self::noisy_host(load1, machine.cpus, machine.steal_pct);
        let overlap = Self::shared_lists(&facts.isolation);
        let found = found.into_iter().flatten();
        found.chain(noisy).chain(overlap).collect()
    }

    /// Returns the warnings about the outcomes of the operations of a whole run, by the counters and failures of it.
    #[must_use]
    pub fn of_outcomes(
        spec: &Spec,
        counts: &Counts,
        errors: &Counts,
        operations: &Operations,
    ) -> Vec<Self> {
        let counted = |name: &str| counts.get(name).copied().unwrap_or(0);
        let unexpected = errors
            .iter()
            .filter(|(kind, _)| spec.cause(kind) != ErrorCause::Expected);
        let most = unexpected.max_by_key(|(_, count)| **count);
        let nothing_succeeded = most
            .filter(|_| operations.ok == 0)
            .map(|(most, _)| Self::nothing_succeeded(operations.failed, most));
        let found = [
            exhausted(spec, counts, errors),
            nothing_succeeded,
            Self::missed(
                operations.missed,
                counted(MISSED_WAITING),
                operations.started,
            ),
            Self::warmup_failed(counts, operations),
        ];
        found.into_iter().flatten().collect()
    }
}

/// Reports the operations for which the driver itself had no descriptor or port, by kind.
fn exhausted(spec: &Spec, counts: &Counts, errors: &Counts) -> Option<Warning> {
    let of = |counts: &Counts, kind: &str| counts.get(kind).copied().unwrap_or(0);
    let found = spec
        .errors_by(ErrorCause::Exhausted)
        .map(|kind| (kind, of(errors, kind) + of(counts, kind)));
    let found: Vec<_> = found.filter(|(_, count)| *count > 0).collect();
    Warning::driver_exhausted(&found)
}

impl RunResult {
    /// Returns the warnings that the stored figures demand, each with the fields that it follows from. A figure that is
    /// judged by something that is not stored, such as the number of workers that ran, is judged in the driver's favour.
    pub(crate) fn demanded(&self) -> Vec<(&'static str, Warning)> {
        let mut demanded = Vec::new();
        let mut add = |by, warnings: Vec<Warning>| {
            demanded.extend(warnings.into_iter().map(|warning| (by, warning)));
        };
        let unfinished = self.operations.unfinished;
        let unfinished = Warning::unfinished(unfinished, super::EndedBy::Plan);
        add("`operations`", Vec::from_iter(unfinished));
        let part = self.part.as_ref();
        if !part.is_some_and(|part| part.shares_operations) {
            let outcomes =
                Warning::of_outcomes(&self.spec, &self.counts, &self.errors, &self.operations);
            add("`operations`, `counts` and `errors`", outcomes);
        }
        add("`lag` and `series`", Vec::from_iter(self.least_lateness()));
        let late = part.and_then(|part| Warning::shard_late(part.late_ns));
        add("`part.late_ns`", Vec::from_iter(late));
        // The parts of a divided run have judged their own machines.
        if self.shards.is_empty() {
            add(
                "`usage` and `machine`",
                Warning::of_disturbances(self, true, self.threads),
            );
            let slowest = self.series.iter().map(|series| series.max_ns).max();
            let system = self.usage.system;
            let tcp = system.map(|system| system.warnings(slowest.unwrap_or(0)));
            add("`usage.system`", tcp.unwrap_or_default());
        }
        demanded
    }

    /// Returns the least severe warning about the driver's lateness that fits any series, since the series of the
    /// response time is not stored.
    fn least_lateness(&self) -> Option<Warning> {
        let lag = self.lag.as_ref()?.distribution().ok()?;
        let lifetime = self.audit_inputs.lifetime.as_ref();
        let offered = self.throughput.as_ref().and_then(|ended| ended.offered);
        let is_paced = offered.is_some() || lifetime.is_some_and(|lifetime| lifetime.from_due);
        let series = self.series.iter();
        let candidates: Option<Vec<Distribution>> =
            series.map(|series| series.distribution().ok()).collect();
        let tick_ns = self.audit_inputs.tick_ns;
        let judge =
            |values: &Distribution| Warning::generator_late(&lag, values, is_paced, tick_ns);
        let candidates = candidates?;
        if candidates.is_empty() {
            return judge(&Distribution::default());
        }
        let each = candidates.iter().map(judge).collect::<Option<Vec<_>>>()?;
        each.into_iter().min_by_key(|warning| warning.severity)
    }

    /// Returns the most severe stored warning of a kind. A row of the audit may stand for a warning.
    pub(crate) fn stored_severity(&self, kind: Kind) -> Option<Severity> {
        let stored = self.warnings.iter();
        let of_kind = stored.filter(|warning| warning.kind == kind);
        of_kind.map(|warning| warning.severity).max()
    }
}
