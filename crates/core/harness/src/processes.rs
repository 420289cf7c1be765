//! The processes that this program starts to have a share of the workers each.
//!
//! Each runs this program again, as a part of the run whose way to the others is a pair of pipes: it reads its
//! specification and `Orders` from stdin, and writes `Report`s to stdout, each as one JSON object per line. Reports
//! include the histograms, so that the sum is exact. It ends when stdin ends.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write as _};
use std::process::Stdio;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use load::driver::{Description, Driver, SharedProgress, Target, ValidPlan};
use load::opening_phase::OpeningPhase;
use load::recorder::WorkerSecond;
use load::workers::{Order, WorkerRange};
use measure::spec::SeriesSpec;
use measure::tally::{Decoder, PackedTally, Tally};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use crate::divided::Start;
use crate::run::Settings;

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod pipe;

pub use pipe::Pipe;
pub(crate) use pipe::process;

/// The argument that makes this program a process of another. It is not meant for people.
pub(crate) const PROCESS_ARGUMENT: &str = "--shard-of-parent";

/// The specification of a process.
#[derive(Debug, Serialize, Deserialize)]
struct ProcessSpec {
    /// The text of a plan file.
    plan: String,
    description: Description,
    target: Target,
    /// State that the check has learned.
    learned: serde_json::Value,
    workers: WorkerRange,
}

/// The orders to all processes so far. Each line repeats those before it.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Orders {
    start: Option<Start>,
    /// The begin of the load, once all connections are open, nanoseconds of CLOCK_MONOTONIC.
    load_begin: Option<u64>,
    /// The progress of operations that begin in one process and end in another.
    progress: Option<SharedProgress>,
    /// Nothing more is to be started, and open operations may take this long, nanoseconds.
    stop: Option<u64>,
}

/// A report of a process.
#[derive(Debug, Serialize, Deserialize)]
enum Report {
    Ready,
    /// All of its workers have opened all of their connections.
    Opened,
    WorkerSecond(Box<WorkerSecond<PackedTally>>),
    /// Operations that it has begun and not ended, now that it begins no more.
    OpenOperations(i64),
    /// Its ledger: its workers have ended.
    Ledger(String),
}

/// The part of a process in operations that begin in one process and end in another.
#[derive(Debug, Default)]
struct SharedState {
    /// Operations that it has begun and not ended, once it begins no more.
    open: Option<i64>,
    ledger: Option<String>,
}

/// The processes that this one has started.
#[derive(Debug)]
pub(crate) struct Processes {
    children: Vec<(Child, ChildStdin)>,
    readers: Vec<BufReader<ChildStdout>>,
    orders: Orders,
    /// The reports of each process that are not about a worker.
    shared: Vec<watch::Receiver<SharedState>>,
    /// Workers of each process.
    threads: u64,
    /// The reason why they were killed.
    killed: Arc<OnceLock<&'static str>>,
}

impl Processes {
    /// Starts the processes that the settings ask for, and waits until all are ready. Returns none if the workers are
    /// threads of this process. `learned` is what the check has learned.
    ///
    /// # Errors
    /// A process can't be started or ends before it is ready.
    pub(crate) async fn start<D: Driver>(
        load: &ValidPlan<D::Config>,
        settings: &Settings,
        target: &Target,
        learned: &serde_json::Value,
    ) -> anyhow::Result<Option<Self>> {
        let WorkerRange { count, shard, .. } = settings.workers_here();
        if settings.workers() == count {
            return Ok(None);
        }
        let (processes, threads) = (settings.processes, settings.threads);
        let plan = load.plan.to_toml()?;
        let specs = (0..processes).map(|index| ProcessSpec {
            plan: plan.clone(),
            description: load.description.clone(),
            target: target.clone(),
            learned: learned.clone(),
            workers: WorkerRange {
                first: index * threads,
                count: threads,
                total: processes * threads,
                shard,
            },
        });
        Self::spawn(threads, specs.collect()).await.map(Some)
    }

