//! What daemon and driver cost while a run lasts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;

use measure::result::Usage;
use measure::usage::{Sample, UsageSummary};

use super::Gauges;
use super::site::Site;
use crate::clock;
use crate::daemon::Daemon;
use crate::driver::Driver;
use crate::store::Folder;
use crate::usage::{self, Sampler};

/// Samples what daemon and driver cost, into `resources.csv` and for the result.
#[derive(Debug)]
pub(super) struct Watch {
    pub(super) daemon: Option<Sampler>,
    pub(super) driver: Sampler,
    pub(super) daemon_samples: Vec<Sample>,
    pub(super) driver_samples: Vec<Sample>,
    /// Largest value of each metric of the daemon.
    pub(super) gauges: Gauges,
    /// The metric in the last of the reference's columns.
    pub(super) active: &'static str,
    /// The metrics that have a column of their own: those that the page had before the load.
    pub(super) columns: Vec<String>,
    pub(super) csv: File,
}

impl Watch {
    pub(super) fn new<D: Driver>(
        site: &Site,
        external: Option<u32>,
        before: Option<&Gauges>,
        folder: &Folder,
    ) -> anyhow::Result<Self> {
        let columns: Vec<String> = before
            .into_iter()
            .flat_map(BTreeMap::keys)
            .cloned()
            .collect();
        let header: Vec<&str> = std::iter::once(usage::csv_header())
            .chain(columns.iter().map(String::as_str))
            .collect();
        let mut csv = folder.create("resources.csv")?;
        writeln!(csv, "{}", header.join(","))?;
        let own = site
            .daemon
            .as_ref()
            .map(Daemon::own_pids)
            .unwrap_or_default();
        Ok(Self {
            daemon: site
                .daemon
                .as_ref()
                .map(Daemon::pid)
                .or(external)
                .map(|pid| Sampler::new(pid, &[])),
            driver: Sampler::new(std::process::id(), &own),
            daemon_samples: Vec::new(),
            driver_samples: Vec::new(),
            gauges: Gauges::new(),
            active: D::ACTIVE_METRIC,
            columns,
            csv,
        })
    }

    pub(super) async fn sample(&mut self, site: &mut Site) {
        let now = clock::now();
        let driver = self.driver.sample(now);
        // A daemon that has died leaves no sample of zeros behind.
        let daemon = self
            .daemon
            .as_mut()
            .filter(|_| !site.died)
            .map(|sampler| sampler.sample(now));
        let gauges = site.scrape().await.unwrap_or_default();
        // Rows are for looking at: a full disk must not end the run.
        let _ = writeln!(self.csv, "{}", self.row(daemon.as_ref(), &driver, &gauges));
        for (name, value) in gauges {
            let peak = self.gauges.entry(name).or_insert(value);
            *peak = peak.max(value);
        }
        self.driver_samples.push(driver);
        self.daemon_samples.extend(daemon);
    }

    pub(super) fn row(&self, daemon: Option<&Sample>, driver: &Sample, gauges: &Gauges) -> String {
        let unknown = Sample {
            unix_ns: driver.unix_ns,
            ..Sample::default()
        };
        let active = gauges.get(self.active).copied();
        let mut row = usage::csv_row(daemon.unwrap_or(&unknown), active, Some(driver));
        for name in &self.columns {
            row.push(',');
            row.extend(gauges.get(name).map(f64::to_string));
        }
        row
    }

    pub(super) fn summary(self) -> Usage {
        let sum = |samples: &[Sample]| {
            (!samples.is_empty()).then(|| UsageSummary::of(samples, usage::ticks_per_s()))
        };
        let daemon = sum(&self.daemon_samples).map(|summary| UsageSummary {
            gauges_peak: self.gauges,
            ..summary
        });
        Usage {
            daemon,
            driver: sum(&self.driver_samples),
        }
    }
}
