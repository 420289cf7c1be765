//! Names what a run launches.

use std::fmt;
use std::sync::Arc;

/// The name of a daemon, or of a service of a daemon, as messages show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessName {
    daemon: Arc<str>,
    service: Option<Arc<str>>,
}

impl ProcessName {
    /// Creates the name of a daemon.
    pub(super) fn from_daemon(daemon: &str) -> Self {
        Self {
            daemon: daemon.into(),
            service: None,
        }
    }

    /// Creates the name of a service of this daemon.
    pub(super) fn with_service(&self, service: &str) -> Self {
        Self {
            daemon: Arc::clone(&self.daemon),
            service: Some(service.into()),
        }
    }

    /// Returns its own name, the service's if it is one.
    #[must_use]
    pub fn own(&self) -> &str {
        self.service.as_ref().unwrap_or(&self.daemon)
    }

    /// Returns the name of the daemon.
    #[must_use]
    pub fn daemon(&self) -> &str {
        &self.daemon
    }
}

impl fmt::Display for ProcessName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(service) = &self.service {
            write!(formatter, "service `{service}` of the ")?;
        }
        write!(formatter, "daemon `{}`", self.daemon)
    }
}
