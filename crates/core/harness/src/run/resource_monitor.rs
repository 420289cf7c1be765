//! Samples the resource use of daemon and driver during a run.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use anyhow::Context as _;
use measure::disturbance::{Disk, Disturbance, Throttled};
use measure::result::{Cost, Resources, Second, ServiceResult, Usage};
use measure::spec::Spec;
use measure::system::{System, SystemSample};
use measure::usage::{Sample, UsageSummary};
use measure::warning::Warning;
use tokio::task::JoinHandle;

use super::Gauges;
use super::daemons::{DaemonId, Daemons, Instance};
use super::external::ExternalProcesses;
use super::scrape::{self, Counted, DaemonCounters, Scrape, ScrapeTarget};
use crate::store::Folder;
use load::clock;
use subject::disk;
use subject::host::{ControlGroups, Quotas};
use subject::listeners::AcceptQueues;
use subject::usage::{self, Machine, Others, Sampler};

/// Time that a user who is in a hurry waits for a metrics page.
const HURRIED_TIMEOUT: Duration = Duration::from_millis(200);

/// Samples the resource use of daemon and driver, for `resources.csv` and for the result.
#[derive(Debug)]
pub(super) struct ResourceMonitor {
    daemon: Option<Sampler>,
    driver: Sampler,
    services: Vec<ServiceSampler>,
    /// The number of services before these that are a part of the daemon.
    behind: usize,
    /// The other programs of a divided run on this machine, and those that take CPU samples.
    siblings: Option<Sampler>,
    /// The processes of a daemon that ran already.
    external: Option<ExternalProcesses>,
    queues: Option<AcceptQueues>,
    machine: Option<Machine>,
    disk: Option<disk::Watch>,
    /// The disk before and after the load.
    disk_found: Option<Disk>,
    others: Option<Others>,
    driver_quotas: Quotas,
    /// Absent if the daemon is in the driver's groups, or if none of its processes is known.
    daemon_quotas: Option<Quotas>,
    snapshots: Vec<Snapshot>,
    /// A sample whose pages have not arrived yet.
    fetching: Option<(Snapshot, JoinHandle<Vec<Scrape>>)>,
    daemon_counters: DaemonCounters,
    /// Largest value of each metric of the daemon.
    gauges: Gauges,
    /// The metric in the last of the reference tool's columns, if the driver has one.
    active: Option<&'static str>,
    /// The metrics that have their own column: those that the page had before the load.
    columns: Vec<String>,
    csv: File,
    /// The error of a row that could not be written.
    pub(super) lost_rows: Option<std::io::Error>,
}

/// Samples one service.
#[derive(Debug)]
struct ServiceSampler {
    name: String,
    version: Option<String>,
    sampler: Sampler,
}

impl ServiceSampler {
    fn new(service: &Instance) -> Self {
        let daemon = &service.daemon;
        Self {
            name: daemon.name().to_owned(),
            version: daemon.version().map(str::to_owned),
            sampler: Sampler::new(daemon.pid(), &[]),
        }
    }

    /// Returns the names of its columns.
    fn columns(&self) -> impl Iterator<Item = String> {
        ["rss_kb", "utime", "stime", "cpu_pct"]
            .map(|of| format!("{}_{of}", self.name))
            .into_iter()
    }
}

/// A sample, taken at one instant except for the pages.
#[derive(Debug, Clone)]
struct Snapshot {
    /// Nanoseconds of CLOCK_MONOTONIC.
    at: u64,
    driver: Sample,
    /// Absent while the daemon has no process.
    daemon: Option<Sample>,
    /// The samples of the services, in their order.
    services: Vec<Sample>,
    backlog: Option<u64>,
    machine: Option<SystemSample>,
    active: Option<f64>,
    others_cpu_pct: Option<f64>,
    driver_quota: Option<Throttled>,
    daemon_quota: Option<Throttled>,
}

fn unwritable(folder: &Folder) -> String {
    let out = folder.path().display();
    format!("can't write to {out}: free space there, or name another folder with --out")
}

