//! A handmade result whose daemon used a Redis.

use measure::result::{RunResult, ServiceResult};
use measure::usage::UsageSummary;

use super::result;

/// Adds a service that used half of the daemon's CPU time.
pub(crate) fn with_redis() -> RunResult {
    let mut result = result::full();
    let daemon = result.usage.daemon.clone();
    let daemon = daemon.expect("the example has the use of its daemon");
    result.services = vec![ServiceResult {
        name: "redis".to_owned(),
        version: Some("Redis server v=7.0.15".to_owned()),
        usage: UsageSummary {
            rss_peak_kb: 10_240,
            user_s: daemon.user_s / 2.0,
            system_s: daemon.system_s / 2.0,
            ..daemon
        },
    }];
    result
}
