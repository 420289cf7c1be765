//! The resources that all workers and the sink share.

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
    pub(crate) tls: Option<TlsAcceptor>,
}

impl Resources {
    pub(crate) fn metrics(&self) -> String {
        self.counters.render(&self.page)
    }
}
