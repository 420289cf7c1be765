//! The sum of the results of a divided run's parts. Histograms are added bucket by bucket and counters exactly, so the
//! figures are as if one program had recorded everything.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, anyhow, ensure};
use measure::disturbance::Stalls;
use measure::isolation::Isolation;
use measure::result::{
    Answer, AuditInputs, Cost, DaemonInfo, OpeningTime, Resources, RunResult, Second, SecondSeries,
    Usage,
};
use measure::shard::{Role, RunPart, ShardSummary};
use measure::spec::SeriesSpec;
use measure::tally::{Decoder, Distribution, Series, Tally, merge_counts};
use measure::usage::UsageSummary;
use measure::warning::{Kind, Warning};

/// The reason why another result cannot be merged.
const NOT_A_PART: &str =
    "is not a part of a divided run: only results of --shard and --role daemon can be merged";
/// Name of the series of the driver's lateness in seconds and results.
const LAG: &str = "lag";

/// The sum of the parts added so far, without their seconds.
#[derive(Debug)]
pub(super) struct Merge {
    /// The values recorded by all shards.
    pub(super) total: Tally,
    /// The fields that all parts share, such as the plan, with the sum of the others. Its warnings come from single parts
    /// and also hold for the whole.
    pub(super) whole: RunResult,
    /// The shards, by index.
    pub(super) shards: BTreeMap<u64, ShardSummary>,
    /// The problems of the shards that are left out because their files are damaged.
    pub(super) damaged: Vec<String>,
    /// The reason why the first part did not measure its daemon. It holds for the whole if no part did.
    pub(super) unmeasured: Option<Warning>,
    /// Longest measured time of a shard, seconds.
    pub(super) measured_s: f64,
    /// The daemons' counts by the name of the driver's counter, and whether they are complete.
    pub(super) daemon_counts: BTreeMap<String, (u64, bool)>,
    answers: Vec<Answer>,
    resources: BTreeMap<i64, Resources>,
    hosts: BTreeSet<String>,
    /// True if the part that only launched the daemon was added.
    pub(super) has_daemon_part: bool,
}

impl Merge {
    /// Creates an empty sum.
    #[must_use]
    pub(super) fn new(specs: &'static [SeriesSpec]) -> Self {
        Self {
            total: Tally::new(specs),
            whole: RunResult::default(),
            shards: BTreeMap::new(),
            damaged: Vec::new(),
            unmeasured: None,
            measured_s: 0.0,
            daemon_counts: BTreeMap::new(),
            answers: Vec::new(),
            resources: BTreeMap::new(),
            hosts: BTreeSet::new(),
            has_daemon_part: false,
        }
    }

    /// Adds a part. The part that only launched the daemon must come first, because shards on its machine have observed
    /// the same daemon.
    ///
    /// # Errors
    /// The part does not belong to the same run as the first, or is there already.
    pub(super) fn add(&mut self, mut result: RunResult) -> anyhow::Result<()> {
        let part = result.part.clone().context(NOT_A_PART)?;
        if self.whole.part.is_none() {
            self.whole = shared(&result);
        }
        same_run(&self.whole, &result, &part)?;
        if let Some(shard) = part.shard {
            ensure!(
                !self.shards.contains_key(&shard),
                "is shard {shard} again: keep one result of each shard"
            );
        }
        if part.role != Role::Daemon {
            self.add_values(&result, &part)?;
            // The daemon's part waits for the results of all shards.
            self.whole.wall_s = self.whole.wall_s.max(result.wall_s);
        }
        self.add_daemon(&result, &part);
        self.add_warnings(&mut result, &part);
        self.add_resources(&result, part.role);
        self.hosts.insert(result.machine.hostname.clone());
        self.whole
            .isolation
            .add(std::mem::take(&mut result.isolation));
        // Shards whose numbers are in variables of a scheduler have the same.
        let known = &mut self.whole.commands;
        result.commands.retain(|command| !known.contains(command));
        known.append(&mut result.commands);
        if let Some(shard) = part.shard {
            self.shards.insert(shard, summary(&result, &part, shard));
            self.add_driver(result);
        }
        Ok(())
    }

