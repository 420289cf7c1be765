//! What all workers of a run share.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use linearizability::Kind;
use load::clock;
use load::driver::{Address, Target};
use load::plan::{Invalid, Plan};
use load::recorder::Recorder;
use subject::disk::{Probe, disk_flushes};

use crate::history::Span;
use crate::ledger::{Ledger, Rows};
use crate::outcome::count;
use crate::peers::Peer;
use crate::settings::Settings;
use crate::spec;

/// Syncs of the probe: enough for a 99th percentile.
const SYNCS: u32 = 1_000;

/// The service under load.
#[derive(Debug, Clone)]
pub(crate) enum Service {
    /// An issue daemon, by its socket.
    Daemon(PathBuf),
    /// A database that stores the same issues.
    Peer(Peer),
}

/// A prepared run.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) plan: Plan<Settings>,
    pub(crate) service: Service,
    /// A number that no other run has: the beginning of all titles.
    pub(crate) run: u64,
    /// The issues that all agents update, with their ids.
    pub(crate) issues: Mutex<Vec<String>>,
    /// Number of workers, all in this process.
    workers: u64,
    account: Mutex<Account>,
    /// Flushes of the disk before the load.
    flushes: OnceLock<Option<u64>>,
}

#[derive(Debug, Default)]
struct Account {
    ledger: Ledger,
    left: u64,
}

impl Shared {
    pub(crate) fn new(
        plan: &Plan<Settings>,
        target: &Target,
        workers: u64,
    ) -> anyhow::Result<Self> {
        let [address] = target.addresses.as_slice() else {
            bail!("one issue daemon serves a database: give one socket, and --instances 1");
        };
        let service = match address {
            Address::Socket(path) => Service::Daemon(path.clone()),
            Address::Url(url) => {
                match Peer::parse(url).map_err(|error| Invalid::new("TARGET", error.to_string()))? {
                    Some(peer) => Service::Peer(peer),
                    None => {
                        let problem = "has an unknown scheme: write the path of a socket, postgresql:SOCKET, redis:SOCKET or etcd://HOST:PORT";
                        return Err(Invalid::new(format!("URL {url}"), problem).into());
                    }
                }
            }
        };
        let scenario = plan.driver.scenario;
        if matches!(service, Service::Peer(_)) && !scenario.is_for_peers() {
            let problem = "needs an issue daemon: other databases can do concurrent-agents, unique-ids and ping";
            return Err(Invalid::new("driver.scenario (--scenario)", problem).into());
        }
        Ok(Self {
            plan: plan.clone(),
            service,
            run: rand::random(),
            issues: Mutex::default(),
            workers,
            account: Mutex::default(),
            flushes: OnceLock::new(),
        })
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.plan.driver
    }

    /// Returns the label of the issues that all agents share.
    pub(crate) fn label(&self) -> String {
        format!("shared-{:016x}", self.run)
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.settings().timeout
    }

    pub(crate) fn issues(&self) -> Vec<String> {
        let issues = self.issues.lock().unwrap_or_else(PoisonError::into_inner);
        issues.clone()
    }

    /// Notes the beginning of the load; the first worker's counts.
    pub(crate) fn begin(&self) {
        self.flushes
            .get_or_init(|| disk_flushes(&std::env::temp_dir()));
    }

    /// Takes over the ledger of a worker that has ended. After the last one, compares all that was answered with the
    /// database.
    ///
    /// # Errors
    /// The database cannot be read at the end.
    pub(crate) fn leave(&self, ledger: Ledger, record: &Recorder) -> anyhow::Result<()> {
        let mut account = self.account.lock().unwrap_or_else(PoisonError::into_inner);
        account.ledger.merge(ledger);
        account.left += 1;
        if account.left < self.workers {
            return Ok(());
        }
        if self.settings().scenario.writes() {
            self.probe_disk(record);
        }
        let Service::Daemon(socket) = &self.service else {
            return Ok(());
        };
        let invoked_ns = clock::now();
        let rows = Rows::read(socket)
            .context("the answers cannot be compared with the database at the end of the run")?;
        let span = Span {
            invoked_ns,
            returned_ns: Some(clock::now()),
        };
        let settings = self.settings();
        let ledger = &mut account.ledger;
        for id in self.issues() {
            ledger.lists.acknowledge(&id, 0);
            // What is stored must be the last write: one more read.
            if let Some(value) = rows.assignee(&id) {
                let histories = &mut ledger.histories;
                histories.assignee(&id, u32::MAX, span, Kind::Read(value));
            }
        }
        let mut found = ledger.compare(self.run, &rows, settings.scenario.describes());
        // Others may delete issues.
        if !settings.existing_database {
            ledger.lists.compare(&rows, &mut found);
        }
        let checked = ledger.histories.check();
        for violation in checked.violations.iter().take(3) {
            harness::output::note(&format!("not linearizable: {violation}"));
        }
        for (name, number) in [
            (count::LOST, found.lost),
            (count::PHANTOM, found.phantom),
            (count::DUPLICATED, found.duplicated),
            (count::DUPLICATE_IDS, found.duplicate_ids),
            (count::PARTIAL_BATCHES, found.partial_batches),
            (count::WRONG_COUNTS, found.wrong_counts),
            (count::ALTERED, found.altered),
            (count::FOREIGN_LISTED, found.foreign_listed),
            (count::UNLISTED, found.unlisted),
            (count::UNCHECKED_LISTS, found.unchecked_lists),
            (count::NOT_LINEARIZABLE, checked.violations.len() as u64),
            (count::UNDECIDED, checked.undecided),
            (count::CHECKED, checked.operations),
            (count::UNCHECKED, checked.left_out),
        ] {
            record.count(name, number);
        }
        Ok(())
    }

    /// Records what a sync costs on the disk of this minute, and how many the load has caused. Without a disk, nothing is
    /// recorded.
    fn probe_disk(&self, record: &Recorder) {
        let folder = std::env::temp_dir();
        if let (Some(before), Some(after)) =
            (self.flushes.get().copied().flatten(), disk_flushes(&folder))
        {
            record.count(count::DISK_FLUSHES, after.saturating_sub(before));
        }
        let probed = Probe::new(&folder).and_then(|mut probe| {
            (0..SYNCS).try_for_each(|_| {
                record.value(spec::SYNC, probe.sync()?);
                Ok(())
            })
        });
        if let Err(error) = probed {
            harness::output::note(&format!("the disk was not probed: {error}"));
        }
    }
}