impl ResourceMonitor {
    pub(super) async fn open(
        daemons: &Daemons,
        spec: &'static Spec,
        external: Option<ExternalProcesses>,
        siblings: Vec<u32>,
        samplers: &[u32],
        disk: Option<disk::Watch>,
        folder: &Folder,
    ) -> anyhow::Result<Self> {
        let before = scrape::fetch(daemons.scrape_targets(true)).await;
        let columns = scrape::sum(&before).unwrap_or_default();
        let columns: Vec<String> = columns.into_keys().collect();
        let services = daemons.services_apart().iter();
        let services: Vec<ServiceSampler> = services.map(ServiceSampler::new).collect();
        let header: Vec<String> = std::iter::once(usage::csv_header().to_owned())
            .chain(services.iter().flat_map(ServiceSampler::columns))
            .chain(columns.iter().cloned())
            .collect();
        let mut csv = folder.create("resources.csv")?;
        writeln!(csv, "{}", header.join(",")).with_context(|| unwritable(folder))?;
        let siblings = [&siblings, samplers].concat();
        let running = external.as_ref().map(ExternalProcesses::pids);
        let pids: Vec<u32> = running.unwrap_or_else(|| daemons.pids());
        let driver_groups = ControlGroups::from_process(std::process::id());
        let daemon_groups = pids.first().map(|pid| ControlGroups::from_process(*pid));
        Ok(Self {
            // A daemon that ran already may have started this program.
            daemon: (!pids.is_empty()).then(|| Sampler::with_roots(&pids, &[std::process::id()])),
            driver: Sampler::new(
                std::process::id(),
                &[&daemons.own_pids(), samplers].concat(),
            ),
            siblings: (!siblings.is_empty() && !pids.is_empty()).then(|| {
                // The daemon may have been launched by one of them.
                let apart: Vec<u32> = pids.iter().copied().chain([std::process::id()]).collect();
                Sampler::with_roots(&siblings, &apart)
            }),
            external,
            // If the kernel does not report the queues, the column stays empty.
            queues: AcceptQueues::open(&daemons.target),
            machine: Machine::open(),
            disk,
            disk_found: None,
            // If the daemon's own CPU time is unknown, it would be attributed to others.
            others: if pids.is_empty() {
                None
            } else {
                let own = std::iter::once(std::process::id());
                let own = own
                    .chain(pids.iter().copied())
                    .chain(daemons.service_pids());
                Others::open(&own.collect::<Vec<_>>())
            },
            daemon_quotas: daemon_groups
                .filter(|groups| *groups != driver_groups)
                .map(|groups| groups.quotas()),
            driver_quotas: driver_groups.quotas(),
            services,
            behind: daemons.services.len() - daemons.services_apart().len(),
            snapshots: Vec::new(),
            fetching: None,
            daemon_counters: DaemonCounters::open(daemons.daemon_count(), before),
            gauges: Gauges::new(),
            active: spec.open_gauge.as_deref(),
            columns,
            csv,
            lost_rows: None,
        })
    }

    /// Takes a sample, and requests the pages. Skips the sample while pages of the previous one are outstanding.
    pub(super) fn snapshot(&mut self, daemons: &Daemons) {
        if self.fetching.is_none() {
            self.request_snapshot(daemons.scrape_targets(false));
        }
    }

    fn request_snapshot(&mut self, scrape_targets: Vec<ScrapeTarget>) {
        let at = clock::now();
        let sampled = self.daemon.as_mut().map(|sampler| sampler.sample(at));
        if let (Some(external), Some(sampler)) = (&mut self.external, &mut self.daemon) {
            external.watch(sampler, at);
        }
        let driver = self.driver.sample(at);
        let services = self.services.iter_mut();
        let services: Vec<Sample> = services.map(|service| service.sampler.sample(at)).collect();
        let ticks = |sample: &Sample| sample.utime_ticks + sample.stime_ticks;
        let of_services: u64 = services.iter().map(ticks).sum();
        let siblings = self.siblings.as_mut();
        let of_siblings = siblings.map_or(0, |siblings| siblings.cpu_ticks(at));
        let own = ticks(&driver) + sampled.as_ref().map_or(0, ticks) + of_services + of_siblings;
        let snapshot = Snapshot {
            at,
            others_cpu_pct: self
                .others
                .as_mut()
                .and_then(|others| others.snapshot(at, own)),
            driver_quota: self.driver_quotas.throttled(),
            daemon_quota: self.daemon_quotas.as_ref().and_then(Quotas::throttled),
            driver,
            daemon: sampled.filter(|sample| sample.processes > 0),
            services,
            backlog: self.queues.as_mut().and_then(AcceptQueues::pending),
            machine: self.machine.as_mut().and_then(Machine::snapshot),
            active: None,
        };
        self.fetching = Some((snapshot, tokio::spawn(scrape::fetch(scrape_targets))));
    }

    /// Completes when the pages of a sample have arrived. May be dropped and called again.
    pub(super) async fn pages(&mut self) -> Vec<Scrape> {
        match &mut self.fetching {
            // The task ends early only with the runtime.
            Some((_, fetching)) => fetching.await.unwrap_or_default(),
            None => std::future::pending().await,
        }
    }

