//! The processes of a driver that hold a share of the workers each.
//!
//! A shard process runs this program again. It reads its specification from stdin and reports seconds on stdout, as one
//! JSON object per line. Reports include the histograms, so that the sum is exact. It ends when stdin ends.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use measure::spec::SeriesSpec;
use measure::tally::{Decoder, PackedTally, Tally};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use super::{Order, Threads, WorkerRange};
use crate::document;
use crate::driver::{Cancellation, Description, Driver, Phases, Target, ValidPlan};
use crate::limits;
use crate::opening_phase::OpeningPhase;
use crate::recorder::WorkerSecond;
use crate::schedule::Share;

/// Time between two counts of open operations once nothing more begins.
pub const COUNTING: Duration = Duration::from_millis(50);

/// The argument that makes this program a shard of another. It is not meant for people.
pub const SHARD_ARGUMENT: &str = "--shard-of-parent";

/// The specification of a shard process.
#[derive(Debug, Serialize, Deserialize)]
struct ShardSpec {
    /// The text of a plan file.
    plan: String,
    description: Description,
    target: Target,
    /// State that the check has learned.
    learned: serde_json::Value,
    range: WorkerRange,
}

/// The start of the run, in nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share, and as Unix time. It
/// follows the specification; [`Order`]s follow it, each one JSON object per line.
#[derive(Debug, Serialize, Deserialize)]
struct Start {
    origin: u64,
    unix_ns: u64,
}

/// A report of a shard process, one JSON object per line.
#[derive(Debug, Serialize, Deserialize)]
enum ShardEvent {
    Ready,
    /// All workers of the shard have opened all of their connections.
    Opened,
    WorkerSecond(Box<WorkerSecond<PackedTally>>),
    /// Operations that the shard has begun and not ended, now that it begins no more.
    OpenOperations(i64),
    /// The ledger of the shard, whose workers have ended.
    Ledger(String),
}

/// The part of a shard in operations that begin in one process and end in another.
#[derive(Debug, Default)]
struct ShardState {
    /// Operations that it has begun and not ended, once it begins no more.
    open: Option<i64>,
    ledger: Option<String>,
}

/// The shard processes of this process.
#[derive(Debug)]
pub struct Processes {
    children: Vec<(Child, ChildStdin)>,
    readers: Vec<BufReader<tokio::process::ChildStdout>>,
    /// The reports of each shard that are not about a worker.
    reports: Vec<watch::Receiver<ShardState>>,
    threads: u64,
    /// The reason why they were killed.
    killed: Arc<OnceLock<&'static str>>,
}

