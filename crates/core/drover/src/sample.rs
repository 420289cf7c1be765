//! `drover sample`: writes what a running process uses to a CSV file, without a load.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::Args;
use harness::failure::Failure;
use harness::output;
use harness::signals::Signals;
use load::{clock, duration, number};
use subject::usage::{Sampler, csv_header, csv_row};
use subject::{listeners, prometheus};
use tokio::time::MissedTickBehavior;

use crate::exit;

/// Options of the command line.
#[derive(Debug, Args)]
pub(crate) struct SampleOptions {
    /// Sample this process and all its children
    #[arg(value_name = "PID", value_parser = number::whole::<u32>)]
    pid: u32,
    /// Write the samples to this new file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Fetch this metrics page with each sample: a port of this machine, or a URL
    #[arg(value_name = "METRICS", value_parser = metrics_url)]
    metrics: Option<String>,
    /// Read the number of active connections from this metric of the page
    #[arg(long, value_name = "NAME", default_value = "daemon_active_connections")]
    gauge: String,
    /// Take a sample this often
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = interval)]
    interval: Duration,
}

fn interval(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        Duration::ZERO => Err("must be longer than 0: write 1s".to_owned()),
        interval => Ok(interval),
    }
}

fn metrics_url(text: &str) -> Result<String, String> {
    let url = match text.parse::<u16>() {
        Ok(port) => format!("http://127.0.0.1:{port}/metrics"),
        Err(_) => text.to_owned(),
    };
    prometheus::check_url(&url).map(|()| url)
}

/// Samples until the process ends or a signal comes.
///
/// # Errors
/// There is no such process, the file exists, the page or its metric is missing, or the disk is full.
pub(crate) async fn sample(options: &SampleOptions) -> Result<u8, Failure> {
    listeners::require_process(options.pid)
        .map_err(|invalid| Failure::Call(anyhow!("PID {}: {}", options.pid, invalid.problem)))?;
    options.connections().await.map_err(Failure::Call)?;
    let file = File::create_new(&options.file).with_context(|| {
        let path = options.file.display();
        format!("{path}: name a new file in a folder that exists")
    });
    let file = file.map_err(Failure::Call)?;
    options.record(file).await.map_err(Failure::Run)?;
    Ok(exit::FINE)
}

impl SampleOptions {
    async fn record(&self, mut file: File) -> anyhow::Result<()> {
        let path = self.file.display();
        let mut signals = Signals::listen()?;
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut sampler = Sampler::new(self.pid, &[]);
        let mut count: u64 = 0;
        output::note(&format!(
            "sampling process {} into {path}: Ctrl-C ends",
            self.pid
        ));
        writeln!(file, "{}", csv_header()).with_context(|| path.to_string())?;
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = signals.next() => break,
            }
            let sample = sampler.sample(clock::now());
            if sample.processes == 0 {
                output::note(&format!("process {} has ended", self.pid));
                break;
            }
            // A page that does not come leaves its column empty: the process may be ending.
            let connections = self.connections().await.unwrap_or_default();
            writeln!(file, "{}", csv_row(&sample, connections, None, None))
                .with_context(|| format!("{path}: after {count} samples"))?;
            count += 1;
        }
        output::note(&format!("{count} samples are in {path}"));
        Ok(())
    }

    /// Returns the number of active connections; `None` without a metrics page.
    async fn connections(&self) -> anyhow::Result<Option<f64>> {
        let Some(url) = &self.metrics else {
            return Ok(None);
        };
        let page = prometheus::scrape(url).await?;
        let gauge = &self.gauge;
        let value = page.get(gauge).copied().ok_or_else(|| {
            let names: Vec<&str> = page.keys().map(String::as_str).collect();
            anyhow!(
                "{url} has no {gauge}: name another with --gauge: {}",
                names.join(", ")
            )
        });
        value.map(Some)
    }
}