    /// Stores a sample with its pages.
    pub(super) fn note(&mut self, pages: &[Scrape]) {
        let Some((mut snapshot, _)) = self.fetching.take() else {
            return;
        };
        self.daemon_counters.note(pages);
        let gauges = scrape::sum(pages).unwrap_or_default();
        snapshot.active = self.active.and_then(|active| gauges.get(active).copied());
        // Rows are informative: a full disk must not end the run.
        if let Err(error) = writeln!(self.csv, "{}", self.row(&snapshot, &gauges)) {
            self.lost_rows.get_or_insert(error);
        }
        for (name, value) in gauges {
            let peak = self.gauges.entry(name).or_insert(value);
            *peak = peak.max(value);
        }
        self.snapshots.push(snapshot);
    }

    /// Returns the resource use of the daemon, if it is known, and of the driver in the last sample.
    pub(super) fn last_costs(&self) -> Option<(Option<Cost>, Cost)> {
        let last = self.snapshots.last()?;
        Some((last.daemon.as_ref().map(cost), cost(&last.driver)))
    }

    /// Takes the last sample. A user who is in a hurry does not wait for the pages of a daemon that does not answer.
    pub(super) async fn finish(&mut self, daemons: &Daemons, hurried: bool) {
        let timeout = if hurried {
            HURRIED_TIMEOUT
        } else {
            Duration::MAX
        };
        if self.fetching.is_some() {
            let pages = tokio::time::timeout(timeout, self.pages()).await;
            self.note(&pages.unwrap_or_default());
        }
        self.request_snapshot(daemons.scrape_targets(true));
        let pages = tokio::time::timeout(timeout, self.pages()).await;
        let pages = pages.unwrap_or_default();
        self.note(&pages);
        self.daemon_counters.close(&pages);
        if let Some(watch) = self.disk.take().filter(|_| !hurried) {
            // The task ends early only with the runtime.
            let found = tokio::task::spawn_blocking(move || watch.close()).await;
            self.disk_found = found.ok();
        }
    }

    /// Returns the daemons' counts, by the names of the driver's counters that are compared with them. If a daemon has
    /// several metrics for one counter, the first is meant.
    pub(super) fn daemon_counts(&self, spec: &Spec) -> BTreeMap<String, Counted> {
        let mut counts = BTreeMap::new();
        for (metric, counter) in spec.compared() {
            if let Some(counted) = self.daemon_counters.counted(metric) {
                let name = counter.name.clone().into_owned();
                counts.entry(name).or_insert(counted);
            }
        }
        counts
    }

    /// Returns the warnings about pages that could not be read before or after the load.
    pub(super) fn unread_pages(&self, daemons: &Daemons, spec: &Spec) -> Vec<Warning> {
        let compared: Vec<&str> = spec.compared().map(|(metric, _)| metric).collect();
        let unread = self.daemon_counters.unread(&compared).into_iter();
        unread
            .map(|page| Warning::counters_unread(&daemons.page(page.index), page.answered_before))
            .collect()
    }

    /// Returns what became of the processes of a daemon that ran already; `origin` is the instant of the first start.
    pub(super) fn changed_processes(&self, origin: u64) -> Option<Warning> {
        self.external
            .as_ref()?
            .changes(self.daemon.as_ref()?, origin)
    }

    /// Follows a daemon or a service that was started again.
    pub(super) fn restarted(&mut self, id: DaemonId, instance: &Instance) {
        self.driver.exclude(&instance.daemon.own_pids());
        let pid = instance.daemon.pid();
        if let DaemonId::Instance(index) = id {
            self.daemon_counters.restarted(index, instance.restarts);
        }
        let sampler = match id {
            DaemonId::Service(index) if index >= self.behind => {
                Some(&mut self.services[index - self.behind].sampler)
            }
            DaemonId::Instance(_) | DaemonId::Service(_) => self.daemon.as_mut(),
        };
        if let Some(sampler) = sampler {
            sampler.add_root(pid);
        }
    }

