//! AMQP values as JSON.

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
