//! Collects what is known of a run once its load has ended.

use std::sync::Arc;

use measure::machine::Machine;
use measure::result::{DaemonInfo, RunResult, SCHEMA, Second};
use measure::shard::RunPart;
use measure::spec::Spec;
use measure::tally::Tally;
use measure::warning::Warning;

use super::conclude::{Observed, Scope};
use super::daemons::Daemons;
use super::running_load::RunningLoad;
use super::warnings::slowest_ns;
use super::{Ended, Prepared, Started};
use crate::calibration;
use crate::command_line::commands;
use crate::part::Part;
use crate::store;
use load::driver::{Driver, SharedOperations as _};

/// Collects what was observed of the load.
pub(super) async fn observe<D: Driver>(
    prepared: &mut Prepared<'_, D>,
    mut started: Started,
    mut ended: Ended,
) -> anyhow::Result<Observed> {
    let (mut seconds, lost) = prepared.view.seconds.read_back();
    let (ledgers, unreconciled) = reconcile(prepared, &mut started.running, &mut seconds).await?;
    let total = std::mem::replace(
        &mut prepared.view.total,
        Tally::new(&prepared.load.spec.series),
    );
    let mut daemon_counts = started.monitor.daemon_counts(prepared.load.spec);
    let has_counters = !daemon_counts.is_empty();
    if started.counts_began_late {
        // What was counted by then is a part of the load, and missing.
        daemon_counts.clear();
    }
    let part = prepared
        .settings
        .part
        .describe(&started.running.share.start);
    let part = part.map(|part| RunPart {
        late_ns: started.running.share.late_ns,
        measured: total.measured.clone(),
        shares_operations: ledgers.is_some(),
        ledgers: ledgers.unwrap_or(0),
        ..part
    });
    let scope = part.as_ref().map_or(Scope::Run, |part| Scope::Part {
        drives_load: started.running.worker_count > 0,
        shares_operations: part.shares_operations,
    });
    let ended_by = ended.ending.reason();
    let mut warnings = std::mem::take(&mut ended.ending.warnings);
    warnings.append(&mut ended.cpu_samples.warnings);
    warnings.extend(unreconciled);
    warnings.extend(lost.map(|why| Warning::seconds_lost(&why)));
    warnings.extend(started.warnings(&prepared.daemons, prepared.load.spec, has_counters, &total));
    let running = &started.running;
    let is_short = running.collector.failures().next().is_some();
    let wall_ns = (ended.wall_s * 1e9) as u64;
    Ok(Observed {
        scope,
        total,
        measured_s: ended.measured_s,
        ended_by: Some(ended_by),
        daemon_counts,
        is_short,
        workers: running.worker_count,
        thresholds: std::mem::take(&mut prepared.thresholds),
        worker_cpu_pct: Some(running.collector.busiest_pct(wall_ns)),
        opening: running
            .share
            .opening_time(prepared.load.description.opening),
        facts: RunResult {
            warnings,
            part,
            ..facts(prepared, started, &ended, &seconds)
        },
        seconds,
    })
}

impl Started {
    /// Returns the warnings about the daemon's processes and pages, the faults, the machine, and the rows of samples.
    fn warnings(
        &mut self,
        daemons: &Daemons,
        spec: &Spec,
        has_counters: bool,
        total: &Tally,
    ) -> Vec<Warning> {
        let mut warnings = Vec::from_iter(self.processes_warning.take());
        let origin = self.running.share.phases.origin;
        warnings.extend(self.monitor.changed_processes(origin));
        warnings.extend(self.faults.not_injected());
        warnings.extend(daemons.killed_by_memory_limit());
        warnings.extend(daemons.without_counters(spec, has_counters));
        warnings.extend(self.monitor.unread_pages(daemons, spec));
        // Unix sockets have their own queues, which the watch reads.
        if daemons.target.sockets().is_empty()
            && let Some(system) = self.monitor.system()
        {
            warnings.extend(system.warnings(slowest_ns(total)));
        }
        let lost_rows = self.monitor.lost_rows.as_ref();
        warnings.extend(lost_rows.map(|error| Warning::rows_lost(&error.to_string())));
        warnings
    }
}

