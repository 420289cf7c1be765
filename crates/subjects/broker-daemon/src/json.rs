//! AMQP values as JSON, and long lists of objects as texts.

use std::fmt::Write as _;

use amq_protocol::types::{AMQPValue, FieldTable};
use serde_json::Value;

use crate::queue::integer;

/// Converts the arguments of a declaration or a binding to an object.
pub(crate) fn from_table(table: &FieldTable) -> Value {
    let fields = table.inner().iter();
    fields
        .map(|(name, value)| (name.as_str(), from_value(value)))
        .collect()
}

fn from_value(value: &AMQPValue) -> Value {
    match value {
        AMQPValue::Boolean(flag) => (*flag).into(),
        AMQPValue::LongString(text) => String::from_utf8_lossy(text.as_bytes()).into(),
        AMQPValue::ShortString(text) => text.as_str().into(),
        AMQPValue::FieldTable(table) => from_table(table),
        AMQPValue::FieldArray(array) => array.as_slice().iter().map(from_value).collect(),
        // JSON has neither infinity nor NaN: both become null.
        AMQPValue::Float(number) => f64::from(*number).into(),
        AMQPValue::Double(number) => (*number).into(),
        AMQPValue::DecimalValue(decimal) => {
            (f64::from(decimal.value) / 10_f64.powi(decimal.scale.into())).into()
        }
        AMQPValue::ByteArray(bytes) => String::from_utf8_lossy(bytes.as_slice()).into(),
        AMQPValue::Timestamp(number) => (*number).into(),
        AMQPValue::Void => Value::Null,
        number => integer(number).into(),
    }
}

/// A JSON array as a growing text: a list of 10,000 queues takes no tree in memory.
#[derive(Debug, Default)]
pub(crate) struct List(String);

impl List {
    pub(crate) fn push(&mut self, object: &Value) {
        let before = if self.0.is_empty() { '[' } else { ',' };
        // Writing to a string does not fail.
        let _ = write!(self.0, "{before}{object}");
    }

    pub(crate) fn finish(mut self) -> String {
        if self.0.is_empty() {
            self.0.push('[');
        }
        self.0.push(']');
        self.0
    }
}

/// Returns the text of an object with one more field, whose value is the text of a list. The object must not be empty.
pub(crate) fn with_list(object: &Value, name: &str, list: &str) -> String {
    let mut text = object.to_string();
    text.pop();
    format!("{text},\"{name}\":{list}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_arguments_keep_their_types() {
        let mut table = FieldTable::default();
        table.insert("n".into(), AMQPValue::LongInt(-3));
        table.insert("t".into(), AMQPValue::LongString("a\"b\\c\n\u{1}é".into()));
        table.insert("v".into(), AMQPValue::Void);
        table.insert("x".into(), AMQPValue::Double(f64::NAN));
        assert_eq!(
            from_table(&table).to_string(),
            r#"{"n":-3,"t":"a\"b\\c\n\u0001é","v":null,"x":null}"#
        );
    }
}
