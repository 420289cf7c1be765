//! Confirms that a daemon is worse than its other version, before that fails the call.

use measure::report::Judgement;

use super::Runner;
use crate::suite_report;

impl Runner<'_> {
    /// Makes as many runs again if the daemon is worse than its other version and that fails the call. Runs that were
    /// chosen because others have shown something confirm it only together with those: the second look can take the word
    /// back, so it makes no more of them false than the first.
    pub(super) async fn confirm(&mut self, able: &[String]) -> anyhow::Result<()> {
        self.judgement = self.judge()?;
        if let Some(Judgement::Worse(worse)) = &self.judgement
            && !self.interrupted
        {
            self.progress.say(&format!(
                "Worse: {worse}. As many runs again will confirm it."
            ));
            self.record.suite.repeat *= 2;
            self.matrix(able).await?;
            self.judgement = self.judge()?;
        }
        Ok(())
    }

    /// Judges the daemon against its other version by the metric that the call names, if it names one.
    pub(super) fn judge(&self) -> anyhow::Result<Option<Judgement>> {
        let Some(fail_on) = &self.fail_on else {
            return Ok(None);
        };
        let suite = suite_report::read_folder(self.folder.path())?;
        fail_on.judge(&suite).map(Some)
    }
}
