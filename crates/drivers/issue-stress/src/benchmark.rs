//! Benchmarks of single operations: through the daemon, directly, and by the program `issue`, in turns.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use harness::output;
use issue_rpc::{Call, Client, Direct, socket_path};
use issue_store::Options;
use load::clock;
use measure::change::{Change, ChangeScale, Figure};
use measure::summary::SummaryStats;
use measure::units;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use subject::disk::Probe;

/// Operations of a round by a program are fewer by this factor: each starts a process.
const PROGRAM_SHARE: u32 = 5;
const READY_LIMIT: Duration = Duration::from_secs(10);
const INTERVAL: Duration = Duration::from_millis(5);

/// Options of the benchmark.
#[derive(Debug, Args)]
pub struct BenchmarkArgs {
    /// Repeat the turns this often; five or more give intervals
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = load::number::within(1..=1_000_u32))]
    rounds: u32,
    /// Set the operations of a turn; those that start a program are a fifth of them
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100, value_parser = load::number::within(1..=100_000_u32))]
    ops: u32,
    /// Create this many issues before
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = load::number::within(1..=1_000_000_u32))]
    issues: u32,
    /// Use the programs `issue` and `issue-daemon` in this folder [default: this program's]
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// Print the medians of all rounds as JSON
    #[arg(long)]
    json: bool,
}

/// A way to perform operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Daemon,
    Direct,
    /// The program, while a daemon runs.
    Program,
    ProgramDirect,
}

impl Way {
    const ALL: [Self; 4] = [
        Self::Daemon,
        Self::Direct,
        Self::Program,
        Self::ProgramDirect,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Direct => "direct",
            Self::Program => "issue, daemon",
            Self::ProgramDirect => "issue --direct",
        }
    }
}

const OPERATIONS: [&str; 4] = ["create", "update", "list", "ping"];

/// The medians of the rounds of an operation in a way, nanoseconds.
#[derive(Debug)]
struct BenchmarkRow {
    operation: &'static str,
    way: Way,
    medians: Vec<f64>,
}

/// Runs the benchmark, and prints its table.
///
/// # Errors
/// A program is missing, or an operation failed.
pub(crate) fn run(args: &BenchmarkArgs) -> anyhow::Result<()> {
    let mut subjects = Subjects::start(args)?;
    let mut rows: Vec<BenchmarkRow> = OPERATIONS
        .iter()
        .flat_map(|operation| Way::ALL.map(|way| (*operation, way)))
        // Without a daemon nobody answers a ping.
        .filter(|(operation, way)| {
            *operation != "ping" || matches!(way, Way::Daemon | Way::Program)
        })
        .map(|(operation, way)| BenchmarkRow {
            operation,
            way,
            medians: Vec::new(),
        })
        .collect();
    let mut syncs = Vec::new();
    for round in 0..args.rounds as usize {
        output::note(&format!("round {} of {}", round + 1, args.rounds));
        let probed = (0..args.ops).map(|_| subjects.probe.sync());
        syncs.push(median(probed.collect::<std::io::Result<_>>()?));
        let count = rows.len();
        for turn in 0..count {
            // Each round begins with another row, so that none is always measured after the same one.
            let row = &mut rows[(turn + round) % count];
            let times = subjects.times(row.operation, row.way, args.ops)?;
            row.medians.push(median(times));
        }
    }
    let text = if args.json {
        json_of(&rows, &syncs).to_string() + "\n"
    } else {
        table(&rows, &syncs)
    };
    Ok(output::print(&text)?)
}

fn median(times: Vec<u64>) -> f64 {
    let times = times.into_iter().map(|time| time as f64);
    SummaryStats::from_values(times).map_or(0.0, |summary| summary.median)
}

fn json_of(rows: &[BenchmarkRow], syncs: &[f64]) -> Value {
    let rows = rows.iter().map(
        |row| json!({"operation": row.operation, "way": row.way.name(), "median_ns": row.medians}),
    );
    json!({"unit": "ns", "sync_median_ns": syncs, "rows": rows.collect::<Vec<_>>()})
}

fn table(rows: &[BenchmarkRow], syncs: &[f64]) -> String {
    let mut text = format!(
        "{:<10}{:<16}{:>10}   {}\n",
        "operation", "way", "median", "time relative to the daemon's (95 % interval over rounds)"
    );
    let line = |operation: &str, way: &str, medians: &[f64], change: Option<Change>| {
        let summary = SummaryStats::from_values(medians.iter().copied());
        let time = summary.map_or_else(String::new, |summary| units::us(summary.mean));
        let ratio = change.map(|change| {
            let interval = change.finding(true, 0.05).interval;
            let interval = interval.map(|(low, high)| format!(" ({low:.2}–{high:.2})"));
            format!("{:.2} ×{}", change.value(), interval.unwrap_or_default())
        });
        let ratio = ratio.unwrap_or_default();
        format!("{operation:<10}{way:<16}{time:>10}   {ratio}\n")
    };
    for row in rows {
        let of_daemon = rows
            .iter()
            .find(|other| other.operation == row.operation && other.way == Way::Daemon)
            .filter(|_| row.way != Way::Daemon);
        let change = of_daemon.and_then(|daemon| {
            // The clock counts nanoseconds, which is as good as exact here.
            let figure = |value: &f64| Figure {
                value: *value,
                quantum: 0.0,
            };
            let medians = row.medians.iter().map(figure);
            Change::paired(
                ChangeScale::Ratio,
                daemon.medians.iter().map(figure).zip(medians),
            )
        });
        text += &line(row.operation, row.way.name(), &row.medians, change);
    }
    text += &line("sync", "4 KiB in place", syncs, None);
    text
}

