//! The redirected operations of one worker.

use std::num::NonZeroU32;

use slab::Slab;

use crate::roles::checks::Captured;
use crate::roles::operation::Operation;
use crate::roles::redirect::{LOCATION, RedirectError, RedirectTarget, is_redirect};
use crate::shared::Shared;

/// The redirected operations of one worker: few, or none.
#[derive(Debug, Default)]
pub(crate) struct RedirectTable(Slab<RedirectTarget>);

impl RedirectTable {
    /// Returns the current request of an operation that was redirected.
    pub(crate) fn get(&self, operation: &Operation) -> Option<&RedirectTarget> {
        self.0.get(key(operation.hop?))
    }

    /// Redirects an operation according to its response, given as status and connection index. Returns true if it was
    /// redirected.
    #[inline]
    pub(crate) fn follow(
        &mut self,
        shared: &Shared,
        operation: &mut Operation,
        (status, index): (u16, u32),
        captured: Option<&Captured>,
    ) -> Result<bool, RedirectError> {
        if shared.settings.follow == 0 || !is_redirect(status) {
            return Ok(false);
        }
        self.redirect(shared, operation, (status, index), captured)?;
        Ok(true)
    }

    fn redirect(
        &mut self,
        shared: &Shared,
        operation: &mut Operation,
        (status, index): (u16, u32),
        captured: Option<&Captured>,
    ) -> Result<(), RedirectError> {
        let most = shared.settings.follow;
        let location = shared.checks.field(captured, LOCATION);
        match operation.hop {
            Some(index) => {
                let hop = &mut self.0[key(index)];
                *hop = hop.next(status, location, most)?;
            }
            None => {
                let requests = shared.requests_of(operation.request, index);
                let first = RedirectTarget::first(&requests.target(operation.index));
                // With {id} substituted the host is invalid, so no redirect can be same-origin.
                let hop = first
                    .ok_or(RedirectError::Elsewhere)?
                    .next(status, location, most)?;
                let index = self.0.insert(hop) as u32;
                operation.hop = NonZeroU32::new(index + 1);
            }
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn forget(&mut self, operation: &Operation) {
        if let Some(index) = operation.hop {
            self.0.try_remove(key(index));
        }
    }
}

fn key(index: NonZeroU32) -> usize {
    index.get() as usize - 1
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use load::driver::Target;
    use load::plan::{Group, Plan, Timeline};

    use super::*;
    use crate::roles::checks::ResponseCapture;
    use crate::roles::operation::start_of;
    use crate::settings::Settings;

    /// Entries left by ended operations would fill the memory in a long run.
    #[test]
    fn redirects_of_an_ended_request_are_forgotten() {
        let settings = Settings {
            follow: 2,
            ..Settings::default()
        };
        let timeline = Timeline::new(Duration::from_secs(1), Duration::ZERO);
        let groups = vec![Group::new("users", 1)];
        let plan = Plan::new("test", timeline, groups, settings);
        let target = Target::of_urls(vec!["http://127.0.0.1:1/x".to_owned()]);
        let shared = Shared::new(&plan, &target).unwrap();
        let mut captured = shared.checks.new_capture().unwrap();
        let mut capture = ResponseCapture {
            checks: &shared.checks,
            captured: &mut captured,
        };
        capture.field("Location", b"y");
        let mut hops = RedirectTable::default();
        let mut operation = Operation::new(start_of(0, 0), 0, true);
        for _ in 0..2 {
            let led = hops.follow(&shared, &mut operation, (302, 0), Some(&captured));
            assert_eq!((led, hops.0.len()), (Ok(true), 1));
            assert_eq!(hops.get(&operation).unwrap().target(), "/y");
        }
        let led = hops.follow(&shared, &mut operation, (302, 0), Some(&captured));
        assert_eq!(led, Err(RedirectError::TooMany));
        hops.forget(&operation);
        assert!(hops.0.is_empty());
    }
}
