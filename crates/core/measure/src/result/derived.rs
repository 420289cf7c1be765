//! Figures derived from a result: totals by role, open connections, rates and series of both kinds.

use super::{FaultResult, Operations, RunResult, Second, SeriesResult};
use crate::exit;
use crate::imported::SeriesSummary;
use crate::spec::{CounterRole, ErrorCause};
use crate::tally::OK;
use crate::usage::UsageSummary;
use crate::warning::Kind;

impl RunResult {
    /// Returns a series by name.
    pub fn series(&self, name: &str) -> Option<&SeriesResult> {
        self.series.iter().find(|series| series.name == name)
    }

    /// Returns the figures of all series, measured or imported, in the driver's order.
    pub fn summaries(&self) -> impl Iterator<Item = SeriesSummary> {
        let reported = self.imported.iter().flat_map(|imported| &imported.series);
        let measured = self.series.iter().map(SeriesSummary::from);
        measured.chain(reported.cloned())
    }

    /// Returns the figures of one series, measured or imported.
    pub fn summary(&self, name: &str) -> Option<SeriesSummary> {
        self.summaries().find(|series| series.name == name)
    }

    /// Returns the names of all series, measured or imported.
    pub fn series_names(&self) -> impl Iterator<Item = &str> {
        let reported = self.imported.iter().flat_map(|imported| &imported.series);
        let measured = self.series.iter().map(|series| series.name.as_str());
        measured.chain(reported.map(|series| series.name.as_str()))
    }

    /// Returns true if a warning is of this kind.
    pub(crate) fn has_warning(&self, kind: Kind) -> bool {
        self.warnings.iter().any(|warning| warning.kind == kind)
    }

    /// Returns a counter by name, or 0 if it was not counted.
    pub fn count(&self, name: impl AsRef<str>) -> u64 {
        self.counts.get(name.as_ref()).copied().unwrap_or(0)
    }

    /// Returns the sum of the counters with a role, or `None` if none of them was counted.
    pub fn counted(&self, role: CounterRole) -> Option<u64> {
        self.spec.sum(role, &self.counts)
    }

    /// Returns the sum of the counters with a role, or 0 if none of them was counted.
    pub fn total(&self, role: CounterRole) -> u64 {
        self.counted(role).unwrap_or(0)
    }

    /// Returns the number of operations that failed because they were lost.
    pub fn lost_operations(&self) -> u64 {
        let errors = self.spec.errors.iter().filter(|error| error.is_loss);
        let counted = errors.filter_map(|error| self.errors.get(error.name.as_ref()));
        counted.sum()
    }

    /// Returns `unfinished`, `missed` or `peak_active`, or `None` for a 0 of another tool, which means "not known".
    pub fn if_known(&self, count: u64) -> Option<u64> {
        (count > 0 || self.imported.is_none()).then_some(count)
    }

    /// Returns the peak number of open operations according to the daemon's own gauge. Returns `None` if the daemon has
    /// none. With several instances it is the sum of their peaks, an upper bound.
    pub fn peak_of_daemon(&self) -> Option<f64> {
        let gauges = &self.usage.daemon.as_ref()?.gauges_peak;
        gauges.get(self.spec.peak_gauge.as_deref()?).copied()
    }

    /// Returns the seconds in which connections were opened before the load, or 0 if the plan has no such phase.
    pub fn opening_s(&self) -> f64 {
        let opening = self.audit_inputs.opening.as_ref();
        opening.map_or(0.0, |opening| opening.took_s)
    }

    /// Returns the total time in nanoseconds in which faults kept the daemon, or the part of it that they affected, from
    /// accepting connections. Returns `None` if there were no faults, or if one of them was not over.
    pub fn down_ns(&self) -> Option<f64> {
        let down = |fault: &FaultResult| Some((fault.back_s? - fault.at_s) * 1e9);
        let downs: Vec<f64> = self.faults.iter().map(down).collect::<Option<_>>()?;
        (!downs.is_empty()).then(|| downs.iter().sum())
    }

    /// Returns the share of started operations that succeeded, in percent, or `None` if none was started.
    pub fn success_pct(&self) -> Option<f64> {
        let Operations { started, ok, .. } = self.operations;
        (started > 0).then(|| 100.0 * ok as f64 / started as f64)
    }

    /// Returns the number of operations that failed although the plan did not ask for it, or did not end.
    pub fn unserved(&self) -> u64 {
        let expected = self.spec.errors_by(ErrorCause::Expected);
        let expected: u64 = expected.filter_map(|name| self.errors.get(name)).sum();
        let Operations {
            failed, unfinished, ..
        } = self.operations;
        (failed + unfinished).saturating_sub(expected)
    }

