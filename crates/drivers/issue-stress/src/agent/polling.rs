//! An agent of today's users: it looks for work, claims it, notes new work, and finishes the old.

use issue_rpc::Code;
use rand::RngExt as _;
use serde_json::json;

use super::Agent;
use super::answers::{Created, Listed};
use super::is_right;
use crate::spec;

impl Agent<'_> {
    /// Reads ready issues, claims one, creates one, and closes the claimed one.
    pub(super) async fn poll(&mut self) -> Result<(), &'static str> {
        let limit = self.shared.settings().limit;
        let number = self.number;
        let (span, answer) = self
            .call(spec::READY, "ready", &json!({ "limit": limit }))
            .await;
        let listed: Listed<'_> = answer?.data()?;
        is_right(listed.issues.len() <= limit as usize && listed.is_in_order_of_ready())?;
        let ids: Vec<String> = listed
            .issues
            .iter()
            .map(|issue| issue.id.clone().into_owned())
            .collect();
        let borrowed: Vec<&str> = ids.iter().map(String::as_str).collect();
        self.ledger
            .borrow_mut()
            .histories
            .read_some_ready(&borrowed, number, span);
        let claimed = match ids.len() {
            0 => None,
            ready => {
                let index = self.random.random_range(0..ready);
                self.claim(&ids[index]).await?
            }
        };
        let (id, span) = self.create_timed().await?;
        self.ledger
            .borrow_mut()
            .histories
            .became_ready(&id, number, span, true);
        if let Some(id) = claimed {
            self.set_status(id, "closed").await?;
        }
        Ok(())
    }

    /// Claims an issue. Returns its id, or none if another agent was faster.
    async fn claim<'id>(&mut self, id: &'id str) -> Result<Option<&'id str>, &'static str> {
        let args = json!({"id": id});
        let (span, answer) = self.call(spec::CLAIM, "claim", &args).await;
        let claimed = match answer {
            // A conflict is the promise kept: the issue is another agent's.
            Ok(answer) if answer.code == Some(Code::Conflict) => return Ok(None),
            Ok(answer) if !answer.success => return Err(answer.failure()),
            Ok(answer) => answer.data::<Created<'_>>().and_then(|issue| {
                is_right(
                    issue.id == id && issue.status == "in_progress" && !issue.assignee.is_empty(),
                )
            }),
            Err(kind) => Err(kind),
        };
        let mut ledger = self.ledger.borrow_mut();
        let histories = &mut ledger.histories;
        histories.became_ready(id, self.number, span, false);
        claimed?;
        histories.claimed(id, self.number);
        Ok(Some(id))
    }

    /// Changes the status of an issue without dependencies, which is ready while it is open.
    pub(super) async fn set_status(&mut self, id: &str, status: &str) -> Result<(), &'static str> {
        let args = json!({"id": id, "status": status});
        let (span, answer) = self.call(spec::UPDATE, "update", &args).await;
        let result = match answer {
            Ok(answer) if !answer.success => return Err(answer.failure()),
            Ok(answer) => answer
                .data::<Created<'_>>()
                .and_then(|issue| is_right(issue.id == id && issue.status == status)),
            Err(kind) => Err(kind),
        };
        let mut ledger = self.ledger.borrow_mut();
        let histories = &mut ledger.histories;
        histories.became_ready(id, self.number, span, status == "open");
        result
    }
}
