//! Cases as text ([`harness::verify::script`]): the files `cases/*.txt`, with the steps of [`step`]. A heading names the
//! [`Setup`] of the cases below it.

use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use harness::verify::script::parse;

use crate::member::Member;
use crate::server::Server;
use crate::setup::Setup;

mod step;

use step::Run;

/// A rule that a server must follow.
#[derive(Debug)]
pub(crate) struct Case {
    /// The unique name: the specification and its section, a colon, and the rule in a few words.
    pub(crate) name: String,
    /// The settings that the server must have.
    pub(crate) setup: &'static Setup,
    /// The steps, each after its place.
    steps: Vec<(String, String)>,
}

impl Case {
    /// Runs the case on a server, which must still serve a new client afterwards. A case that uses up a limit of a whole
    /// server waits for the others.
    pub(crate) fn attempt(&self, server: &Server) -> anyhow::Result<()> {
        static ALONE: Mutex<()> = Mutex::new(());
        let setup = self.setup.name;
        let is_alone = setup.starts_with("few-");
        // A case that panicked has left nothing half done.
        let _alone = is_alone.then(|| ALONE.lock().unwrap_or_else(PoisonError::into_inner));
        let mut run = Run::new(server);
        for (place, step) in &self.steps {
            let context = || format!("{place}: {step:.200}");
            run.step(step).with_context(context)?;
        }
        // The application of the echo mode is not presence.
        if is_alone || setup == "echo" {
            return Ok(());
        }
        Member::is_served(server)
    }
}

/// Returns the cases of a file.
pub(crate) fn cases((file, text): (&str, &str)) -> Vec<Case> {
    let cases = parse(file, text).into_iter().map(|case| Case {
        name: case.name,
        setup: match case.heading {
            "" => Setup::named("usual"),
            name => Setup::named(name),
        },
        steps: case.steps,
    });
    cases.collect()
}

/// Performs steps on a server, with ` then ` between them.
///
/// # Errors
/// The first step that fails.
pub(crate) fn run(server: &Server, steps: &str) -> anyhow::Result<()> {
    Run::new(server).step(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_line() {
        let server = Server::parse("http://127.0.0.1:1").unwrap();
        let cases = cases(("some.txt", "a\n  x websocket\n"));
        let error = format!("{:#}", cases[0].attempt(&server).unwrap_err());
        assert!(
            error.starts_with("some.txt:2: x websocket: connecting"),
            "{error}"
        );
    }
}
