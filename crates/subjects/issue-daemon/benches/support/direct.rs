//! Requests on a database without a daemon.

use std::path::Path;

use issue_rpc::{Call, Direct};
use issue_store::Options;
use serde_json::json;
use serde_json::value::RawValue;

/// Opens a database. Without a `seed`, the ids of its issues are random.
pub(crate) fn open(database: &Path, seed: Option<u64>) -> Direct {
    let options = Options {
        seed,
        ..Options::default()
    };
    Direct::open(database, options).unwrap()
}

pub(crate) fn create() -> Call {
    Call::new("create", json!({"title": "an issue", "labels": ["bench"]}))
}

pub(crate) fn perform(direct: &mut Direct, call: &Call) -> Box<RawValue> {
    direct.perform(call, "bench", None).unwrap()
}
