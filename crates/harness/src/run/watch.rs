//! What daemon and driver cost while a run lasts.

use std::fs::File;
use std::io::Write as _;
use std::time::Duration;

use measure::disturbance::{Disturbance, Throttled};
use measure::result::{Cost, Resources, Second, Usage};
use measure::system::{System, SystemLook};
use measure::usage::{Sample, UsageSummary};
use tokio::task::JoinHandle;

use super::Gauges;
use super::pages::{self, Ledger, Page, Source};
use super::site::{Instance, Site};
use crate::clock;
use crate::driver::Driver;
use crate::host::ControlGroups;
use crate::store::Folder;
use crate::usage::{self, Backlog, Machine, Others, Sampler};

/// How long a user who is in a hurry waits for a metrics page.
const HURRIED: Duration = Duration::from_millis(200);

/// Looks at what daemon and driver cost, into `resources.csv` and for the result.
#[derive(Debug)]
pub(super) struct Watch {
    daemon: Option<Sampler>,
    driver: Sampler,
    backlog: Option<Backlog>,
    machine: Option<Machine>,
    others: Option<Others>,
    quotas: Quotas,
    looks: Vec<Look>,
    /// A look whose pages are on their way.
    fetching: Option<(Look, JoinHandle<Vec<Page>>)>,
    pub(super) ledger: Ledger,
    /// Largest value of each metric of the daemon.
    gauges: Gauges,
    /// The metric in the last of the reference's columns.
    active: &'static str,
    /// The metrics that have a column of their own: those that the page had before the load.
    columns: Vec<String>,
    csv: File,
    /// Whether a row could not be written.
    pub(super) lost_rows: Option<std::io::Error>,
}

/// One look, all of it at the same instant but for the pages.
#[derive(Debug, Clone)]
struct Look {
    /// Nanoseconds of CLOCK_MONOTONIC.
    at: u64,
    driver: Sample,
    /// Absent while no process of the daemon is there.
    daemon: Option<Sample>,
    backlog: Option<u64>,
    machine: Option<SystemLook>,
    active: Option<f64>,
    others_cpu_pct: Option<f64>,
    driver_quota: Option<Throttled>,
    daemon_quota: Option<Throttled>,
}

/// The control groups whose quotas are looked at.
#[derive(Debug)]
struct Quotas {
    driver: ControlGroups,
    /// Absent where it is in the driver's groups, or where no process of it is known.
    daemon: Option<ControlGroups>,
}

impl Quotas {
    fn of(daemons: &[u32]) -> Self {
        let driver = ControlGroups::of_process(std::process::id());
        let daemon = daemons.first().map(|pid| ControlGroups::of_process(*pid));
        Self {
            daemon: daemon.filter(|daemon| *daemon != driver),
            driver,
        }
    }
}

impl Watch {
    pub(super) async fn open<D: Driver>(
        site: &Site,
        external: Option<u32>,
        folder: &Folder,
    ) -> anyhow::Result<Self> {
        let before = pages::fetch(site.sources(true)).await;
        let columns: Vec<String> = pages::sum(&before)
            .unwrap_or_default()
            .into_keys()
            .collect();
        let header: Vec<&str> = std::iter::once(usage::csv_header())
            .chain(columns.iter().map(String::as_str))
            .collect();
        let mut csv = folder.create("resources.csv")?;
        writeln!(csv, "{}", header.join(","))?;
        let daemons: Vec<u32> = site.pids().into_iter().chain(external).collect();
        Ok(Self {
            daemon: (!daemons.is_empty()).then(|| Sampler::of(&daemons, &[])),
            driver: Sampler::new(std::process::id(), &site.own_pids()),
            // Where the kernel does not tell, the column stays empty.
            backlog: site.backlog(),
            machine: Machine::open(),
            // Where the daemon's own CPU time is not known, what is left would be blamed on others.
            others: match daemons.is_empty() {
                true => None,
                false => {
                    let own = std::iter::once(std::process::id());
                    Others::open(&own.chain(daemons.iter().copied()).collect::<Vec<_>>())
                }
            },
            quotas: Quotas::of(&daemons),
            looks: Vec::new(),
            fetching: None,
            ledger: Ledger::open(site.daemons(), before),
            gauges: Gauges::new(),
            active: D::ACTIVE_METRIC,
            columns,
            csv,
            lost_rows: None,
        })
    }

    /// Looks, and asks for the pages. A look whose pages have not come within its second is not disturbed by a new one.
    pub(super) fn look(&mut self, site: &Site) {
        if self.fetching.is_none() {
            self.look_for(site.sources(false));
        }
    }

    fn look_for(&mut self, sources: Vec<Source>) {
        let at = clock::now();
        let sampled = self.daemon.as_mut().map(|sampler| sampler.sample(at));
        let driver = self.driver.sample(at);
        let ticks = |sample: &Sample| sample.utime_ticks + sample.stime_ticks;
        let own = ticks(&driver) + sampled.as_ref().map_or(0, ticks);
        let look = Look {
            at,
            others_cpu_pct: self.others.as_mut().and_then(|others| others.look(at, own)),
            driver_quota: self.quotas.driver.throttled(),
            daemon_quota: self
                .quotas
                .daemon
                .as_ref()
                .and_then(ControlGroups::throttled),
            driver,
            daemon: sampled.filter(|sample| sample.processes > 0),
            backlog: self.backlog.as_mut().and_then(Backlog::pending),
            machine: self.machine.as_mut().and_then(Machine::look),
            active: None,
        };
        self.fetching = Some((look, tokio::spawn(pages::fetch(sources))));
    }