/// Returns the fields of the result that do not follow from the totals.
fn facts<D: Driver>(
    prepared: &mut Prepared<'_, D>,
    started: Started,
    ended: &Ended,
    seconds: &[Second],
) -> RunResult {
    let (load, settings) = (prepared.load, prepared.settings);
    let running = &started.running;
    let (phases, start) = (&running.share.phases, &running.share.start);
    // The seconds of opening and warm-up are in no figure.
    let warmup_s = (phases.measure - phases.origin) as f64 / 1e9;
    let (usage, services, resources) = started.monitor.summary(phases.origin, warmup_s, seconds);
    // Of a daemon on another machine, the network is the larger part.
    let is_local = prepared.listeners.iter().all(Result::is_ok);
    let is_alone = matches!(settings.part, Part::Whole) && is_local;
    let result = RunResult {
        schema: SCHEMA,
        run_id: settings.part.run_id(start),
        driver: D::SPEC.driver.clone().into_owned(),
        spec: load.spec.clone(),
        started_at: store::timestamp_of(start.unix_ns),
        wall_s: ended.wall_s,
        plan: prepared.plan.take(),
        commands: commands(&D::SPEC.driver),
        phases: Some(load.plan.phases()),
        level: load.plan.level(),
        daemon: DaemonInfo {
            process: started.process,
            ..prepared.daemons.info(prepared.subject)
        },
        machine: Machine {
            steal_pct: ended.steal_pct,
            ..prepared.machine.clone()
        },
        processes: settings.processes,
        threads: settings.processes * settings.threads,
        isolation: settings.isolation.clone(),
        cpu_samples: ended.cpu_samples.counts.clone(),
        usage,
        services,
        resources,
        faults: started.faults.done,
        answer: prepared.checked.answer.take(),
        ..RunResult::default()
    };
    RunResult {
        calibration: is_alone.then(|| calibration::of_run(&result)).flatten(),
        ..result
    }
}

/// Reconciles operations that begin in one process and end in another, or stores the ledgers for the merge. Returns the
/// number of ledgers, absent if there are no such operations, and a warning if something of them is lost.
async fn reconcile<D: Driver>(
    prepared: &mut Prepared<'_, D>,
    running: &mut RunningLoad,
    seconds: &mut [Second],
) -> anyhow::Result<(Option<u64>, Option<Warning>)> {
    let (load, settings) = (prepared.load, prepared.settings);
    let (driver, total) = (&prepared.driver, &mut prepared.view.total);
    let mut cleaned = None;
    // The last part to leave cleans up: the others are done with the daemon then.
    if settings.is_spread() && settings.part.leave() {
        let driver = Arc::clone(driver);
        let cleaning = tokio::task::spawn_blocking(move || D::Shared::clean_up(&driver));
        // What it did not do, and why, is on stderr.
        cleaned = cleaning.await.ok().and_then(Result::ok).flatten();
    }
    let Some(mut lines) = running.share.ledgers().await? else {
        return Ok((None, None));
    };
    let ledgers = lines.len() as u64;
    lines.extend(cleaned);
    if matches!(settings.part, Part::Divided(_)) {
        let unsaved = prepared.folder.write_ledgers(&lines).err();
        let unsaved = unsaved.map(|error| Warning::ledger_lost(&error.to_string()));
        let ledgers = if unsaved.is_some() { 0 } else { ledgers };
        return Ok((Some(ledgers), unsaved));
    }
    let mut lines = lines.into_iter().map(Ok);
    let is_complete = ledgers == settings.processes;
    let reconciled = D::Shared::reconcile(&load.plan, &mut lines, is_complete, total)
        .and_then(|reconciled| Ok(reconciled.apply(total, seconds)?));
    let unreconciled = reconciled.err();
    let unreconciled = unreconciled.map(|error| Warning::ledger_lost(&format!("{error:#}")));
    Ok((Some(ledgers), unreconciled))
}
