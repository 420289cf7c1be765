//! The requests of a call of the program.

use std::collections::HashMap;
use std::path::Path;

use issue_rpc::{Access, Call, ClientError, Code};
use issue_store::Options;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::arguments::Global;
use crate::failure::Failure;
use crate::present::note;

/// The arguments in which ids stand.
const IDS: [&str; 3] = ["id", "depends_on", "parent"];

/// Access to the database of a call.
#[derive(Debug)]
pub(crate) struct Session {
    access: Access,
    is_verbose: bool,
}

impl Session {
    /// Prepares access to a database, given by its identity.
    pub(crate) fn new(database: &Path, global: &Global) -> Self {
        let options = Options {
            prefix: global.prefix.clone(),
            ..Options::default()
        };
        let mut access =
            Access::new(database, &global.actor, options).with_timeout(global.timeout.0);
        if global.direct {
            access = access.direct_only();
        }
        Self {
            access,
            is_verbose: global.verbose,
        }
    }

    /// Performs a request. Shortened ids are completed if no issue has them.
    pub(crate) fn call(&mut self, operation: &str, args: Value) -> Result<Box<RawValue>, Failure> {
        match self.call_once(operation, args.clone()) {
            Err(ClientError::Refused {
                code: Code::NotFound,
                error,
                ..
            }) => match self.complete(args) {
                Some(args) => Ok(self.call_once(operation, args)?),
                None => Err(Failure::Refused(Code::NotFound, error)),
            },
            other => Ok(other?),
        }
    }

    /// Performs a request, and parses the data of its answer.
    pub(crate) fn read<T: DeserializeOwned>(
        &mut self,
        operation: &str,
        args: Value,
    ) -> Result<T, Failure> {
        parse(&self.call(operation, args)?)
    }

    /// Performs a request as it is.
    pub(crate) fn call_once(
        &mut self,
        operation: &str,
        args: Value,
    ) -> Result<Box<RawValue>, ClientError> {
        // A key on every write: it is repeated if the connection breaks, and is performed once.
        let key = format!("{:032x}", rand::random::<u128>());
        let call = Call::new(operation, args);
        let call = if call.is_read() {
            call
        } else {
            call.with_key(&key)
        };
        let answer = self.access.call(&call);
        if let Some(change) = self.access.take_change().filter(|_| self.is_verbose) {
            note(&format!("issue: {change}"));
        }
        answer
    }

    /// Returns the id of the only issue whose id begins like this. One that was completed is named, because a mistyped id
    /// can be the beginning of another issue's.
    pub(crate) fn resolve(&mut self, id: &str) -> Option<String> {
        let answer = self.call_once("resolve_id", json!({ "id": id })).ok()?;
        let whole: String = member(&answer, "id").ok()?;
        if whole != id {
            note(&format!("issue: {id} is completed to {whole}"));
        }
        Some(whole)
    }

    /// Completes the ids among the arguments. Returns nothing if all are whole, or if one of them cannot be completed.
    fn complete(&mut self, mut args: Value) -> Option<Value> {
        let mut is_changed = false;
        for name in IDS {
            let Some(id) = args[name].as_str() else {
                continue;
            };
            let whole = self.resolve(id)?;
            is_changed |= whole != id;
            args[name] = whole.into();
        }
        is_changed.then_some(args)
    }
}

/// Parses the data of an answer.
pub(crate) fn parse<T: DeserializeOwned>(data: &RawValue) -> Result<T, Failure> {
    serde_json::from_str(data.get())
        .map_err(|error| Failure::Unanswered(format!("the answer cannot be understood: {error}")))
}

/// Parses a member of an answer.
pub(crate) fn member<T: DeserializeOwned>(data: &RawValue, name: &str) -> Result<T, Failure> {
    let members: HashMap<String, Box<RawValue>> = parse(data)?;
    match members.get(name) {
        Some(value) => parse(value),
        None => Err(Failure::Unanswered(format!("the answer has no {name}"))),
    }
}
