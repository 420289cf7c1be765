//! Parses stages in k6's syntax: `30s:100,1m:1000`.

use std::time::Duration;

use load::duration;
use load::plan::PlannedStage;

/// Parses a stage of users, `DURATION:USERS`.
pub(super) fn parse_users(text: &str) -> Result<PlannedStage, String> {
    let example = "write it as DURATION:USERS, such as 30s:100";
    let (over, users) = parse(text, example)?;
    let users = users.parse();
    let users =
        users.map_err(|_| format!("the number of users must be a whole number: {example}"))?;
    Ok(PlannedStage::to_users(users, over))
}

/// Parses a stage of a rate, `DURATION:RATE`.
pub(super) fn parse_rate(text: &str) -> Result<PlannedStage, String> {
    let example = "write it as DURATION:PER_SECOND, such as 30s:100";
    let (over, rate) = parse(text, example)?;
    let rate = rate.parse();
    let rate = rate.map_err(|_| format!("the rate must be a number: {example}"))?;
    Ok(PlannedStage::to_rate(rate, over))
}

fn parse<'a>(text: &'a str, example: &str) -> Result<(Duration, &'a str), String> {
    let (over, to) = text.split_once(':').ok_or(example)?;
    let over = duration::parse(over).map_err(|error| format!("{error}: {example}"))?;
    Ok((over, to.trim()))
}
