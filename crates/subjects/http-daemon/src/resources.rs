//! The resources that all workers and the sink share.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use daemon_kit::MetricsPage;
use tokio_rustls::TlsAcceptor;

use crate::counts::{Limits, Shared};
use crate::options::Config;

/// The resources that all workers share.
#[derive(Clone)]
pub(crate) struct Resources {
    pub(crate) config: Arc<Config>,
    pub(crate) counters: Shared,
    pub(crate) page: Arc<MetricsPage>,
    pub(crate) limits: Limits,
    /// The folder that is served; a sink has none. It is open before the daemon listens: a worker that begins later than
    /// the others, on a busy machine, needs nothing that may fail while they serve.
    pub(crate) root: Option<Arc<OwnedFd>>,
    pub(crate) tls: Option<TlsAcceptor>,
}

impl Resources {
    pub(crate) fn metrics(&self) -> String {
        self.counters.render(&self.page)
    }
}