    /// Returns the indices of the shards that are missing.
    pub(super) fn missing(&self) -> Vec<u64> {
        let of = self.whole.part.as_ref().map_or(0, |part| part.of);
        (0..of)
            .filter(|shard| !self.shards.contains_key(shard))
            .collect()
    }

    /// Returns the answer that all shards got in their check, or `None` if they got none or different ones.
    fn answer(&self) -> Option<&Answer> {
        let first = self.answers.first()?;
        self.answers
            .iter()
            .all(|answer| answer == first)
            .then_some(first)
    }

    /// Returns true if shards got different answers in their check.
    pub(super) fn answers_differ(&self) -> bool {
        self.answer().is_none() && !self.answers.is_empty()
    }

    /// Returns the number of machines that took part.
    pub(super) fn hosts(&self) -> usize {
        self.hosts.len()
    }

    /// Returns the fields of the result that do not follow from the totals, with these warnings.
    pub(super) fn into_facts(self, warnings: Vec<Warning>) -> RunResult {
        RunResult {
            answer: self.answer().cloned(),
            resources: self.resources.into_values().collect(),
            warnings,
            part: None,
            shards: self.shards.into_values().collect(),
            ..self.whole
        }
    }

    fn add_values(&mut self, result: &RunResult, part: &RunPart) -> anyhow::Result<()> {
        let names: Vec<&'static str> = self.total.series().map(|(name, _)| name).collect();
        for series in &result.series {
            let index = names.iter().position(|name| *name == series.name);
            let index = index.ok_or_else(|| unknown(&series.name))?;
            self.total
                .merge_series(Series(index), &series.distribution()?);
        }
        if let Some(lag) = &result.lag {
            self.total.lag.merge(&lag.distribution()?);
        }
        merge_counts(&mut self.total.counts, &result.counts);
        merge_counts(&mut self.total.errors, &result.errors);
        self.total.measured.merge(&part.measured);
        self.answers.extend(result.answer.clone());
        Ok(())
    }

    /// Adds the daemon's figures, unless another part has observed the same daemon.
    fn add_daemon(&mut self, result: &RunResult, part: &RunPart) {
        let is_seen = self.has_daemon_part || self.hosts.contains(&result.machine.hostname);
        if part.role == Role::Load && is_seen {
            return;
        }
        self.has_daemon_part |= part.role == Role::Daemon;
        let whole = &mut self.whole;
        whole.daemon.instances = match part.role {
            Role::Load => result.daemon.instances,
            _ => whole.daemon.instances + result.daemon.instances,
        };
        if let Some(daemon) = &result.usage.daemon {
            let usage = &mut whole.usage;
            usage.system = match usage.daemon {
                None => result.usage.system,
                Some(_) => None,
            };
            usage.daemon = beside(usage.daemon.take(), Some(daemon.clone()));
        }
        whole.services.extend(result.services.iter().cloned());
        whole.faults.extend(result.faults.iter().cloned());
        for compared in &result.audit_inputs.compared {
            let name = compared.name.clone();
            let (count, whole) = self.daemon_counts.entry(name).or_insert((0, true));
            *count += compared.daemon;
            // A shard may have asked the daemon before the last operation of another.
            *whole &= compared.whole && (part.role != Role::Load || part.of == 1);
        }
    }

    /// Adds the figures of a shard's own program.
    fn add_driver(&mut self, result: RunResult) {
        let whole = &mut self.whole;
        whole.processes += result.processes;
        whole.threads += result.threads;
        whole.usage.driver = beside(whole.usage.driver.take(), result.usage.driver);
        let (sum, own) = (&mut whole.audit_inputs, result.audit_inputs);
        sum.worker_cpu_pct = most(sum.worker_cpu_pct, own.worker_cpu_pct);
        let opening = |one: OpeningTime, other: OpeningTime| OpeningTime {
            complete: one.complete && other.complete,
            ..one
        };
        sum.opening = both(sum.opening.take(), own.opening, opening);
        let throughput = result.throughput.as_ref();
        let measured_s = throughput.map_or(0.0, |throughput| throughput.measured_s);
        self.measured_s = self.measured_s.max(measured_s);
    }

