//! Short constructors for arguments and headers.

use amq_protocol::types::{AMQPValue, FieldTable};

/// Returns a field table.
pub(super) fn table(entries: &[(&str, AMQPValue)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (key, value) in entries {
        table.insert((*key).into(), value.clone());
    }
    table
}

/// Returns a signed 32-bit integer, `I`.
pub(super) fn int(value: i32) -> AMQPValue {
    AMQPValue::LongInt(value)
}

/// Returns a signed 64-bit integer, `l`.
pub(super) fn long(value: i64) -> AMQPValue {
    AMQPValue::LongLongInt(value)
}

/// Returns a long string, `S`.
pub(super) fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

/// Returns a boolean, `t`.
pub(super) fn flag(value: bool) -> AMQPValue {
    AMQPValue::Boolean(value)
}