/// The daemon, the databases and the programs.
#[derive(Debug)]
struct Subjects {
    client: Client,
    direct: Direct,
    probe: Probe,
    program: PathBuf,
    served: PathBuf,
    own: PathBuf,
    /// The issue that is updated: its id in the daemon's database, and in the other one.
    ids: [String; 2],
    updates: u32,
    /// Fields are dropped in this order: the daemon ends before its folder is removed.
    _daemon: Running,
    _folder: tempfile::TempDir,
}

/// A process that is stopped at the end.
#[derive(Debug)]
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

impl Subjects {
    fn start(args: &BenchmarkArgs) -> anyhow::Result<Self> {
        let [program, daemon] = programs(args.programs.as_deref())?;
        let folder = tempfile::tempdir().context("cannot create a folder for the databases")?;
        let probe = Probe::new(folder.path())?;
        let [served, own] =
            ["served", "own"].map(|name| folder.path().join(name).join("issues.db"));
        for database in [&served, &own] {
            std::fs::create_dir(database.with_file_name(""))?;
        }
        let child = Command::new(&daemon)
            .arg("--db")
            .arg(&served)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", daemon.display()))?;
        let daemon = Running(child);
        let mut client = connect(&socket_path(&served))?;
        let mut direct = Direct::open(&own, Options::default())?;
        let first = create(0);
        let ids = [
            id_of(client.call(&first)?.get())?,
            id_of(direct_call(&mut direct, &first)?.get())?,
        ];
        for call in (1..args.issues).map(create) {
            client.call(&call)?;
            direct_call(&mut direct, &call)?;
        }
        Ok(Self {
            client,
            direct,
            probe,
            program,
            served,
            own,
            ids,
            updates: 0,
            _daemon: daemon,
            _folder: folder,
        })
    }

    /// Performs an operation several times. Returns the nanoseconds of each.
    fn times(&mut self, operation: &str, way: Way, ops: u32) -> anyhow::Result<Vec<u64>> {
        let ops = match way {
            Way::Daemon | Way::Direct => ops,
            Way::Program | Way::ProgramDirect => (ops / PROGRAM_SHARE).max(1),
        };
        (0..ops).map(|_| self.time(operation, way)).collect()
    }

    fn time(&mut self, operation: &str, way: Way) -> anyhow::Result<u64> {
        self.updates += 1;
        let priority = self.updates % 5;
        let id = &self.ids[usize::from(matches!(way, Way::Direct | Way::ProgramDirect))];
        let call = match operation {
            "create" => create(self.updates),
            "update" => Call::new("update", json!({"id": id, "priority": priority})),
            "list" => Call::new("list", json!({"limit": 50})),
            other => Call::new(other, json!({})),
        };
        let words = match operation {
            "create" => vec!["create".to_owned(), format!("issue {}", self.updates)],
            "update" => vec![
                "update".to_owned(),
                id.clone(),
                format!("--priority={priority}"),
            ],
            "list" => ["list", "--limit=50"].map(str::to_owned).to_vec(),
            other => vec!["call".to_owned(), other.to_owned()],
        };
        let begun = clock::now();
        match way {
            Way::Daemon => drop(self.client.call(&call)?),
            Way::Direct => drop(direct_call(&mut self.direct, &call)?),
            Way::Program => run_program(&self.program, &self.served, &words)?,
            Way::ProgramDirect => {
                run_program(
                    &self.program,
                    &self.own,
                    &[words, vec!["--direct".to_owned()]].concat(),
                )?;
            }
        }
        Ok(clock::now() - begun)
    }
}

fn create(number: u32) -> Call {
    Call::new("create", json!({"title": format!("issue {number}")}))
}

fn direct_call(
    direct: &mut Direct,
    call: &Call,
) -> anyhow::Result<Box<serde_json::value::RawValue>> {
    Ok(direct.perform(call, "issue-stress", Some(Duration::from_secs(30)))?)
}

fn id_of(data: &str) -> anyhow::Result<String> {
    let data: Value = serde_json::from_str(data)?;
    let id = data["id"]
        .as_str()
        .context("the answer to a create has no id")?;
    Ok(id.to_owned())
}

fn run_program(program: &Path, database: &Path, words: &[String]) -> anyhow::Result<()> {
    let output = Command::new(program)
        .arg("--db")
        .arg(database)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if !output.status.success() {
        bail!(
            "{}: {}",
            program.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

fn connect(socket: &Path) -> anyhow::Result<Client> {
    let limit = clock::now() + READY_LIMIT.as_nanos() as u64;
    loop {
        match Client::connect(socket, "issue-stress") {
            Err(_) if clock::now() < limit => thread::sleep(INTERVAL),
            other => return Ok(other?),
        }
    }
}

/// Returns the paths of `issue` and `issue-daemon`.
fn programs(folder: Option<&Path>) -> anyhow::Result<[PathBuf; 2]> {
    let own = std::env::current_exe()?;
    let folder = folder
        .or_else(|| own.parent())
        .context("this program is in no folder")?;
    let paths = ["issue", "issue-daemon"].map(|name| folder.join(name));
    if let Some(missing) = paths.iter().find(|path| !path.exists()) {
        bail!(
            "{} does not exist: build it with `cargo build --release -p issue-cli -p issue-daemon`, or give the folder with --programs",
            missing.display()
        );
    }
    Ok(paths)
}
