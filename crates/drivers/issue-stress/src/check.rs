//! The check before a run: refuses a database of others, and creates what the plan asks for.

use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;

use anyhow::bail;
use issue_rpc::{Call, Client};
use load::driver::Checked;
use load::plan::Invalid;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::agent::LABEL;
use crate::settings::Scenario;
use crate::shared::{Service, Shared};

/// Creates of a batch of the preload.
const BATCH: u64 = 1_000;
/// Maximum wait for the first answer of a database.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);
/// Name with which this program creates issues of its own.
pub(crate) const ACTOR: &str = "issue-stress";

#[derive(Deserialize)]
struct Count {
    count: u64,
}

#[derive(Deserialize)]
struct Batch {
    results: Vec<Value>,
}

/// Verifies each operation of the daemon once, and prepares its database.
///
/// # Errors
/// The database holds issues of others, or an answer is wrong.
pub(crate) fn check(shared: &Shared) -> anyhow::Result<Checked> {
    match &shared.service {
        Service::Daemon(socket) => check_daemon(shared, socket),
        Service::Peer(peer) => {
            let peer = peer.clone();
            in_runtime(async move {
                let prepared = tokio::time::timeout(LONGEST_SILENCE, peer.prepare()).await;
                prepared.unwrap_or_else(|_| bail!("no answer within {LONGEST_SILENCE:?}"))
            })?;
            Ok(Checked::default())
        }
    }
}

/// Carries out requests to a database, on a thread of its own: the caller's may have a runtime already.
pub(crate) fn in_runtime(
    requests: impl Future<Output = anyhow::Result<()>> + Send + 'static,
) -> anyhow::Result<()> {
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(requests)
    });
    let ended = thread.join();
    ended.unwrap_or_else(|_| bail!("the thread of the requests to the database panicked"))
}

fn check_daemon(shared: &Shared, socket: &Path) -> anyhow::Result<Checked> {
    let settings = shared.settings();
    let mut client = Client::connect(socket, ACTOR)?;
    let all: Count = client.read(&Call::new("count", json!({})))?;
    let own: Count = client.read(&Call::new("count", json!({"labels": [LABEL]})))?;
    if all.count > own.count && !settings.existing_database {
        let problem = format!(
            "the database has {} issues that issue-stress has not created: use a daemon with a database of its own, or permit it with --existing-database",
            all.count - own.count
        );
        return Err(Invalid::new(format!("socket {}", socket.display()), problem).into());
    }
    preload(shared, &mut client)?;
    if settings.scenario == Scenario::MixedOperations {
        let labels = json!([LABEL, shared.label()]);
        let operations = (0..settings.shared_issues).map(|number| {
            let title = format!("shared issue {number}");
            json!({"operation": "create", "args": {"title": title, "labels": labels}})
        });
        let ids = create(&mut client, &operations.collect::<Vec<_>>())?;
        let mut issues = shared.issues.lock().unwrap_or_else(PoisonError::into_inner);
        *issues = ids;
    }
    Ok(Checked::default())
}

/// Creates the issues that the plan asks for. Each depends on those before it, at growing distances.
fn preload(shared: &Shared, client: &mut Client) -> anyhow::Result<()> {
    let settings = shared.settings();
    let title = |number| format!("preloaded {:016x} {number}", shared.run);
    let mut ids = Vec::<String>::new();
    while (ids.len() as u64) < settings.preload {
        let from = ids.len() as u64;
        let to = settings.preload.min(from + BATCH);
        let operations = (from..to).map(|number| {
            let depends_on = (1..=u64::from(settings.preload_dependencies))
                .filter_map(|step| number.checked_sub(step * BATCH))
                .map(|number| json!({"depends_on": ids[number as usize], "kind": "blocks"}));
            json!({"operation": "create", "args": {
                "title": title(number),
                "labels": [LABEL],
                "priority": number % 5,
                "dependencies": depends_on.collect::<Vec<_>>(),
            }})
        });
        let created = create(client, &operations.collect::<Vec<_>>())?;
        ids.extend(created);
    }
    Ok(())
}

/// Sends creates as one batch. Returns the ids.
fn create(client: &mut Client, operations: &[Value]) -> anyhow::Result<Vec<String>> {
    let args = json!({"operations": operations, "mode": "atomic"});
    let batch: Batch = client.read(&Call::new("batch", args))?;
    let ids = batch.results.iter().map(|result| {
        let id = result["data"]["id"].as_str();
        id.map(str::to_owned)
    });
    match ids.collect::<Option<Vec<String>>>() {
        Some(ids) if ids.len() == operations.len() => Ok(ids),
        _ => bail!(
            "the answer to a batch of {} creates has not as many ids",
            operations.len()
        ),
    }
}