impl Processes {
    /// Starts `processes` shards with `threads` workers each and waits until all are ready.
    ///
    /// # Errors
    /// A process can't be started or ends before it is ready.
    pub async fn start<D: Driver>(
        load: &ValidPlan<D::Config>,
        learned: &serde_json::Value,
        target: &Target,
        processes: u64,
        threads: u64,
        shard: Share,
    ) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let plan = load.plan.to_toml()?;
        let mut all = Self {
            children: Vec::new(),
            readers: Vec::new(),
            reports: Vec::new(),
            threads,
            killed: Arc::default(),
        };
        for index in 0..processes {
            // A process group of its own: Ctrl-C reaches only this process, which then stops the shards.
            let mut child = Command::new(&program)
                .arg(SHARD_ARGUMENT)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .process_group(0)
                .kill_on_drop(true)
                .spawn()
                .with_context(|| format!("starting {} as a shard", program.display()))?;
            let mut stdin = child.stdin.take().expect("stdin is piped");
            all.readers.push(BufReader::new(
                child.stdout.take().expect("stdout is piped"),
            ));
            let order = ShardSpec {
                plan: plan.clone(),
                description: load.description.clone(),
                target: target.clone(),
                learned: learned.clone(),
                range: WorkerRange {
                    first: index * threads,
                    count: threads,
                    total: processes * threads,
                    shard,
                },
            };
            send_line(&mut stdin, order.line()?).await?;
            all.children.push((child, stdin));
        }
        for reader in &mut all.readers {
            let mut line = String::new();
            reader.read_line(&mut line).await?;
            match ShardEvent::parse(&line) {
                Ok(ShardEvent::Ready) => {}
                _ => anyhow::bail!(
                    "a shard process ended before it was ready: see its message above"
                ),
            }
        }
        Ok(all)
    }

    /// Sends the start of the run to all shards, also as Unix time, and forwards their reports.
    ///
    /// # Errors
    /// A shard has ended.
    pub async fn go<D: Driver>(
        &mut self,
        origin: u64,
        unix_ns: u64,
        opening: Option<&Arc<OpeningPhase>>,
        worker_seconds: &UnboundedSender<WorkerSecond>,
    ) -> anyhow::Result<()> {
        for (_, stdin) in &mut self.children {
            send_line(stdin, line(&Start { origin, unix_ns })?)
                .await
                .context("starting the run in a shard process")?;
        }
        for (index, reader) in self.readers.drain(..).enumerate() {
            let first = index as u64 * self.threads;
            let (shared, reports) = watch::channel(ShardState::default());
            self.reports.push(reports);
            tokio::spawn(forward(
                reader,
                &D::SPEC.series,
                first..first + self.threads,
                opening.cloned(),
                worker_seconds.clone(),
                shared,
                Arc::clone(&self.killed),
            ));
        }
        Ok(())
    }

    pub(super) async fn obey(&mut self, order: Order) {
        let Ok(line) = line(&order) else {
            return;
        };
        for (_, stdin) in &mut self.children {
            // A shard that cannot be reached has ended already, and is reported as lost.
            let _ = send_line(stdin, line.clone()).await;
        }
    }

    /// Returns how many operations all shards together have begun and not ended; `None` while one may begin more.
    pub(super) fn open_operations(&self) -> Option<i64> {
        let open = self.reports.iter().map(|reports| reports.borrow().open);
        open.sum()
    }

    /// Returns the ledgers of the shards, once they have ended. A shard that was killed has none.
    pub(super) async fn ledgers(&mut self) -> Vec<String> {
        let mut ledgers = Vec::new();
        for reports in &mut self.reports {
            // The channel is closed when the shard has ended.
            let _ = reports.wait_for(|shared| shared.ledger.is_some()).await;
            ledgers.extend(reports.borrow().ledger.clone());
        }
        ledgers
    }

    /// Kills all shards. Values that they have not reported are lost, for the reason `why`.
    pub fn kill(&mut self, why: &'static str) {
        let _ = self.killed.set(why);
        for (child, _) in &mut self.children {
            // A process that has ended needs no signal.
            let _ = child.start_kill();
        }
    }
}

async fn send_line(stdin: &mut ChildStdin, line: Vec<u8>) -> anyhow::Result<()> {
    stdin.write_all(&line).await?;
    Ok(stdin.flush().await?)
}

// Asynchronous functions are compiled in the crates that await them: in every driver. So messages are converted by
// functions that are not.

impl ShardSpec {
    fn line(&self) -> anyhow::Result<Vec<u8>> {
        line(self)
    }

    fn parse(line: &str) -> serde_json::Result<Self> {
        serde_json::from_str(line)
    }

    /// Prepares the driver, which has nothing to check any more.
    fn set_up<D: Driver>(self) -> anyhow::Result<(Arc<D>, ValidPlan<D::Config>)> {
        let load = ValidPlan {
            plan: document::parse(&self.plan)?,
            description: self.description,
        };
        let driver = D::setup(&load.plan, &self.target, &self.range)?;
        driver.learn(self.learned)?;
        Ok((Arc::new(driver), load))
    }
}

impl Order {
    fn parse(line: &str) -> serde_json::Result<Self> {
        serde_json::from_str(line)
    }
}

impl Start {
    fn parse(line: &str) -> serde_json::Result<Self> {
        serde_json::from_str(line)
    }
}

impl ShardEvent {
    fn parse(line: &str) -> serde_json::Result<Self> {
        serde_json::from_str(line)
    }
}

