//! The command `check`: creates an issue on each daemon. An issue daemon must show it again.

use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use harness::failure::Failure;
use harness::verify::check::{DaemonsToCheck, Finding, check_daemons};
use issue_rpc::{Call, Client};
use load::clock;
use serde_json::{Value, json};
use subject::daemon::Endpoint;

use crate::agent::LABEL;
use crate::check::{ACTOR, in_runtime};
use crate::peers::{NewIssue, Peer};
use crate::spec::SPEC;

const TITLE: &str = "created by issue-stress check";

/// Checks daemons. Returns true if all answered correctly.
///
/// # Errors
/// A wrong call, or a failure that has nothing to do with a daemon.
pub(crate) fn run(options: &DaemonsToCheck) -> Result<bool, Failure> {
    check_daemons(&SPEC.protocol, options, |name, endpoint| {
        vec![Finding {
            name: name.to_owned(),
            found: check(endpoint),
        }]
    })
}

fn check(endpoint: &Endpoint) -> anyhow::Result<String> {
    match (&endpoint.url, &endpoint.socket) {
        (Some(url), _) => check_peer(url),
        (None, Some(socket)) => check_daemon(socket),
        (None, None) => bail!("its manifest has neither a socket nor a `url`"),
    }
}

fn check_daemon(socket: &Path) -> anyhow::Result<String> {
    let mut client = Client::connect(socket, ACTOR)?;
    let new = json!({"title": TITLE, "labels": [LABEL]});
    let created: Value = client.read(&Call::new("create", new))?;
    let shown: Value = client.read(&Call::new("show", json!({"id": created["id"]})))?;
    ensure!(
        shown["title"] == TITLE && shown["labels"] == json!([LABEL]),
        "an issue with the title `{TITLE}` was created, and {shown} is shown"
    );
    Ok("an issue is created and shown".to_owned())
}

fn check_peer(url: &str) -> anyhow::Result<String> {
    let peer = Peer::parse(url)?.with_context(|| format!("`{url}` names no database"))?;
    in_runtime(async move {
        peer.prepare().await?;
        let issue = NewIssue {
            id: "issue-stress-check",
            title: TITLE,
            description: "",
            label: LABEL,
            actor: ACTOR,
            at_us: clock::unix_ns() / 1_000,
        };
        peer.connect(0).await?.create(&issue).await
    })?;
    Ok("an issue is created".to_owned())
}
