//! Stages as k6's users type them: `30s:100,1m:1000`.

use std::time::Duration;

use harness::duration;
use harness::plan::PlannedStage;

/// `DURATION:USERS`.
pub(super) fn parse_users(text: &str) -> Result<PlannedStage, String> {
    let example = "write it as DURATION:USERS, such as 30s:100";
    let (over, users) = parse(text, example)?;
    let users = users.parse();
    let users = users.map_err(|_| format!("users are a whole number: {example}"))?;
    Ok(PlannedStage::to_users(users, over))
}

/// `DURATION:RATE`.
pub(super) fn parse_rate(text: &str) -> Result<PlannedStage, String> {
    let example = "write it as DURATION:PER_SECOND, such as 30s:100";
    let (over, rate) = parse(text, example)?;
    let rate = rate.parse();
    let rate = rate.map_err(|_| format!("a rate is a number: {example}"))?;
    Ok(PlannedStage::to_rate(rate, over))
}

fn parse<'a>(text: &'a str, example: &str) -> Result<(Duration, &'a str), String> {
    let (over, to) = text.split_once(':').ok_or(example)?;
    let over = duration::parse(over).map_err(|error| format!("{error}: {example}"))?;
    Ok((over, to.trim()))
}