    async fn spawn(threads: u64, specs: Vec<ProcessSpec>) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut all = Self {
            children: Vec::new(),
            readers: Vec::new(),
            orders: Orders::default(),
            shared: Vec::new(),
            threads,
            killed: Arc::default(),
        };
        for spec in specs {
            // A process group of its own: Ctrl-C reaches only this process, which then stops the others.
            let mut child = Command::new(&program)
                .arg(PROCESS_ARGUMENT)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .process_group(0)
                .kill_on_drop(true)
                .spawn()
                .with_context(|| format!("starting {} once more", program.display()))?;
            let mut stdin = child.stdin.take().expect("stdin is piped");
            let stdout = child.stdout.take().expect("stdout is piped");
            all.readers.push(BufReader::new(stdout));
            send_line(&mut stdin, &spec.line()?).await?;
            all.children.push((child, stdin));
        }
        for reader in &mut all.readers {
            let mut line = String::new();
            reader.read_line(&mut line).await?;
            if !matches!(Report::parse(&line), Ok(Report::Ready)) {
                anyhow::bail!("a shard process ended before it was ready: see its message above");
            }
        }
        Ok(all)
    }

    /// Sends the start of the run to all processes, and forwards their reports.
    ///
    /// # Errors
    /// A process has ended.
    pub(crate) async fn go(
        &mut self,
        start: Start,
        series: &'static [SeriesSpec],
        opening: Option<&Arc<OpeningPhase>>,
        worker_seconds: &UnboundedSender<WorkerSecond>,
    ) -> anyhow::Result<()> {
        self.orders.start = Some(start);
        let orders = self.orders.line()?;
        for (_, stdin) in &mut self.children {
            send_line(stdin, &orders)
                .await
                .context("starting the run in a shard process")?;
        }
        for (index, reader) in self.readers.drain(..).enumerate() {
            let first = index as u64 * self.threads;
            let (shared, reports) = watch::channel(SharedState::default());
            self.shared.push(reports);
            tokio::spawn(forward(
                reader,
                series,
                first..first + self.threads,
                opening.cloned(),
                worker_seconds.clone(),
                shared,
                Arc::clone(&self.killed),
            ));
        }
        Ok(())
    }

    /// Tells an order to all workers.
    pub(crate) async fn obey(&mut self, order: Order) {
        match order {
            Order::BeginLoad(begin) => self.orders.load_begin = Some(begin),
            Order::Progress(progress) => self.orders.progress = Some(progress),
            Order::Stop(grace_ns) => self.orders.stop = Some(grace_ns),
        }
        let Ok(orders) = self.orders.line() else {
            return;
        };
        for (_, stdin) in &mut self.children {
            // A process that cannot be reached has ended already, and is reported as lost.
            let _ = send_line(stdin, &orders).await;
        }
    }

    /// Returns the processes that were not waited for.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.children.iter().filter_map(|(child, _)| child.id())
    }

    /// Returns how many operations all processes together have begun and not ended; `None` while one may begin more.
    pub(crate) fn open_operations(&self) -> Option<i64> {
        let open = self.shared.iter().map(|shared| shared.borrow().open);
        open.sum()
    }

    /// Returns the ledgers of the processes, once they have ended. A process that was killed has none.
    pub(crate) async fn ledgers(&mut self) -> Vec<String> {
        let mut ledgers = Vec::new();
        for shared in &mut self.shared {
            // The channel is closed when the process has ended.
            let _ = shared.wait_for(|shared| shared.ledger.is_some()).await;
            ledgers.extend(shared.borrow().ledger.clone());
        }
        ledgers
    }

    /// Kills all processes. Values that they have not reported are lost, for the reason `why`.
    pub(crate) fn kill(&mut self, why: &'static str) {
        let _ = self.killed.set(why);
        for (child, _) in &mut self.children {
            // A process that has ended needs no signal.
            let _ = child.start_kill();
        }
    }
}

// Asynchronous functions are compiled in the crates that await them: in every driver. So messages are converted by
// functions that are not.

