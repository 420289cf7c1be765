//! A case: its name, the settings of its server, and its body.

use std::sync::{Mutex, PoisonError};

use crate::member::Member;
use crate::server::Server;
use crate::setup::Setup;

/// The body of a case. Its error describes the violation.
type CaseFn = Box<dyn Fn(&Server) -> anyhow::Result<()> + Send + Sync>;

/// A rule that a server must follow.
pub(crate) struct Case {
    /// The unique name: the specification and its section, a colon, and the rule in a few words.
    pub(crate) name: String,
    /// The settings that the server must have.
    pub(crate) setup: &'static Setup,
    run: CaseFn,
}

impl Case {
    /// Returns a case for a server with the settings of this name.
    pub(crate) fn new(
        name: &str,
        setup: &str,
        run: impl Fn(&Server) -> anyhow::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.to_owned(),
            setup: Setup::named(setup),
            run: Box::new(run),
        }
    }

    /// Runs the case on a server, which must still serve a new client afterwards. A case that uses up a limit of a whole
    /// server waits for the others.
    pub(crate) fn attempt(&self, server: &Server) -> anyhow::Result<()> {
        static ALONE: Mutex<()> = Mutex::new(());
        if self.setup.name.starts_with("few-") {
            // A case that panicked has left nothing half done.
            let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
            return (self.run)(server);
        }
        (self.run)(server)?;
        match self.setup.name {
            // Its application is not presence.
            "echo" => Ok(()),
            _ => Member::is_served(server),
        }
    }
}
