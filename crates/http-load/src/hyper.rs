//! The engine `hyper`: HTTP/1.1 and HTTP/2, with and without TLS, using the hyper library.
//!
//! Each connection is a future that connects, sends requests and ends. The worker's loop polls woken futures, takes
//! starts from the schedule, and sweeps for timeouts from time to time. So no future has its own timer, shared state
//! needs no lock, and the futures borrow it.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::Poll;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hyper::client::conn::http1;
use load::clock::{self, Timer};
use load::driver::Worker;
use load::opening::WorkerOpening;
use load::pacer::Pacer;
use load::plan::Invalid;
use tokio::task::coop::unconstrained;

use crate::driver::HttpLoad;
use crate::settings::Settings;
use crate::target::Server;
use crate::tls::Tls;

mod desk;
mod dial;
mod fault;
mod fetch;
mod link;
mod local;
mod message;
mod meter;
mod seat;
mod sender;

use desk::WorkerState;
use message::Messages;

pub(crate) use dial::ConnectError;
pub(crate) use fetch::fetch;

/// Maximum length of a head, as in the other engine.
const HEAD: usize = 64 * 1024;

/// The requests to one server, with its TLS and HTTP configuration.
#[derive(Debug)]
pub(crate) struct Prepared {
    messages: Messages,
    tls: Option<Tls>,
    http1: http1::Builder,
}

impl Prepared {
    /// Prepares the requests to a server.
    ///
    /// # Errors
    /// An invalid setting, with the remedy.
    pub(crate) fn new(settings: &Settings, server: &Server) -> Result<Self, Invalid> {
        let messages = Messages::new(settings, server)?;
        let mut http1 = http1::Builder::new();
        http1
            .allow_obsolete_multiline_headers_in_responses(true)
            .max_header_size(HEAD)
            .max_buf_size(HEAD)
            // Without bodies, vectored writes would save nothing.
            .writev(messages.have_bodies());
        let tls = server.tls.then(|| Tls::new(server, settings)).transpose()?;
        Ok(Self {
            messages,
            tls,
            http1,
        })
    }
}

/// Does one worker's share of the load.
pub(crate) async fn work(driver: &HttpLoad, mut worker: Worker) -> anyhow::Result<()> {
    let timer = Timer::new()?;
    let pacer = std::mem::replace(&mut worker.pacer, Pacer::new(0, 0, Vec::new()));
    let opening = std::mem::replace(&mut worker.opening, WorkerOpening::new(None));
    let shared = WorkerState::new(driver, &worker, pacer, opening);
    let mut connections = FuturesUnordered::new();
    loop {
        let now = clock::now();
        let next = shared.run_once(now);
        let deadline = shared.deadline();
        if shared.is_done(now) || now >= deadline {
            break;
        }
        while let Some(pending) = shared.next_connect() {
            connections.push(unconstrained(link::serve_connection(&shared, pending)));
        }
        let until = worker.record.wait_until(next.min(deadline), now);
        let mut wait = pin!(timer.sleep_until(until));
        poll_fn(|context| {
            while let Poll::Ready(Some(())) = connections.poll_next_unpin(context) {}
            match shared.wake_early() {
                true => Poll::Ready(()),
                false => wait.as_mut().poll(context),
            }
        })
        .await;
    }
    shared.record_unfinished();
    Ok(())
}
