//! Cases as text ([`harness::verify::script`]). Steps are separated by semicolons:
//!
//! ```text
//! queue.unbind: the others stay
//!   exchange.declare E direct; bound Q E a b; queue.unbind Q E a; publish E a b; yields Q b
//! queue.purge: a missing one is 404
//!   queue.purge MISSING -> 404
//! ```
//!
//! A step is a method with its fields in the order of the specification, or a verb of `Channel::run`. Flags are named,
//! a table is `key=value`. The answer to a method is awaited; `= a 3` are its fields. `> method` awaits no answer, and
//! `< method` is what the broker sends by itself. `-> 404` is the reply code with which the broker closes the channel,
//! or from 500 on the connection; `-> end` is an end of the connection with any code or none.
//!
//! Words in capitals are names: new ones where they are sent first, the broker's where they are received first. Steps
//! are on channel 1, which is open, or on the one before a colon: `2:` must be opened, `other:` is one of another
//! connection.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use anyhow::Context as _;
use harness::verify::script;

use super::case::{Case, Scope};

/// Returns the cases of a script.
pub(super) fn cases(file: &str, text: &str) -> impl Iterator<Item = Case> {
    script::parse(file, text).into_iter().map(|case| Case {
        name: case.name,
        run: Box::new(move |scope| run(scope, &case.steps)),
    })
}

/// Performs steps, after which the connection must be open, unless a step has ended it.
fn run(scope: &Scope<'_>, lines: &[(String, String)]) -> anyhow::Result<()> {
    let (connection, other) = (scope.connect()?, OnceCell::new());
    let mut channels = BTreeMap::from([("1", connection.channel()?)]);
    for (place, line) in lines {
        for step in line.split("; ") {
            let (name, step) = step.split_once(": ").unwrap_or(("1", step));
            if !channels.contains_key(name) {
                let channel = if name == "other" {
                    let connected = scope.connect()?;
                    other.get_or_init(|| connected).channel()?
                } else {
                    connection.unopened(name.parse().with_context(|| place.clone())?)
                };
                channels.insert(name, channel);
            }
            channels[name].run(step).with_context(|| place.clone())?;
        }
    }
    if connection.is_over.get() {
        return Ok(());
    }
    channels["1"].close()?;
    connection.close()
}