    /// Returns the share of started operations that the daemon failed, in percent, or `None` if none was started: they ended
    /// wrongly, did not end, or failed a check. What the plan asks for and what an injected fault explains is left out.
    pub fn failed_pct(&self) -> Option<f64> {
        let failed = self.unserved().saturating_sub(exit::explained(self));
        let wrong = self.total(CounterRole::OperationsFailingChecks);
        let Operations { started, .. } = self.operations;
        (started > 0).then(|| 100.0 * (failed + wrong) as f64 / started as f64)
    }

    /// Returns the number of operations that ended, successful or not, including the warm-up's, which a driver
    /// counts separately. The CPU time of a whole run was spent on these.
    pub fn finished(&self) -> u64 {
        self.operations.ok + self.operations.failed + self.total(CounterRole::Warmup)
    }

    /// Returns the memory that the load took from the machine outside of any process, KiB: the drop in available
    /// memory, minus the growth of daemon, services and driver. Other activity on the machine is included. Returns `None` if a
    /// side was not sampled, or if the sides grew by more than the drop, as with memory shared between processes.
    pub fn kernel_kb(&self) -> Option<u64> {
        let growth = |usage: &UsageSummary| usage.rss_peak_kb.saturating_sub(usage.rss_baseline_kb);
        let sides = [self.usage.daemon.as_ref()?, self.usage.driver.as_ref()?];
        let services = self.services.iter().map(|service| &service.usage);
        let taken = self.usage.system?.taken_kb();
        taken.checked_sub(sides.into_iter().chain(services).map(growth).sum())
    }

    /// Returns the connections open at the end of each second, as the driver counted them. If its workers report the
    /// connections that they hold, that is used; otherwise it is the number opened so far minus those closed and lost.
    /// Empty for a driver that counts neither.
    pub fn held(&self) -> Vec<(u64, u64)> {
        let counted = |row: &Second, role| self.spec.sum(role, &row.counts);
        if self.total(CounterRole::Held) > 0 {
            let held = |row: &Second| Some((row.second, counted(row, CounterRole::Held)?));
            return self.seconds.iter().filter_map(held).collect();
        }
        if self.total(CounterRole::Opened) == 0 {
            return Vec::new();
        }
        let mut open = 0_u64;
        let row = |row: &Second| {
            let number = |role| counted(row, role).unwrap_or(0);
            let ended = number(CounterRole::Closed) + number(CounterRole::Lost);
            open = (open + number(CounterRole::Opened)).saturating_sub(ended);
            (row.second, open)
        };
        self.seconds.iter().map(row).collect()
    }

    /// Returns the most connections open at the end of any second, as the driver counted them.
    pub fn most_held(&self) -> Option<u64> {
        self.held().into_iter().map(|(_, open)| open).max()
    }

    /// Returns a sentence about the overload if the daemon did not serve the offered load. After an injected fault
    /// response times grow whatever the load, so a run with faults has none.
    pub fn overload(&self) -> Option<&str> {
        if !self.faults.is_empty() {
            return None;
        }
        let overload = self.throughput.as_ref()?.overload.as_ref()?;
        Some(overload.headline.as_str())
    }

    /// Returns true if the rates include a backlog of the warm-up, which makes them no measure of the daemon.
    pub fn rates_include_backlog(&self) -> bool {
        let throughput = self.throughput.as_ref();
        throughput.is_some_and(|throughput| throughput.includes_backlog(&self.operations))
    }

    /// Returns the rate of the counter `name` per second of the measured time, whenever the operations started.
    /// Operations that ended in the drain phase are not included. Returns `None` if no time was measured.
    ///
    /// For a result without a [`Throughput`](crate::throughput::Throughput), the rate covers the full seconds of the
    /// measured time; for an imported one, the whole run.
    pub fn per_second(&self, name: impl AsRef<str>) -> Option<f64> {
        let name = name.as_ref();
        match &self.throughput {
            Some(throughput) => throughput.per_second(throughput.count(name)),
            None if self.imported.is_some() => {
                let counted = match name {
                    OK => self.operations.ok,
                    name => *self.counts.get(name)?,
                } as f64;
                (self.wall_s > 0.0).then(|| counted / self.wall_s)
            }
            None => self.per_whole_second(name),
        }
    }

    fn per_whole_second(&self, name: &str) -> Option<f64> {
        let phases = self.phases?;
        let begin = phases.warmup_s;
        let end = (begin + phases.measure_s).min(self.wall_s).floor();
        let rows = self.seconds.iter().filter(|row| {
            let second = row.second as f64;
            second >= begin && second < end
        });
        let counted: u64 = rows.filter_map(|row| row.counts.get(name)).sum();
        let whole = end - begin.ceil();
        (whole >= 1.0).then(|| counted as f64 / whole)
    }
}
