//! The driver: its contract with the harness.

use load::driver::{Checked, Description, Driver, Findings, Target, Worker};
use load::plan::{Invalid, Plan};
use load::workers::WorkerRange;
use measure::spec::Spec;
use measure::tally::Tally;
use measure::warning::Warning;

use crate::engine;
use crate::expect::Expected;
use crate::outcome::count;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::spec::SPEC;
use crate::validate;

/// A driver that hands over sockets and reads the streams that come back.
#[derive(Debug)]
pub struct FdPass(Shared);

impl Driver for FdPass {
    const SPEC: &'static Spec = &SPEC;
    type Config = Settings;
    type Shared = ();

    fn validate(plan: &mut Plan<Settings>) -> Result<Description, Invalid> {
        Settings::validate(plan)?;
        Ok(validate::describe(plan))
    }

    fn setup(
        plan: &Plan<Settings>,
        target: &Target,
        _workers: &WorkerRange,
    ) -> anyhow::Result<Self> {
        Shared::new(&plan.driver, target).map(Self)
    }

    fn check(&self) -> anyhow::Result<Checked> {
        let expected = self.0.check()?;
        let learned = serde_json::to_value(&expected)?;
        // Another check can only have found the same.
        let _ = self.0.expected.set(expected);
        Ok(Checked {
            learned,
            ..Checked::default()
        })
    }

    fn learn(&self, learned: serde_json::Value) -> anyhow::Result<()> {
        let learned: Option<Expected> = serde_json::from_value(learned)?;
        if let Some(mut expected) = learned {
            expected.prepare(&self.0.settings);
            let _ = self.0.expected.set(expected);
        }
        Ok(())
    }

    fn findings(_plan: &Plan<Settings>, total: &Tally) -> Findings {
        let warning = |prefix, hint| {
            let mut names = total.counts.keys();
            let first = names.find_map(|name| name.strip_prefix(prefix));
            first.map(|first| Warning::content_differs(first, hint))
        };
        let differs = "the differing streams are counted as protocol_content: see the daemon's log, or use --expect any for a backend whose texts vary";
        let varies = "the first streams differ, so nothing is compared after them: use --expect first to count every other text as a failure";
        let warnings = [
            warning(count::DIFFERS, differs),
            warning(count::VARIES, varies),
        ];
        Findings {
            warnings: warnings.into_iter().flatten().collect(),
            ..Findings::default()
        }
    }

    async fn work(&self, worker: Worker) -> anyhow::Result<()> {
        engine::work(&self.0, worker)
    }
}
