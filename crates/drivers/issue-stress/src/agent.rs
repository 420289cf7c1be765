//! An agent: one connection, and the operations of a scenario.

mod answers;
mod batches;
mod leaving;
mod mixed;
mod polling;
mod timeouts;

use std::cell::RefCell;
use std::time::Duration;

use load::clock;
use load::recorder::Recorder;
use measure::tally::Series;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde::Serialize;
use serde_json::json;

use crate::engine::wire::{Answer, Terms, Wire};
use crate::history::Span;
use crate::ledger::{Expected, Ledger, Name};
use crate::outcome::{self, count};
use crate::peers::{self, NewIssue};
use crate::settings::Scenario;
use crate::shared::{Service, Shared};
use crate::spec;
use answers::{Created, Listed};

/// The pause of an agent that cannot connect.
const RETRY: Duration = Duration::from_millis(10);

/// The label of all issues of this driver. A database in which other issues are is not used.
pub(crate) const LABEL: &str = "issue-stress";

/// The work of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Performs the scenario.
    Agent,
    /// Sends batches of creates beside it.
    Bulk,
}

/// An agent, with all that its operations need.
#[derive(Debug)]
pub(crate) struct Agent<'a> {
    shared: &'a Shared,
    ledger: &'a RefCell<Ledger>,
    record: Recorder,
    number: u32,
    pub(crate) role: Role,
    wire: Wire,
    peer: Option<peers::Connection>,
    random: StdRng,
    /// Operations so far.
    operations: u32,
    /// The issue that only this agent changes.
    own: Option<String>,
    /// The ids of the issues that all agents share.
    issues: Vec<String>,
    /// True while the values of requests count.
    is_measured: bool,
    has_connected: bool,
}

/// The arguments of `create`.
#[derive(Debug, Serialize)]
struct CreateArgs<'a> {
    title: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    labels: [&'a str; 1],
}

impl<'a> CreateArgs<'a> {
    fn new(title: &'a str, description: &'a str) -> Self {
        Self {
            title,
            description,
            labels: [LABEL],
        }
    }
}

/// The content of the issues of a run.
#[derive(Debug, Clone, Copy)]
struct Content {
    run: u64,
    is_described: bool,
}

impl Content {
    /// Returns the description that an issue is created with; empty in a scenario whose issues have none.
    fn description(self, name: Name) -> String {
        if self.is_described {
            name.description(self.run)
        } else {
            String::new()
        }
    }

    /// Returns true if an issue has what it was created with. The titles of other senders and of the preparation name no
    /// issue of the run.
    fn is_as_sent(self, issue: &Created<'_>) -> bool {
        Name::parse(self.run, &issue.title).is_none_or(|name| {
            issue.description == self.description(name) && issue.has_label(LABEL)
        })
    }
}

impl<'a> Agent<'a> {
    pub(crate) fn new(
        shared: &'a Shared,
        ledger: &'a RefCell<Ledger>,
        record: Recorder,
        number: u32,
        role: Role,
    ) -> Self {
        let socket = match &shared.service {
            Service::Daemon(socket) => socket.clone(),
            Service::Peer(_) => std::path::PathBuf::new(),
        };
        Self {
            shared,
            ledger,
            record,
            number,
            role,
            wire: Wire::new(&socket, format!("agent-{number}")),
            peer: None,
            random: StdRng::seed_from_u64(shared.plan.seed.wrapping_add(number.into())),
            operations: 0,
            own: None,
            issues: shared.issues(),
            is_measured: false,
            has_connected: false,
        }
    }

