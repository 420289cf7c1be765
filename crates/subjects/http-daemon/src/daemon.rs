//! The daemon: its shared resources, and the processes that serve.

use std::sync::Arc;

use anyhow::Context as _;
use daemon_kit::cli::print_note;
use daemon_kit::{MetricsPage, MetricsServer, Signals, open_files};
use tokio::runtime::{Builder, Runtime};

use crate::counts::{Limits, Shared};
use crate::files;
use crate::listener::Sockets;
use crate::options::Config;
use crate::process::{Children, Process, SIGNALS, parent_stop, stop_signals};
use crate::resources::Resources;
use crate::tls;

/// The program, before messages for the user at any log level.
const NAME: &str = env!("CARGO_PKG_NAME");
/// Descriptors reserved for other purposes than connections: the standard ones, listeners, runtimes, files that are
/// being read, scrapers.
const RESERVED_FILES: u64 = 128;

/// Serves until SIGTERM, SIGINT or SIGHUP, then finishes requests in flight; a second signal stops at once. Must be called
/// while the process has one thread, since it may fork.
///
/// # Errors
/// A resource that could not be created, an address that can't be listened on, or the failure that ended the daemon.
pub fn run(mut config: Config) -> anyhow::Result<()> {
    let room = open_files::raise_limit()?
        .saturating_sub(RESERVED_FILES)
        .max(1);
    warn_of_room(&config, room);
    // Not an error: a manifest that names a port for HTTPS serves both modes.
    let server = &mut config.server;
    if server.sink && server.https_port.take().is_some() {
        print_note(
            NAME,
            "the sink does not support TLS: the HTTPS port stays closed (--https-port)",
        );
    }
    let root = (!server.sink).then(|| files::open(&server.root));
    let root = root.transpose()?.map(Arc::new);
    let tls = server.https_port.map(|_| tls::acceptor(server));
    let sockets = Sockets::bind(server)?;
    let (count, workers) = (server.processes.get(), server.workers());
    let resources = Resources {
        counters: Shared::new(count * workers)?,
        page: Arc::new(MetricsPage::new()),
        limits: Limits {
            max: config.performance.max_connections.get(),
            room,
        },
        root,
        tls: tls.transpose()?,
        config: Arc::new(config),
    };
    let mut listeners = sockets.workers.into_iter();
    let mut processes: Vec<Process> = (0..count)
        .map(|index| Process {
            index,
            listeners: listeners.by_ref().take(workers).collect(),
            resources: resources.clone(),
        })
        .collect();
    let addresses = sockets.addresses;
    let print_addresses = || {
        addresses
            .iter()
            .for_each(|address| print_note(NAME, format_args!("listening on {address}")));
    };
    let page = move || resources.metrics();
    // While there is one thread: threads inherit the mask.
    stop_signals().thread_block().context(SIGNALS)?;
    if count == 1
        && let Some(process) = processes.pop()
    {
        print_addresses();
        return control(sockets.metrics, page, |asked| process.serve(asked));
    }
    let mut children = Children::default();
    for index in 0..count {
        // Runs only in the child, on its own copy.
        children.start(|| {
            let own = processes.swap_remove(index);
            // The other processes' listeners would keep taking connections that nobody accepts.
            processes.clear();
            serve_child(own)
        })?;
    }
    drop(processes);
    print_addresses();
    control(sockets.metrics, page, |asked| children.watch(asked))
}

/// Handles signals and serves the metrics pages while `run` runs.
fn control<F: Future<Output = anyhow::Result<()>>>(
    server: Option<MetricsServer>,
    page: impl Fn() -> String,
    run: impl FnOnce(futures_util::future::BoxFuture<'static, ()>) -> F,
) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let mut signals = Signals::new()?;
        stop_signals().thread_unblock().context(SIGNALS)?;
        let metrics = async {
            match server {
                Some(server) => server.serve(page, || None).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = signals.run_until_shutdown(run) => ended.unwrap_or(Ok(())),
            failed = metrics => failed.map(|never| match never {}),
        }
    });
    // A worker may still be serving its last requests; after a second signal, nobody waits for it.
    runtime.shutdown_background();
    ended
}

fn serve_child(process: Process) -> i32 {
    let serve = || {
        let runtime = runtime()?;
        runtime.block_on(async { process.serve(parent_stop()?).await })
    };
    match serve() {
        Ok(()) => 0,
        Err(error) => {
            print_note(NAME, format_args!("{error:#}"));
            1
        }
    }
}

fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a Tokio runtime")
}

fn warn_of_room(config: &Config, room: u64) {
    let max = config.performance.max_connections.get();
    let all = room.saturating_mul(config.server.processes.get() as u64);
    if all < max && max != u64::MAX {
        let processes = max.div_ceil(room);
        print_note(
            NAME,
            format_args!(
                "the limit of open files allows {all} of {max} connections; for all of them, raise it (ulimit -Hn) \
            or start with --processes {processes}"
            ),
        );
    }
}
