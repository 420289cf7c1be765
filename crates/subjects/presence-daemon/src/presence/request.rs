//! The arguments of requests.

use super::json::{Entries, MAX_DEPTH, entries, parse_string};
use super::refusal::Refusal;
use super::state::{State, TooDeep};

/// Maximum length of the names of rooms and users, in bytes.
const MAX_NAME: usize = 200;

/// The argument of `presence:join`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Join {
    pub(crate) room: String,
    pub(crate) user: String,
    pub(crate) state: Option<State>,
    pub(crate) resume: Option<String>,
}

/// The argument of `presence:heartbeat`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Heartbeat<'a> {
    pub(crate) patch: Option<Entries<'a>>,
    pub(crate) epoch: Option<u64>,
}

impl Join {
    pub(crate) fn parse(arguments: &str) -> Result<Self, Refusal> {
        let fields = entries(arguments).ok_or_else(|| {
            Refusal::argument("the argument must be one object with roomId and userId")
        })?;
        let (mut room, mut user, mut state, mut resume) = (None, None, None, None);
        for (key, value) in fields {
            match key.as_ref() {
                "roomId" => room = Some(value),
                "userId" => user = Some(value),
                "state" => state = Some(value),
                "resume" => resume = Some(value),
                _ => {}
            }
        }
        let state = match state {
            None => None,
            Some(text) => {
                let fields =
                    entries(text).ok_or_else(|| Refusal::argument("state must be an object"))?;
                Some(State::new(fields).map_err(|TooDeep| too_deep("state"))?)
            }
        };
        let resume = match resume {
            None => None,
            Some(text) => Some(
                parse_string(text).ok_or_else(|| Refusal::argument("resume must be a string"))?,
            ),
        };
        Ok(Self {
            room: name("roomId", room)?,
            user: name("userId", user)?,
            state,
            resume,
        })
    }
}

impl<'a> Heartbeat<'a> {
    pub(crate) fn parse(arguments: &'a str) -> Result<Self, Refusal> {
        if matches!(arguments, "" | "null") {
            return Ok(Self::default());
        }
        let fields = entries(arguments)
            .ok_or_else(|| Refusal::argument("the argument must be one object or null"))?;
        let mut heartbeat = Self::default();
        for (key, value) in fields {
            match key.as_ref() {
                "patchState" => {
                    let patch = entries(value)
                        .ok_or_else(|| Refusal::argument("patchState must be an object"))?;
                    heartbeat.patch = Some(patch);
                }
                "epoch" => {
                    let epoch = value
                        .parse()
                        .map_err(|_| Refusal::argument("epoch must be an integer of at least 0"))?;
                    heartbeat.epoch = Some(epoch);
                }
                _ => {}
            }
        }
        Ok(heartbeat)
    }
}

pub(crate) fn too_deep(field: &str) -> Refusal {
    Refusal::argument(format!("{field} is nested deeper than {MAX_DEPTH} levels"))
}

fn name(field: &str, text: Option<&str>) -> Result<String, Refusal> {
    let name = text.and_then(parse_string);
    name.filter(|name| (1..=MAX_NAME).contains(&name.len()))
        .ok_or_else(|| {
            Refusal::argument(format!("{field} must be a string of 1 to {MAX_NAME} bytes"))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(arguments: &str) -> String {
        let refusal = Join::parse(arguments).unwrap_err();
        assert_eq!(refusal.code(), "invalid_argument");
        refusal.to_string()
    }

    #[test]
    fn a_refused_join_names_the_field() {
        let long = "x".repeat(201);
        for (arguments, field) in [
            ("", "roomId"),
            ("null", "roomId"),
            ("[1]", "roomId"),
            (r#"{"userId":"u"}"#, "roomId"),
            (r#"{"roomId":1,"userId":"u"}"#, "roomId"),
            (r#"{"roomId":"","userId":"u"}"#, "roomId"),
            (&format!(r#"{{"roomId":"r","userId":"{long}"}}"#), "userId"),
            (r#"{"roomId":"r","userId":"u","state":[]}"#, "state"),
            (r#"{"roomId":"r","userId":"u","state":null}"#, "state"),
            (r#"{"roomId":"r","userId":"u","resume":7}"#, "resume"),
        ] {
            let refusal = refusal(arguments);
            assert!(refusal.contains(field), "{arguments}: {refusal}");
        }
    }

    #[test]
    fn unknown_fields_are_ignored_and_of_equal_ones_the_last_counts() {
        let join = Join::parse(r#"{"roomId":"a","x":{"y":[]},"roomId":"b","userId":"u"}"#).unwrap();
        assert_eq!((join.room.as_str(), join.user.as_str()), ("b", "u"));
        assert_eq!((join.state, join.resume), (None, None));
    }

    #[test]
    fn a_heartbeat_needs_no_argument() {
        for arguments in ["", "null", "{}"] {
            assert_eq!(Heartbeat::parse(arguments).unwrap(), Heartbeat::default());
        }
    }

    #[test]
    fn an_epoch_is_an_integer_of_at_least_zero() {
        let parse = |epoch: &str| {
            Heartbeat::parse(&format!("{{\"epoch\":{epoch}}}")).map(|heartbeat| heartbeat.epoch)
        };
        assert_eq!(parse("0").unwrap(), Some(0));
        assert_eq!(parse("1700000000000").unwrap(), Some(1_700_000_000_000));
        for epoch in ["-1", "1.5", "\"1\"", "null", "1e3"] {
            let refusal = parse(epoch).unwrap_err().to_string();
            assert!(refusal.contains("epoch"), "{epoch}: {refusal}");
        }
    }
}
