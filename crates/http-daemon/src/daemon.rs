//! The daemon: what is made once, and the processes that serve.

use std::io::{self, Write as _};
use std::sync::Arc;

use anyhow::Context as _;
use daemon_kit::{Signals, pages};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use crate::config::Config;
use crate::counts::Shared;
use crate::files;
use crate::limits::room;
use crate::listener::Sockets;
use crate::process::{Children, Process, hold_signals, parent_asks, release_signals};
use crate::sink::Limits;
use crate::tls;

/// Serves until SIGTERM or SIGINT, and until what is in flight is done then; a second signal ends that. To be called
/// while the process has one thread, for it may make processes of itself.
///
/// # Errors
/// What could not be made or listened on, and why; or what ended the daemon.
pub fn run(mut config: Config) -> anyhow::Result<()> {
    let room = room()?;
    warn_of_room(&config, room);
    // No error: a manifest that names a port for HTTPS serves both modes.
    if config.sink_body.is_some() && config.https_port.take().is_some() {
        tell("the sink speaks no TLS: nothing listens on the port of HTTPS (--https-port)");
    }
    if config.sink_body.is_none() {
        files::prepare(&config.root)?;
    }
    let certificate = config.certificate.as_ref();
    let tls = config
        .https_port
        .map(|_| tls::acceptor(certificate, config.bind))
        .transpose()?;
    let sockets = Sockets::bind(&config)?;
    let shared = Shared::new(config.processes * config.workers)?;
    let config = Arc::new(config);
    let mut listeners = sockets.workers.into_iter();
    let mut processes: Vec<Process> = (0..config.processes)
        .map(|index| Process {
            config: Arc::clone(&config),
            index,
            listeners: listeners.by_ref().take(config.workers).collect(),
            shared,
            limits: Limits {
                max: config.max_connections,
                room,
            },
            tls: tls.clone(),
        })
        .collect();
    let places = sockets.places;
    let tell_places = || {
        places
            .iter()
            .for_each(|place| tell(&format!("listening on {place}")));
    };
    let page = move || shared.page();
    hold_signals()?;
    if config.processes == 1
        && let Some(process) = processes.pop()
    {
        tell_places();
        return control(sockets.pages, page, |asked| process.serve(asked));
    }
    let mut children = Children::default();
    for index in 0..config.processes {
        // This runs in the child alone, on its own copy.
        children.start(|| {
            let own = processes.swap_remove(index);
            // The listeners of the others would keep taking connections that nobody accepts.
            processes.clear();
            serve_child(own)
        })?;
    }
    drop(processes);
    tell_places();
    control(sockets.pages, page, |asked| children.watch(asked))
}

/// Obeys signals and serves the pages beside what runs.
fn control<F: Future<Output = anyhow::Result<()>>>(
    listener: Option<std::net::TcpListener>,
    page: impl Fn() -> String,
    run: impl FnOnce(futures_util::future::BoxFuture<'static, ()>) -> F,
) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let ended = runtime.block_on(async {
        let mut signals = Signals::new()?;
        release_signals()?;
        let listener = listener
            .map(TcpListener::from_std)
            .transpose()
            .context("watching the metrics port")?;
        let pages = async {
            match listener {
                Some(listener) => pages::serve(listener, page).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = signals.run(run) => ended.unwrap_or(Ok(())),
            () = pages => unreachable!("pages are served for ever"),
        }
    });
    // A worker may still be about its last requests; whoever was impatient does not wait for it.
    runtime.shutdown_background();
    ended
}

fn serve_child(process: Process) -> i32 {
    let serve = || {
        let runtime = runtime()?;
        runtime.block_on(async { process.serve(parent_asks()?).await })
    };
    match serve() {
        Ok(()) => 0,
        Err(error) => {
            tell(&format!("{error:#}"));
            1
        }
    }
}

fn runtime() -> anyhow::Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting a runtime")
}

fn warn_of_room(config: &Config, room: u64) {
    let all = room.saturating_mul(config.processes as u64);
    if all < config.max_connections && config.max_connections != u64::MAX {
        let processes = config.max_connections.div_ceil(room);
        let max = config.max_connections;
        tell(&format!(
            "the limit of open files leaves room for {all} of {max} connections; for all of them, raise it (ulimit -Hn) \
            or start with --processes {processes}"
        ));
    }
}

/// For whoever started it, whatever the level of logging.
fn tell(message: &str) {
    // Nothing can be done about a stderr that is gone.
    let _ = writeln!(io::stderr(), "http-daemon: {message}");
}