    fn add_warnings(&mut self, result: &mut RunResult, part: &RunPart) {
        let host = &result.machine.hostname;
        for warning in result.warnings.drain(..) {
            if warning.kind == Kind::DaemonNotMeasured {
                self.unmeasured.get_or_insert(warning);
            } else if warning.kind.is_local() {
                self.whole.warnings.push(warning.of_part(part.shard, host));
            }
        }
    }

    fn add_resources(&mut self, result: &RunResult, role: Role) {
        let is_seen = self.has_daemon_part && role != Role::Daemon
            || role == Role::Load && self.hosts.contains(&result.machine.hostname);
        for sample in &result.resources {
            let second = sample.at_s.round() as i64;
            let sum = self.resources.entry(second).or_insert_with(|| Resources {
                at_s: second as f64,
                ..Resources::default()
            });
            if role != Role::Daemon {
                sum.driver = both(sum.driver, sample.driver, add_costs);
            }
            if !is_seen || role == Role::Both {
                sum.daemon = both(sum.daemon, sample.daemon, add_costs);
                sum.active = both(sum.active, sample.active, |one, other| one + other);
                sum.backlog = both(sum.backlog, sample.backlog, |one, other| one + other);
                for (name, cost) in &sample.services {
                    let entry = sum.services.entry(name.clone()).or_default();
                    *entry = add_costs(*entry, *cost);
                }
            }
        }
    }
}

fn unknown(series: &str) -> anyhow::Error {
    anyhow!("the series `{series}` is unknown: merge with the version that made the results")
}

/// Returns the fields that all parts have in common with this one; its own are empty.
fn shared(part: &RunResult) -> RunResult {
    RunResult {
        daemon: DaemonInfo {
            instances: 0,
            ..part.daemon.clone()
        },
        wall_s: 0.0,
        commands: Vec::new(),
        isolation: Isolation::default(),
        processes: 0,
        threads: 0,
        usage: Usage::default(),
        audit_inputs: AuditInputs::default(),
        warnings: Vec::new(),
        series: Vec::new(),
        resources: Vec::new(),
        services: Vec::new(),
        faults: Vec::new(),
        ..part.clone()
    }
}

fn same_run(first: &RunResult, result: &RunResult, part: &RunPart) -> anyhow::Result<()> {
    let expected = first.part.as_ref().context(NOT_A_PART)?;
    let another_run = "it belongs to another run; use a new folder for each run";
    let numbers = |result: &RunResult, part: &RunPart| {
        [
            result.schema.to_string(),
            part.of.to_string(),
            part.origin_unix_ns.to_string(),
        ]
    };
    let [schema, of, start] = numbers(result, part);
    let [expected_schema, expected_of, expected_start] = numbers(first, expected);
    for (field, found, expected, remedy) in [
        ("driver", &result.driver, &first.driver, another_run),
        ("run", &result.run_id, &first.run_id, another_run),
        (
            "plan",
            &part.plan_sha256,
            &expected.plan_sha256,
            "all shards must run the same plan",
        ),
        (
            "version",
            &result.machine.version,
            &first.machine.version,
            "all shards must run the same version",
        ),
        ("schema", &schema, &expected_schema, another_run),
        ("number of shards", &of, &expected_of, another_run),
        ("start", &start, &expected_start, another_run),
    ] {
        ensure!(
            found == expected,
            "has {field} {found}, but the first part has {expected}: {remedy}"
        );
    }
    Ok(())
}

fn summary(result: &RunResult, part: &RunPart, shard: u64) -> ShardSummary {
    ShardSummary {
        shard,
        operations: result.operations.clone(),
        lag_p99_ns: result.lag.as_ref().map(|lag| lag.p99_ns),
        late_ns: part.late_ns,
        clock: part.clock,
        driver: result.usage.driver.clone(),
        verdict: result.verdict,
        machine: result.machine.clone(),
    }
}

