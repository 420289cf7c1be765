//! A case: its name, the settings of its server, and its body.

use std::cell::RefCell;

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
    pub(crate) run: CaseFn,
}

/// A case without a body. [`Named::check`] and [`Named::check_robust`] add the body, and the case to the list.
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
        self.list.borrow_mut().push(Case {
            name: self.name,
            setup: self.setup,
            run: Box::new(run),
        });
    }

    /// Adds a body that sends unusual input. Afterwards the server must still serve a new client.
    pub(crate) fn check_robust(
        self,
        run: impl Fn(&Server) -> anyhow::Result<()> + Send + Sync + 'static,
    ) {
        self.check(move |server| {
            run(server)?;
            Member::is_served(server)
        });
    }
}
