//! A case: its name, the settings of its server, and its body.

use std::cell::RefCell;
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
    pub(crate) setup: Setup,
    run: CaseFn,
}

impl Case {
    pub(crate) fn new(
        name: String,
        setup: Setup,
        run: impl Fn(&Server) -> anyhow::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let run = Box::new(run);
        Self { name, setup, run }
    }

    /// Runs the case on a server, which must still serve a new client afterwards. A case that uses up a limit of a whole
    /// server waits for the others.
    pub(crate) fn attempt(&self, server: &Server) -> anyhow::Result<()> {
        static ALONE: Mutex<()> = Mutex::new(());
        if matches!(
            self.setup,
            Setup::FewRooms | Setup::FewUsers | Setup::FewConnections
        ) {
            // A case that panicked has left nothing half done.
            let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
            return (self.run)(server);
        }
        (self.run)(server)?;
        match self.setup {
            // Its application is not presence.
            Setup::Echo => Ok(()),
            _ => Member::is_served(server),
        }
    }
}

/// A case without a body. [`Named::check`] adds the body, and the case to the list.
pub(crate) struct Named<'a> {
    pub(crate) name: String,
    pub(crate) setup: Setup,
    pub(crate) list: &'a RefCell<Vec<Case>>,
}

impl Named<'_> {
    /// Sets the settings that the server must have.
    pub(crate) fn on(self, setup: Setup) -> Self {
        Self { setup, ..self }
    }

    /// Adds a body.
    pub(crate) fn check(self, run: impl Fn(&Server) -> anyhow::Result<()> + Send + Sync + 'static) {
        let case = Case::new(self.name, self.setup, run);
        self.list.borrow_mut().push(case);
    }
}
