//! Validation of plans; each error names the field and the remedy.

use std::time::Duration;

use load::plan::{Invalid, Plan};

use crate::settings::Settings;

const MAX_TIMEOUT: Duration = Duration::from_secs(3600);
/// A daemon answers with pages of this length, and a list or the shared issues must be on one.
const MAX_LIMIT: u32 = issue_store::PageSize::USUAL.issues;
const MAX_PRELOAD: u64 = 10_000_000;
const MAX_BATCH: u16 = issue_rpc::MAX_OPERATIONS as u16;
const MAX_SHARED: u32 = MAX_LIMIT;
/// Agents of a group with a rate: as many operations can be open at once.
const MAX_AGENTS: u64 = 100_000;

impl Settings {
    /// Checks the settings.
    ///
    /// # Errors
    /// The first invalid field, with the remedy.
    pub(crate) fn validate(plan: &Plan<Self>) -> Result<(), Invalid> {
        let settings = &plan.driver;
        if settings.timeout < Duration::from_millis(1) || settings.timeout > MAX_TIMEOUT {
            let problem = "must be at least 1ms and at most 1h: give a duration such as 30s";
            return Err(Invalid::setting("timeout", problem));
        }
        let within = |setting, number: u64, least: u64, most: u64| {
            if (least..=most).contains(&number) {
                Ok(())
            } else {
                let problem = format!("{number} is not between {least} and {most}");
                Err(Invalid::setting(setting, problem))
            }
        };
        within("limit", settings.limit.into(), 1, MAX_LIMIT.into())?;
        let shared = u64::from(settings.shared_issues);
        within("shared_issues", shared, 1, MAX_SHARED.into())?;
        within(
            "batch_size",
            settings.batch_size.into(),
            1,
            MAX_BATCH.into(),
        )?;
        within("preload", settings.preload, 0, MAX_PRELOAD)?;
        let dependencies = u64::from(settings.preload_dependencies);
        within("preload_dependencies", dependencies, 0, 100)?;
        within("agents_of_rate", settings.agents_of_rate, 1, MAX_AGENTS)?;
        let agents = Self::agents(plan);
        if agents > MAX_AGENTS {
            let problem = format!("{agents} agents are more than {MAX_AGENTS}: lower them");
            return Err(Invalid::new("groups.clients (--agents)", problem));
        }
        Ok(())
    }
}
