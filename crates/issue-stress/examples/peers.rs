//! Creates issues in a database in a closed loop, beside a probe of the disk:
//!
//! ```text
//! cargo run --release -p issue-stress --example peers -- TARGET AGENTS SECONDS
//! ```
//!
//! TARGET is a daemon (`postgresql-issues`), which is launched, or the URL of one that runs.

#![expect(clippy::print_stdout, reason = "an example prints its figures")]

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use issue_stress::peers::{Connection, NewIssue, Peer};
use load::clock;
use load::driver::Address;
use measure::tally::Distribution;
use subject::daemon::{Daemon, Options};
use subject::usage::{self, Sampler};
use tokio::task::JoinSet;

/// Time that each probe takes, before and after the load.
const PROBE_NS: u64 = 1_000_000_000;
const PAGE: [u8; 4096] = [7; 4096];

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [target, agents, seconds] = words.as_slice() else {
        bail!("usage: peers TARGET AGENTS SECONDS");
    };
    let (agents, seconds) = (agents.parse()?, seconds.parse()?);
    // As a driver's worker: one thread, which leaves the other CPUs to the database.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(run(target, agents, seconds))
}

async fn run(target: &str, agents: u32, seconds: u64) -> anyhow::Result<()> {
    let mut daemon = None;
    let url = if target.contains(':') {
        target.to_owned()
    } else {
        let (name, query) = target.split_once('?').unwrap_or((target, ""));
        let root = subject::manifest::find_root().context("finding the project")?;
        let prepared = Daemon::prepare(&root, name, "issue", &mut |_| {})?;
        let started = daemon.insert(prepared.start(&[], &Options::default()).await?);
        match started.endpoint().address(None) {
            Some(Address::Url(url)) if query.is_empty() => url,
            Some(Address::Url(url)) => format!("{url}?{query}"),
            _ => bail!("{target} has no URL"),
        }
    };
    let peer = Peer::parse(&url)?.with_context(|| format!("{url} is no database"))?;
    let mut sampler = daemon
        .as_ref()
        .map(|daemon| Sampler::new(daemon.pid(), &[]));
    let probed_before = probe()?;
    measure(&peer, agents, seconds, &mut sampler).await?;
    println!(
        "  fdatasync probe {probed_before:.0}/s before, {:.0}/s after",
        probe()?
    );
    if let Some(mut daemon) = daemon {
        let stopped = daemon.stop().await;
        println!("  stopped: {stopped:?}");
    }
    Ok(())
}

async fn measure(
    peer: &Peer,
    agents: u32,
    seconds: u64,
    sampler: &mut Option<Sampler>,
) -> anyhow::Result<()> {
    peer.prepare().await?;
    let mut connections = Vec::new();
    for agent in 0..agents {
        let mut connection = peer.connect(agent).await?;
        connection.ping().await?;
        connections.push(connection);
    }
    let mut cpu_ms = || {
        let sample = sampler.as_mut().map(|sampler| sampler.sample(clock::now()));
        sample.map(|sample| (sample.utime_ticks + sample.stime_ticks) * 1000 / usage::ticks_per_s())
    };
    let (begin, cpu_before, own_before) = (clock::now(), cpu_ms(), clock::thread_cpu_ns());
    let end = begin + seconds * 1_000_000_000;
    let mut running = JoinSet::new();
    for (agent, connection) in connections.into_iter().enumerate() {
        running.spawn(create_until(connection, agent, end));
    }
    let mut times = Distribution::default();
    let mut open = Vec::new();
    while let Some(ended) = running.join_next().await {
        let (connection, recorded) = ended??;
        times.merge(&recorded);
        open.push(connection);
    }
    let took = (clock::now() - begin) as f64 / 1e9;
    let ms = |quantile: f64| times.quantile(quantile).unwrap_or_default() as f64 / 1e6;
    println!(
        "{peer:?}\n  {agents} agents: {} creates in {took:.1} s = {:.0}/s, p50 {:.2} ms, p99 {:.2} ms",
        times.len(),
        times.len() as f64 / took,
        ms(0.5),
        ms(0.99)
    );
    // The servers' processes end with the connections.
    let per_create = |ms: u64| ms as f64 * 1e3 / times.len().max(1) as f64;
    if let (Some(before), Some(after)) = (cpu_before, cpu_ms()) {
        println!(
            "  CPU of the server {:.0} µs per create",
            per_create(after - before)
        );
    }
    let own = (clock::thread_cpu_ns() - own_before) / 1_000_000;
    println!("  CPU of the client {:.0} µs per create", per_create(own));
    drop(open);
    Ok(())
}

async fn create_until(
    mut connection: Connection,
    agent: usize,
    end: u64,
) -> anyhow::Result<(Connection, Distribution)> {
    let mut times = Distribution::default();
    let actor = format!("agent-{agent}");
    let run = clock::unix_ns();
    for number in 0_u64.. {
        let begin = clock::now();
        if begin >= end {
            break;
        }
        let issue = NewIssue {
            id: &format!("issue-{run:x}-{agent}-{number}"),
            title: "Lets an agent create one issue more",
            description: "",
            label: "stress",
            actor: &actor,
            at_us: clock::unix_ns() / 1000,
        };
        connection.create(&issue).await?;
        times.record(clock::now() - begin);
    }
    Ok((connection, times))
}

/// Returns the number of appended pages that can be synced in a second, one after the other.
fn probe() -> anyhow::Result<f64> {
    let mut file: File = tempfile::tempfile_in(Path::new(&std::env::temp_dir()))?;
    let (begin, mut count) = (clock::now(), 0_u32);
    while clock::now() - begin < PROBE_NS {
        file.write_all(&PAGE)?;
        file.sync_data()?;
        count += 1;
    }
    Ok(f64::from(count) * 1e9 / (clock::now() - begin) as f64)
}