impl ProcessSpec {
    fn line(&self) -> anyhow::Result<Vec<u8>> {
        line(self)
    }

    fn parse(line: &str) -> serde_json::Result<Self> {
        serde_json::from_str(line)
    }
}

impl Orders {
    fn line(&self) -> anyhow::Result<Vec<u8>> {
        line(self)
    }

    fn parse(line: &str) -> serde_json::Result<Self> {
        serde_json::from_str(line)
    }
}

impl Report {
    /// Sends this to the process that started this one.
    fn send(&self) -> anyhow::Result<()> {
        let line = line(self)?;
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(&line).and_then(|()| stdout.flush()) {
            // Nobody reads it any more. Stdin has ended too, which ends this process.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            sent => Ok(sent?),
        }
    }

    fn parse(line: &str) -> serde_json::Result<Self> {
        serde_json::from_str(line)
    }
}

async fn send_line(stdin: &mut ChildStdin, line: &[u8]) -> anyhow::Result<()> {
    stdin.write_all(line).await?;
    Ok(stdin.flush().await?)
}

fn line(message: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Reads a process's reports until it ends. Workers that did not report their end are reported as lost.
async fn forward(
    mut reader: BufReader<ChildStdout>,
    series: &'static [SeriesSpec],
    workers: std::ops::Range<u64>,
    mut opening: Option<Arc<OpeningPhase>>,
    worker_seconds: UnboundedSender<WorkerSecond>,
    shared: watch::Sender<SharedState>,
    killed: Arc<OnceLock<&'static str>>,
) {
    let count = workers.end - workers.start;
    let mut all_open = move || {
        if let Some(opening) = opening.take() {
            opening.opened_by(count);
        }
    };
    // The last second that each worker reported, and its open operations then.
    let mut running: BTreeMap<u64, (u64, i64)> = workers.map(|worker| (worker, (0, 0))).collect();
    let mut line = String::new();
    let mut decoder = Decoder::new();
    let mut why = "its process ended without an error message".to_owned();
    while let Ok(1..) = reader.read_line(&mut line).await {
        let report = Report::parse(&line).map_err(|error| error.to_string());
        match &report {
            Ok(Report::Opened) => all_open(),
            Ok(Report::OpenOperations(open)) => {
                shared.send_modify(|shared| shared.open = Some(*open));
            }
            Ok(Report::Ledger(ledger)) => {
                shared.send_modify(|shared| shared.ledger = Some(ledger.clone()));
            }
            _ => {}
        }
        match report.and_then(|report| read(report, series, &mut decoder)) {
            Ok(Some(worker_second)) => {
                let last = (worker_second.second, worker_second.active.at_end);
                match worker_second.ended {
                    Some(_) => drop(running.remove(&worker_second.worker)),
                    None => drop(running.insert(worker_second.worker, last)),
                }
                // The collector ends only after the run.
                let _ = worker_seconds.send(worker_second);
            }
            Ok(None) => {}
            Err(error) => why = format!("its process sent an unreadable report: {error}"),
        }
        line.clear();
    }
    // The run must not wait for the connections of a process that has ended.
    all_open();
    if let Some(reason) = killed.get() {
        why = (*reason).to_owned();
    }
    for (worker, (second, open)) in running {
        let lost = WorkerSecond::lost(worker, second, open, Tally::new(series), why.clone());
        let _ = worker_seconds.send(lost);
    }
}

fn read(
    report: Report,
    series: &'static [SeriesSpec],
    decoder: &mut Decoder,
) -> Result<Option<WorkerSecond>, String> {
    let Report::WorkerSecond(worker_second) = report else {
        return Ok(None);
    };
    // The tally is sent to the collector and does not come back, so each report has its own.
    let mut tally = Tally::new(series);
    tally
        .add_packed(&worker_second.tally, decoder)
        .map_err(|error| error.to_string())?;
    Ok(Some((*worker_second).replace(tally).0))
}
