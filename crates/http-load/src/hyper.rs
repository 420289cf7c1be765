//! The engine `hyper`: HTTP/1.1 and HTTP/2, with and without TLS, by the library that Rust's servers and clients stand on.
//!
//! A connection is a future that makes it, asks over it and ends with it; the worker's own loop polls those that were
//! woken, takes starts from the schedule, and looks once in a while at what took too long. So nothing has a timer of its
//! own, what they share needs no lock, and they borrow it.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::task::Poll;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use harness::clock::{self, Clock};
use harness::driver::Worker;
use harness::opening::WorkerOpening;
use harness::pacer::Pacer;
use harness::plan::Invalid;
use hyper::client::conn::http1;
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

use desk::Desk;
use message::Messages;

pub(crate) use dial::Unconnected;
pub(crate) use fetch::fetch;

/// Longest head taken: that of the other engine.
const HEAD: usize = 64 * 1024;

/// What is asked of one server, and how.
#[derive(Debug)]
pub(crate) struct Prepared {
    messages: Messages,
    tls: Option<Tls>,
    http1: http1::Builder,
}

impl Prepared {
    /// For this server.
    ///
    /// # Errors
    /// A setting that can't be prepared, with the remedy.
    pub(crate) fn new(settings: &Settings, server: &Server) -> Result<Self, Invalid> {
        let messages = Messages::new(settings, server)?;
        let mut http1 = http1::Builder::new();
        http1
            .allow_obsolete_multiline_headers_in_responses(true)
            .max_header_size(HEAD)
            .max_buf_size(HEAD)
            // One piece more is copied where there is none to be saved.
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
    let mut clock = Clock::real()?;
    let pacer = std::mem::replace(&mut worker.pacer, Pacer::new(0, 0, Vec::new()));
    let opening = std::mem::replace(&mut worker.opening, WorkerOpening::new(None));
    let desk = Desk::new(driver, &worker, pacer, opening);
    let mut links = FuturesUnordered::new();
    loop {
        let now = clock::now();
        let next = desk.turn(now);
        let deadline = desk.deadline();
        if desk.over(now) || now >= deadline {
            break;
        }
        while let Some(birth) = desk.born() {
            links.push(unconstrained(link::live(&desk, birth)));
        }
        let until = worker.record.wait_until(next.min(deadline), now);
        let mut wait = pin!(clock.sleep_until(until));
        poll_fn(|context| {
            while let Poll::Ready(Some(())) = links.poll_next_unpin(context) {}
            match desk.sooner() {
                true => Poll::Ready(()),
                false => wait.as_mut().poll(context),
            }
        })
        .await;
    }
    desk.give_up();
    Ok(())
}