    /// Completes when the pages of a look have come. May be dropped and called again.
    pub(super) async fn pages(&mut self) -> Vec<Page> {
        match &mut self.fetching {
            // It ends early only with the runtime.
            Some((_, fetching)) => fetching.await.unwrap_or_default(),
            None => std::future::pending().await,
        }
    }

    /// Notes a look with its pages.
    pub(super) fn note(&mut self, pages: &[Page]) {
        let Some((mut look, _)) = self.fetching.take() else {
            return;
        };
        self.ledger.note(pages);
        let gauges = pages::sum(pages).unwrap_or_default();
        look.active = gauges.get(self.active).copied();
        // Rows are for looking at: a full disk must not end the run.
        if let Err(error) = writeln!(self.csv, "{}", self.row(&look, &gauges)) {
            self.lost_rows.get_or_insert(error);
        }
        for (name, value) in gauges {
            let peak = self.gauges.entry(name).or_insert(value);
            *peak = peak.max(value);
        }
        self.looks.push(look);
    }

    /// The last look. A user who is in a hurry does not wait for the pages of a daemon that does not answer.
    pub(super) async fn finish(&mut self, site: &Site, hurried: bool) {
        let patience = match hurried {
            true => HURRIED,
            false => Duration::MAX,
        };
        if self.fetching.is_some() {
            let pages = tokio::time::timeout(patience, self.pages()).await;
            self.note(&pages.unwrap_or_default());
        }
        self.look_for(site.sources(true));
        let pages = tokio::time::timeout(patience, self.pages()).await;
        let pages = pages.unwrap_or_default();
        self.note(&pages);
        self.ledger.close(&pages);
    }

    /// A daemon was started again.
    pub(super) fn reborn(&mut self, place: usize, instance: &Instance) {
        self.ledger.reborn(place, instance.life);
        self.driver.leave_out(&instance.daemon.own_pids());
        if let Some(sampler) = &mut self.daemon {
            sampler.follow_also(instance.daemon.pid());
        }
    }

    fn row(&self, look: &Look, gauges: &Gauges) -> String {
        let unknown = Sample {
            unix_ns: look.driver.unix_ns,
            ..Sample::default()
        };
        let daemon = look.daemon.as_ref().unwrap_or(&unknown);
        let mut row = usage::csv_row(daemon, look.active, Some(&look.driver), look.backlog);
        for name in &self.columns {
            row.push(',');
            row.extend(gauges.get(name).map(f64::to_string));
        }
        row
    }

    /// The machine from the first look, which is before the first start, to the last.
    pub(super) fn system(&self) -> Option<System> {
        let looks: Vec<SystemLook> = self.looks.iter().filter_map(|look| look.machine).collect();
        System::of(&looks)
    }

    /// What it cost in all, and over time; `origin` is the instant of the first start, `from_s` how long after it operations
    /// began to count.
    pub(super) fn summary(
        self,
        origin: u64,
        from_s: f64,
        seconds: &[Second],
    ) -> (Usage, Vec<Resources>) {
        let ticks = usage::ticks_per_s();
        let system = self.system();
        let of =
            |samples: Vec<Sample>| (!samples.is_empty()).then(|| UsageSummary::of(&samples, ticks));
        let daemons = self.looks.iter().filter_map(|look| look.daemon.clone());
        let daemon = of(daemons.collect()).map(|summary| UsageSummary {
            gauges_peak: self.gauges,
            backlog_peak: self.looks.iter().filter_map(|look| look.backlog).max(),
            ..summary
        });
        let driver = of(self.looks.iter().map(|look| look.driver.clone()).collect());
        let over_time = |look: &Look| Resources {
            at_s: (look.at as f64 - origin as f64) / 1e9,
            daemon: look.daemon.as_ref().map(cost),
            driver: Some(cost(&look.driver)),
            active: look.active,
            backlog: look.backlog,
            others_cpu_pct: look.others_cpu_pct,
            throttled: None,
        };
        let mut resources: Vec<Resources> = self.looks.iter().map(over_time).collect();
        for (place, pair) in self.looks.windows(2).enumerate() {
            let held = quota(&[pair[0].driver_quota, pair[1].driver_quota]);
            resources[place + 1].throttled = held.map(|held| held.throttled);
        }
        let cpus = self.others.as_ref().map_or(0, Others::cpus);
        let quotas = |of: fn(&Look) -> Option<Throttled>| {
            quota(&self.looks.iter().map(of).collect::<Vec<_>>())
        };
        let disturbance = Disturbance {
            driver_quota: quotas(|look| look.driver_quota),
            daemon_quota: quotas(|look| look.daemon_quota),
            ..Disturbance::of(seconds, &resources, cpus, from_s)
        };
        let usage = Usage {
            daemon,
            driver,
            system,
            disturbance: Some(disturbance),
        };
        (usage, resources)
    }
}

/// What a quota did from the first look to the last.
fn quota(looks: &[Option<Throttled>]) -> Option<Throttled> {
    let last = (*looks.last()?)?;
    // A group that had no quota has had no period.
    Some(last.since(looks.first()?.unwrap_or_default()))
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
