//! A JSON writer: a page about 10,000 queues is written in slices, without a tree in memory.

use std::fmt::{self, Write as _};

use amq_protocol::types::{AMQPValue, FieldTable};

/// A growing JSON text.
#[derive(Debug, Default)]
pub(crate) struct Json {
    text: String,
}

/// A value that is neither an object nor an array.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Null,
    Flag(bool),
    Number(u64),
    Text(&'a str),
}

impl From<bool> for Value<'_> {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for Value<'_> {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl From<u16> for Value<'_> {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl Json {
    /// Returns the finished text.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// Begins a value; writes a comma first, unless it is the first value.
    fn begin(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with(['{', '[', ':']) {
            self.text.push(',');
        }
    }

    /// Writes an object, whose fields `fill` writes.
    pub(crate) fn object(&mut self, fill: impl FnOnce(&mut Self)) {
        self.begin();
        self.text.push('{');
        fill(self);
        self.text.push('}');
    }

    /// Begins an array, which [`Json::end_array`] ends.
    pub(crate) fn begin_array(&mut self) {
        self.begin();
        self.text.push('[');
    }

    pub(crate) fn end_array(&mut self) {
        self.text.push(']');
    }

    /// Begins an object, which [`Json::end_object`] ends.
    pub(crate) fn begin_object(&mut self) {
        self.begin();
        self.text.push('{');
    }

    pub(crate) fn end_object(&mut self) {
        self.text.push('}');
    }

    /// Writes the name of a field; its value comes next.
    pub(crate) fn key(&mut self, name: &str) {
        self.begin();
        self.quote(name);
        self.text.push(':');
    }

    pub(crate) fn value<'a>(&mut self, value: impl Into<Value<'a>>) {
        self.begin();
        match value.into() {
            Value::Null => self.text.push_str("null"),
            Value::Flag(flag) => self.text.push_str(if flag { "true" } else { "false" }),
            Value::Number(number) => self.print(format_args!("{number}")),
            Value::Text(text) => self.quote(text),
        }
    }

    pub(crate) fn field<'a>(&mut self, name: &str, value: impl Into<Value<'a>>) {
        self.key(name);
        self.value(value);
    }

    /// Writes a field that is an object.
    pub(crate) fn object_field(&mut self, name: &str, fill: impl FnOnce(&mut Self)) {
        self.key(name);
        self.object(fill);
    }

    /// Writes a field that is an empty array.
    pub(crate) fn empty_array(&mut self, name: &str) {
        self.key(name);
        self.begin_array();
        self.end_array();
    }

    /// Writes the arguments of a declaration or a binding as an object.
    pub(crate) fn table(&mut self, table: &FieldTable) {
        self.object(|json| {
            for (name, value) in table.inner() {
                json.key(name.as_str());
                json.amqp(value);
            }
        });
    }

    fn amqp(&mut self, value: &AMQPValue) {
        match value {
            AMQPValue::Boolean(flag) => self.value(*flag),
            AMQPValue::LongString(text) => self.value(&*String::from_utf8_lossy(text.as_bytes())),
            AMQPValue::ShortString(text) => self.value(text.as_str()),
            AMQPValue::FieldTable(table) => self.table(table),
            AMQPValue::FieldArray(array) => {
                self.begin_array();
                for value in array.as_slice() {
                    self.amqp(value);
                }
                self.end_array();
            }
            AMQPValue::Float(number) => self.float((*number).into()),
            AMQPValue::Double(number) => self.float(*number),
            AMQPValue::DecimalValue(decimal) => {
                let scale = 10_f64.powi(decimal.scale.into());
                self.float(f64::from(decimal.value) / scale);
            }
            AMQPValue::ByteArray(bytes) => self.value(&*String::from_utf8_lossy(bytes.as_slice())),
            AMQPValue::Timestamp(number) => self.value(*number),
            AMQPValue::Void => self.value(Value::Null),
            number => match crate::queue::integer(number) {
                Some(number) => {
                    self.begin();
                    self.print(format_args!("{number}"));
                }
                None => self.value(Value::Null),
            },
        }
    }

    /// JSON has neither infinity nor NaN.
    fn float(&mut self, number: f64) {
        self.begin();
        match number.is_finite() {
            true => self.print(format_args!("{number:?}")),
            false => self.text.push_str("null"),
        }
    }

    fn print(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.text.write_fmt(text);
    }

    fn quote(&mut self, text: &str) {
        self.text.push('"');
        for character in text.chars() {
            match character {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                control if control < ' ' => {
                    self.print(format_args!("\\u{:04x}", u32::from(control)))
                }
                other => self.text.push(other),
            }
        }
        self.text.push('"');
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
        let mut json = Json::default();
        json.object(|json| {
            json.field("flag", true);
            json.key("arguments");
            json.table(&table);
            json.empty_array("none");
        });
        assert_eq!(
            json.into_text(),
            r#"{"flag":true,"arguments":{"n":-3,"t":"a\"b\\c\n\u0001é","v":null,"x":null},"none":[]}"#
        );
    }
}
