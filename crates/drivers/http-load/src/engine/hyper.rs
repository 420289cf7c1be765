//! The engine `hyper`: HTTP/1.1 and HTTP/2, with and without TLS, using the hyper library.
//!
//! Each connection is a future that connects, sends requests and ends. The worker's loop polls woken futures, takes
//! starts from the schedule, and sweeps for timeouts from time to time. So no future has its own timer, shared state
//! needs no lock, and the futures borrow it.

use std::cell::RefCell;

use hyper::client::conn::http1;
use load::driver::Worker;
use load::event_loop::{self, LoopState};
use load::net::url::ServerUrl;
use load::plan::Invalid;
use tls_client::TlsClient;
use tokio::task::coop::unconstrained;

use crate::roles::clients;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::tls;

mod connection;
mod dial;
mod executor;
mod fault;
mod fetch;
mod message;
mod sender;
mod slot;
mod stream;
mod worker;

use message::Messages;
use worker::HyperWorker;

pub(crate) use fetch::fetch;

/// Maximum length of a head, as in the other engine.
const HEAD: usize = 64 * 1024;

/// The requests to one server, with its TLS and HTTP configuration.
#[derive(Debug)]
pub(crate) struct Prepared {
    messages: Messages,
    tls: Option<TlsClient>,
    http1: http1::Builder,
}

impl Prepared {
    /// Prepares the requests to a server.
    pub(crate) fn new(settings: &Settings, server: &ServerUrl) -> Result<Self, Invalid> {
        let messages = Messages::new(settings, server)?;
        let mut http1 = http1::Builder::new();
        http1
            .allow_obsolete_multiline_headers_in_responses(true)
            .max_header_size(HEAD)
            .max_buf_size(HEAD)
            // Without bodies, vectored writes would save nothing.
            .writev(messages.have_bodies());
        Ok(Self {
            messages,
            tls: tls::client(server, settings)?,
            http1,
        })
    }
}

/// Does one worker's share of the load.
pub(crate) async fn work(
    shared: &Shared,
    prepared: &[Prepared],
    worker: Worker,
) -> anyhow::Result<()> {
    let options = clients::options(&shared.settings);
    let loop_state = RefCell::new(LoopState::new(worker, options));
    let state = &HyperWorker::new(shared, prepared, &loop_state, options.sweep_ns);
    let connect = || {
        let pending = state.next_connect()?;
        Some(unconstrained(connection::serve(state, pending)))
    };
    let left = event_loop::run_async(state, &loop_state, connect).await?;
    // Connections that are still open are closed.
    drop(left);
    Ok(())
}