/// Reads a shard's reports until it ends. Workers that did not report their end are reported as lost.
async fn forward(
    mut reader: BufReader<tokio::process::ChildStdout>,
    series: &'static [SeriesSpec],
    workers: std::ops::Range<u64>,
    mut opening: Option<Arc<OpeningPhase>>,
    worker_seconds: UnboundedSender<WorkerSecond>,
    shared: watch::Sender<ShardState>,
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
        let report = ShardEvent::parse(&line).map_err(|error| error.to_string());
        match &report {
            Ok(ShardEvent::Opened) => all_open(),
            Ok(ShardEvent::OpenOperations(open)) => {
                shared.send_modify(|shared| shared.open = Some(*open));
            }
            Ok(ShardEvent::Ledger(ledger)) => {
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
    // The run must not wait for the connections of a shard that has ended.
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
    report: ShardEvent,
    series: &'static [SeriesSpec],
    decoder: &mut Decoder,
) -> Result<Option<WorkerSecond>, String> {
    let ShardEvent::WorkerSecond(worker_second) = report else {
        return Ok(None);
    };
    // The tally is sent to the collector and does not come back, so each report has its own.
    let mut tally = Tally::new(series);
    tally
        .add_packed(&worker_second.tally, decoder)
        .map_err(|error| error.to_string())?;
    Ok(Some((*worker_second).replace(tally).0))
}

/// Runs a whole shard process.
///
/// # Errors
/// The specification can't be read or prepared. Errors of workers are reported, not returned.
pub async fn shard<D: Driver>() -> anyhow::Result<()> {
    limits::raise_nofile()?;
    let mut orders = BufReader::new(tokio::io::stdin()).lines();
    let order = orders
        .next_line()
        .await?
        .context("no specification on stdin: a shard is started only by its parent process")?;
    let spec = ShardSpec::parse(&order)?;
    let range = spec.range.clone();
    let (driver, load) = spec.set_up::<D>()?;
    report(&ShardEvent::Ready)?;
    let Some(go) = orders.next_line().await? else {
        return Ok(());
    };
    let Start { origin, unix_ns } = Start::parse(&go)?;
    let cancellation = Arc::new(Cancellation::new()?);
    let (send, mut worker_seconds) = tokio::sync::mpsc::unbounded_channel();
    let limit = load.description.opening;
    let opening = Arc::new(OpeningPhase::new(range.count));
    let phases = Phases::after_opening(load.plan.timeline, origin, limit.unwrap_or_default());
    let threads = Threads::start(
        &driver,
        &load,
        range,
        (phases, unix_ns),
        limit.map(|_| &opening),
        &cancellation,
        &send,
    )?;
    drop(send);
    limits::lower_thread_priority();
    let (mut listening, mut is_opening) = (true, limit.is_some());
    let shares = load.description.shares_operations;
    let mut counting = tokio::time::interval(COUNTING);
    let mut last_open = None;
    loop {
        tokio::select! {
            _ = counting.tick(), if shares => {
                let open = threads.account.open();
                if let Some(open) = open.filter(|open| last_open != Some(*open)) {
                    last_open = Some(open);
                    report(&ShardEvent::OpenOperations(open))?;
                }
            },
            () = opening.all_open(), if is_opening => {
                is_opening = false;
                report(&ShardEvent::Opened)?;
            },
            order = orders.next_line(), if listening => match order? {
                Some(order) => threads.obey(Order::parse(&order)?),
                // The parent has ended: nobody will read a result.
                None => { cancellation.request(0); listening = false; }
            },
            worker_second = worker_seconds.recv() => match worker_second {
                Some(worker_second) => report_second(worker_second, &threads)?,
                None => break,
            },
        }
    }
    if shares {
        if let Some(open) = threads.account.open() {
            report(&ShardEvent::OpenOperations(open))?;
        }
        report(&ShardEvent::Ledger(threads.account.ledger()?))?;
    }
    Ok(())
}

fn report_second(worker_second: WorkerSecond, threads: &Threads) -> anyhow::Result<()> {
    let (worker, packed) = (worker_second.worker, worker_second.tally.pack());
    let (worker_second, tally) = worker_second.replace(packed);
    report(&ShardEvent::WorkerSecond(Box::new(worker_second)))?;
    threads.give_back(worker, tally);
    Ok(())
}

fn line(message: &impl Serialize) -> anyhow::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

fn report(report: &ShardEvent) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&line(report)?)?;
    Ok(stdout.flush()?)
}