    fn row(&self, snapshot: &Snapshot, gauges: &Gauges) -> String {
        let unknown = Sample {
            unix_ns: snapshot.driver.unix_ns,
            ..Sample::default()
        };
        let daemon = snapshot.daemon.as_ref().unwrap_or(&unknown);
        let mut row = usage::csv_row(
            daemon,
            snapshot.active,
            Some(&snapshot.driver),
            snapshot.backlog,
        );
        for Sample {
            rss_kb,
            utime_ticks,
            stime_ticks,
            cpu_pct,
            ..
        } in &snapshot.services
        {
            row.push_str(&format!(
                ",{rss_kb},{utime_ticks},{stime_ticks},{cpu_pct:.1}"
            ));
        }
        for name in &self.columns {
            row.push(',');
            row.extend(gauges.get(name).map(f64::to_string));
        }
        row
    }

    /// Returns the changes of the machine from the first sample, which precedes the first start, to the last.
    pub(super) fn system(&self) -> Option<System> {
        let samples = self
            .snapshots
            .iter()
            .filter_map(|snapshot| snapshot.machine);
        let system = System::from_samples(&samples.collect::<Vec<SystemSample>>())?;
        Some(System {
            dropped_by_daemon: self.queues.as_ref().map(AcceptQueues::dropped),
            ..system
        })
    }

    /// Returns the resource use in all, and over time. `origin` is the instant of the first start; `from_s` is the
    /// time after it at which operations began to count.
    pub(super) fn summary(
        self,
        origin: u64,
        from_s: f64,
        seconds: &[Second],
    ) -> (Usage, Vec<ServiceResult>, Vec<Resources>) {
        let ticks = usage::ticks_per_s();
        let system = self.system();
        let of = |samples: Vec<Sample>| {
            (!samples.is_empty()).then(|| UsageSummary::from_samples(&samples, ticks))
        };
        let snapshots = self.snapshots;
        let services: Vec<String> = self.services.iter().map(|of| of.name.clone()).collect();
        let each = || snapshots.iter();
        let daemon = of(each().filter_map(|at| at.daemon.clone()).collect());
        let daemon = daemon.map(|summary| UsageSummary {
            gauges_peak: self.gauges,
            backlog_peak: each().filter_map(|at| at.backlog).max(),
            ..summary
        });
        let driver = of(each().map(|at| at.driver.clone()).collect());
        let over_time = |snapshot: &Snapshot| Resources {
            at_s: (snapshot.at as f64 - origin as f64) / 1e9,
            daemon: snapshot.daemon.as_ref().map(cost),
            driver: Some(cost(&snapshot.driver)),
            active: snapshot.active,
            backlog: snapshot.backlog,
            others_cpu_pct: snapshot.others_cpu_pct,
            throttled: None,
            services: services
                .iter()
                .zip(&snapshot.services)
                .filter(|(_, sample)| sample.processes > 0)
                .map(|(name, sample)| (name.clone(), cost(sample)))
                .collect(),
        };
        let mut resources: Vec<Resources> = each().map(over_time).collect();
        // The kernel's counters only grow: the time between two snapshots belongs to the later one.
        for (index, pair) in snapshots.windows(2).enumerate() {
            let held = quota(&[pair[0].driver_quota, pair[1].driver_quota]);
            resources[index + 1].throttled = held.map(|held| held.throttled);
        }
        let cpus = self.others.as_ref().map_or(0, Others::cpus);
        let quotas =
            |of: fn(&Snapshot) -> Option<Throttled>| quota(&each().map(of).collect::<Vec<_>>());
        let disturbance = Disturbance {
            driver_quota: quotas(|snapshot| snapshot.driver_quota),
            daemon_quota: quotas(|snapshot| snapshot.daemon_quota),
            disk: self.disk_found,
            ..Disturbance::from_seconds(seconds, &resources, cpus, from_s)
        };
        let usage = Usage {
            daemon,
            driver,
            system,
            disturbance: Some(disturbance),
        };
        let service = |(index, service): (usize, ServiceSampler)| {
            let samples = each().map(|at| at.services[index].clone());
            let samples = samples.filter(|sample| sample.processes > 0);
            ServiceResult {
                name: service.name,
                version: service.version,
                usage: of(samples.collect()).unwrap_or_default(),
            }
        };
        let services = self.services.into_iter().enumerate();
        (usage, services.map(service).collect(), resources)
    }
}

/// Returns the throttling by a quota from the first sample to the last.
fn quota(snapshots: &[Option<Throttled>]) -> Option<Throttled> {
    let last = (*snapshots.last()?)?;
    // A group without a quota has had no period.
    Some(last.since(snapshots.first()?.unwrap_or_default()))
}

fn cost(sample: &Sample) -> Cost {
    Cost {
        rss_kb: sample.rss_kb,
        cpu_pct: sample.cpu_pct,
        threads: sample.threads,
        fds: sample.fds,
        wait_pct: sample.wait_pct,
    }
}
