//! Serves the driver's own `/metrics` page during a run.

use std::net::SocketAddr;

use anyhow::Context as _;
use measure::result::Cost;
use measure::tally::{Counts, Distribution, Tally};
use metrics::{Key, KeyName, Label, Level, Metadata, Recorder as _, SharedString};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use load::collector::RunSecond;

/// Upper bounds of the buckets, seconds: a 1-2-5 ladder from 1 µs to 100 s. Unlike summaries, buckets can be added up
/// over processes and time.
const BUCKETS: [f64; 25] = [
    1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1,
    0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0,
];

const METADATA: Metadata<'_> = Metadata::new("drover", Level::INFO, None);

/// A metrics page that is updated once a second.
#[derive(Debug)]
pub struct Exporter {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    server: tokio::task::JoinHandle<()>,
}

impl Exporter {
    /// Listens on `address`; needs a Tokio runtime. Every metric has the `labels`, which tell the runs of a suite apart.
    ///
    /// # Errors
    /// The address can't be listened on.
    pub fn listen(address: SocketAddr, labels: &[(&str, String)]) -> anyhow::Result<Self> {
        // The exporter binds inside its future; this trial detects a taken port before the run.
        drop(std::net::TcpListener::bind(address).context("can't listen on this address")?);
        let builder = labels
            .iter()
            .fold(PrometheusBuilder::new(), |builder, (name, value)| {
                builder.add_global_label(*name, value)
            });
        let (recorder, server) = builder
            .with_http_listener(address)
            .set_buckets(&BUCKETS)
            .and_then(PrometheusBuilder::build)
            .context("can't serve a metrics page")?;
        let handle = recorder.handle();
        let server = tokio::spawn(async move {
            // The page is only a view: the run continues without it.
            let _ = server.await;
        });
        Ok(Self {
            recorder,
            handle,
            server,
        })
    }

    /// Adds one second to the page.
    pub fn add(&self, run_second: &RunSecond) {
        let open = Key::from_static_name("drover_active_operations");
        let open_gauge = self.recorder.register_gauge(&open, &METADATA);
        open_gauge.set(run_second.open() as f64);
        let tally = &run_second.tally;
        self.counters("drover_count_total", "count", &tally.counts);
        self.counters("drover_errors_total", "kind", &tally.errors);
        self.series(tally);
        self.handle.run_upkeep();
    }

    /// Sets the resource use of a process tree, `daemon` or `driver`.
    pub fn set_usage(&self, process: &'static str, cost: &Cost) {
        let set = |name: &'static str, value: f64| {
            let label = Label::from_static_parts("process", process);
            let key = Key::from_parts(name, vec![label]);
            self.recorder.register_gauge(&key, &METADATA).set(value);
        };
        set("drover_cpu_ratio", cost.cpu_pct / 100.0);
        set("drover_resident_memory_bytes", cost.rss_kb as f64 * 1024.0);
        set("drover_open_files", cost.fds as f64);
    }

    /// Adds counts. The name of each is the value of a label.
    fn counters(&self, name: &'static str, label: &'static str, counts: &Counts) {
        for (value, count) in counts {
            let label = Label::new(label, value.clone());
            let key = Key::from_parts(name, vec![label]);
            let counter = self.recorder.register_counter(&key, &METADATA);
            counter.increment(*count);
        }
    }

    fn series(&self, tally: &Tally) {
        self.recorder.describe_histogram(
            KeyName::from_const_str("drover_duration_seconds"),
            Some(metrics::Unit::Seconds),
            SharedString::const_str("Measured series of the driver"),
        );
        for (name, values) in tally.series().chain([("lag", &tally.lag)]) {
            self.histogram(name, values);
        }
    }

    fn histogram(&self, series: &'static str, values: &Distribution) {
        let key = Key::from_parts(
            "drover_duration_seconds",
            vec![Label::from_static_parts("series", series)],
        );
        let histogram = self.recorder.register_histogram(&key, &METADATA);
        for value in values.histogram().iter_recorded() {
            histogram.record_many(
                value.value_iterated_to() as f64 / 1e9,
                value.count_since_last_iteration() as usize,
            );
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.server.abort();
    }
}