    /// Connects, and creates what the agent needs for its operations.
    pub(crate) async fn open(&mut self) -> Result<(), &'static str> {
        self.connect().await?;
        if self.shared.settings().scenario == Scenario::Update {
            self.own = Some(self.create().await?);
        }
        Ok(())
    }

    async fn connect(&mut self) -> Result<(), &'static str> {
        let connected = self.try_to_connect().await;
        if connected.is_err() {
            // Otherwise an agent without a daemon would fail operations as fast as it can.
            tokio::time::sleep(RETRY).await;
        }
        connected
    }

    async fn try_to_connect(&mut self) -> Result<(), &'static str> {
        match &self.shared.service {
            Service::Daemon(_) if self.wire.is_open() => return Ok(()),
            Service::Peer(_) if self.peer.is_some() => return Ok(()),
            Service::Daemon(_) => self.wire.connect().await?,
            Service::Peer(peer) => {
                let connected = peer.connect(self.number).await;
                self.peer = Some(connected.map_err(|_| outcome::CONNECT)?);
            }
        }
        self.record.count(count::CONNECTED, 1);
        if std::mem::replace(&mut self.has_connected, true) {
            self.record.count(count::RECONNECTS, 1);
        }
        Ok(())
    }

    /// Performs one operation of the scenario. Its times count if it `is_measured`.
    pub(crate) async fn operate(&mut self, is_measured: bool) -> Result<(), &'static str> {
        self.is_measured = is_measured;
        self.operations += 1;
        self.connect().await?;
        if self.peer.is_some() {
            return self.operate_peer().await;
        }
        match (self.role, self.shared.settings().scenario) {
            (Role::Bulk, _) => self.bulk().await,
            (_, Scenario::ConcurrentAgents | Scenario::UniqueIds) => {
                self.create().await.map(|_| ())
            }
            (_, Scenario::BatchOperations) => self.batch().await,
            (_, Scenario::MixedOperations) => self.mixed().await,
            (_, Scenario::Timeouts) => self.time_out().await,
            (_, Scenario::LeavingClients) => self.leave_and_return().await,
            (_, Scenario::PollingAgents) => self.poll().await,
            (_, Scenario::Update) => self.update_own().await,
            (_, Scenario::List) => self.list().await,
            (_, Scenario::Ready) => self.ready().await,
            (_, Scenario::Ping) => self.ping().await,
        }
    }

    /// Performs an operation on a database without the daemon's protocol.
    async fn operate_peer(&mut self) -> Result<(), &'static str> {
        let name = self.name(0);
        let connection = self.peer.as_mut().ok_or(outcome::CONNECT)?;
        let begun = clock::now();
        let timeout = self.shared.timeout();
        let (series, done) = match self.shared.settings().scenario {
            Scenario::Ping => (
                spec::PING,
                tokio::time::timeout(timeout, connection.ping()).await,
            ),
            _ => {
                let (id, title) = (name.title(self.shared.run), name.title(self.shared.run));
                let issue = NewIssue {
                    id: &id,
                    title: &title,
                    description: "",
                    label: LABEL,
                    actor: "agent",
                    at_us: crate::engine::wire::unix_ms(Duration::ZERO) * 1_000,
                };
                let create = connection.create(&issue);
                (spec::CREATE, tokio::time::timeout(timeout, create).await)
            }
        };
        match done {
            Ok(Ok(())) => {
                self.value(series, begun);
                if series == spec::CREATE {
                    self.record.count(count::CREATED, 1);
                }
                Ok(())
            }
            failed => {
                self.peer = None;
                let kind = failed.map_or(outcome::TIMEOUT, |_| outcome::CONNECTION_LOST);
                Err(kind)
            }
        }
    }

    fn value(&self, series: Series, begun: u64) {
        if self.is_measured {
            let elapsed = clock::now().saturating_sub(begun);
            self.record.value(series, elapsed);
        }
    }

    fn name(&self, part: u16) -> Name {
        Name {
            agent: self.number,
            operation: self.operations,
            part,
        }
    }

    fn content(&self) -> Content {
        Content {
            run: self.shared.run,
            is_described: self.shared.settings().scenario.describes(),
        }
    }

    fn description(&self, name: Name) -> String {
        self.content().description(name)
    }

    /// Sends a request and waits for its answer. Returns its time, whatever the outcome.
    async fn call<A: Serialize>(
        &mut self,
        series: Series,
        operation: &str,
        args: &A,
    ) -> (Span, Result<Answer<'_>, &'static str>) {
        let terms = Terms {
            timeout: self.shared.timeout(),
            deadline_ms: None,
            key: None,
        };
        self.call_with(series, operation, args, terms).await
    }

    async fn call_with<A: Serialize>(
        &mut self,
        series: Series,
        operation: &str,
        args: &A,
        terms: Terms<'_>,
    ) -> (Span, Result<Answer<'_>, &'static str>) {
        self.record.count(count::REQUESTS, 1);
        let invoked_ns = clock::now();
        let answer = self.wire.call(operation, args, terms).await;
        let returned_ns = clock::now();
        let is_answered = answer.is_ok();
        if is_answered && self.is_measured {
            self.record.value(series, returned_ns - invoked_ns);
        }
        let span = Span {
            invoked_ns,
            returned_ns: is_answered.then_some(returned_ns),
        };
        (span, answer)
    }

    /// Creates an issue. Returns its id.
    async fn create(&mut self) -> Result<String, &'static str> {
        self.create_timed().await.map(|(id, _)| id)
    }

    /// Creates an issue. Returns its id, and the time of the request.
    async fn create_timed(&mut self) -> Result<(String, Span), &'static str> {
        let name = self.name(0);
        let title = name.title(self.shared.run);
        let description = self.description(name);
        let args = CreateArgs::new(&title, &description);
        let (span, answer) = self.call(spec::CREATE, "create", &args).await;
        let (expected, result) = match answer {
            Err(kind) => (Expected::Unknown, Err(kind)),
            Ok(answer) if !answer.success => (Expected::Absent, Err(answer.failure())),
            Ok(answer) => match answer.data::<Created<'_>>() {
                Err(kind) => (Expected::Unknown, Err(kind)),
                Ok(created) => {
                    let id = created.id.clone().into_owned();
                    let is_as_sent = created.title == title
                        && created.description == description
                        && created.has_label(LABEL);
                    let result = is_right(is_as_sent).map(|()| id);
                    (Expected::Stored(created.id.into()), result)
                }
            },
        };
        let mut ledger = self.ledger.borrow_mut();
        if let (Expected::Stored(id), Some(at_ns)) = (&expected, span.returned_ns) {
            ledger.lists.acknowledge(id, at_ns);
        }
        ledger.expect(name, expected);
        if result.is_ok() {
            self.record.count(count::CREATED, 1);
        }
        result.map(|id| (id, span))
    }

    async fn update_own(&mut self) -> Result<(), &'static str> {
        let Some(id) = self.own.clone() else {
            return Err(outcome::CONNECT);
        };
        let priority = self.operations % 5;
        let args = json!({"id": id, "priority": priority});
        let (_, answer) = self.call(spec::UPDATE, "update", &args).await;
        let updated: Created<'_> = answer?.data()?;
        is_right(updated.id == id && u32::from(updated.priority) == priority)
    }

    async fn list(&mut self) -> Result<(), &'static str> {
        self.read_page(spec::LIST, "list", |listed| listed.is_in_order_of_list())
            .await
    }

    async fn ready(&mut self) -> Result<(), &'static str> {
        self.read_page(spec::READY, "ready", |listed| listed.is_in_order_of_ready())
            .await
    }

    async fn read_page(
        &mut self,
        series: Series,
        operation: &str,
        is_in_order: fn(&Listed<'_>) -> bool,
    ) -> Result<(), &'static str> {
        let limit = self.shared.settings().limit;
        let args = json!({ "limit": limit });
        let (ledger, content) = (self.ledger, self.content());
        let (span, answer) = self.call(series, operation, &args).await;
        let listed: Listed<'_> = answer?.data()?;
        let lists = &mut ledger.borrow_mut().lists;
        lists.add(span, listed.named(), limit, operation == "list");
        let are_as_sent = listed.issues.iter().all(|issue| content.is_as_sent(issue));
        let is_short = listed.issues.len() <= limit as usize;
        is_right(are_as_sent && is_short && is_in_order(&listed))
    }

    async fn ping(&mut self) -> Result<(), &'static str> {
        let (_, answer) = self.call(spec::PING, "ping", &json!({})).await;
        is_right(answer?.success)
    }
}

/// Returns the outcome of an answer that is right or not.
fn is_right(holds: bool) -> Result<(), &'static str> {
    if holds {
        Ok(())
    } else {
        Err(outcome::WRONG_ANSWER)
    }
}