fn most(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.into_iter().chain(other).reduce(f64::max)
}

fn both<T>(one: Option<T>, other: Option<T>, add: impl Fn(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(add(one, other)),
        (one, other) => one.or(other),
    }
}

fn add_costs(one: Cost, other: Cost) -> Cost {
    Cost {
        rss_kb: one.rss_kb + other.rss_kb,
        cpu_pct: one.cpu_pct + other.cpu_pct,
        threads: one.threads + other.threads,
        fds: one.fds + other.fds,
        wait_pct: both(one.wait_pct, other.wait_pct, |one, other| one + other),
    }
}

/// Returns the use of two process trees that ran side by side. The sums of peaks are upper bounds.
fn beside(one: Option<UsageSummary>, other: Option<UsageSummary>) -> Option<UsageSummary> {
    both(one, other, |one, other| one.beside(&other))
}

/// Merges the seconds of shards, one second after the other, in memory that does not depend on the number of shards or
/// seconds.
#[derive(Debug)]
pub(super) struct SecondMerge {
    /// The series of the second, in the driver's order, then the lag.
    series: Vec<(String, Distribution)>,
    row: Second,
    stalls: Stalls,
    decoder: Decoder,
}

impl SecondMerge {
    /// Creates a merge of the seconds of a driver.
    #[must_use]
    pub(super) fn new(specs: &[SeriesSpec]) -> Self {
        let names = specs.iter().map(|series| series.name.clone().into_owned());
        let names = names.chain([LAG.to_owned()]);
        Self {
            series: names.map(|name| (name, Distribution::default())).collect(),
            row: Second::default(),
            stalls: Stalls::default(),
            decoder: Decoder::default(),
        }
    }

    /// Adds the row of a shard.
    ///
    /// # Errors
    /// A histogram cannot be decoded, or has an unknown series.
    pub(super) fn add(&mut self, row: &Second) -> anyhow::Result<()> {
        self.add_figures(row);
        for series in &row.series {
            let mut known = self.series.iter_mut();
            let (_, sum) = known
                .find(|(name, _)| *name == series.name)
                .ok_or_else(|| unknown(&series.name))?;
            self.decoder.add(&series.histogram, series.clamped, sum)?;
        }
        Ok(())
    }

    /// Adds the rows that were added to `other`, and clears it.
    pub(super) fn merge(&mut self, other: &mut Self) {
        let row = std::mem::take(&mut other.row);
        self.stalls.merge(std::mem::take(&mut other.stalls));
        self.add_figures(&row);
        for ((_, sum), (_, values)) in self.series.iter_mut().zip(&mut other.series) {
            sum.merge(values);
            values.clear();
        }
    }

    fn add_figures(&mut self, row: &Second) {
        let sum = &mut self.row;
        sum.second = sum.second.max(row.second);
        sum.active += row.active;
        sum.active_peak += row.active_peak;
        let add = |one, other| one + other;
        sum.active_mean = both(sum.active_mean, row.active_mean, add);
        sum.active_slack = both(sum.active_slack, row.active_slack, add);
        self.stalls.merge(row.stalls.unwrap_or_default());
        sum.worker_cpu_pct = most(sum.worker_cpu_pct, row.worker_cpu_pct);
        sum.worker_wait_pct = most(sum.worker_wait_pct, row.worker_wait_pct);
        for (into, from) in [
            (&mut sum.counts, &row.counts),
            (&mut sum.errors, &row.errors),
        ] {
            merge_counts(into, from);
        }
    }

    /// Returns the sum of the rows added since the last call.
    pub(super) fn finish(&mut self) -> Second {
        let mut row = std::mem::take(&mut self.row);
        row.stalls = std::mem::take(&mut self.stalls).found();
        for (name, values) in &mut self.series {
            row.series
                .extend(SecondSeries::from_distribution(name, values));
            values.clear();
        }
        row
    }
}
