//! Definitions: durable exchanges, queues and bindings as stored in the log, a key and an AMQP table each.

use amq_protocol::types::generation::gen_field_table;
use amq_protocol::types::parsing::parse_field_table;
use amq_protocol::types::{AMQPValue, FieldTable};

use crate::exchange::{Binding, ExchangeSettings, Kind};
use crate::queue::QueueSettings;

/// A durable object of a virtual host, with its name or the names of its ends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Definition {
    pub(crate) vhost: String,
    pub(crate) object: Object,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Object {
    Exchange(String, ExchangeSettings),
    /// The number is the queue's in the log.
    Queue(String, u32, QueueSettings),
    /// The exchange is the source.
    Binding(String, End, Binding),
}

/// The destination of a binding, by name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum End {
    Queue(String),
    Exchange(String),
}

impl Definition {
    /// Returns the key. Exchanges sort before queues, and queues before bindings.
    pub(crate) fn key(&self) -> String {
        let vhost = escape(&self.vhost);
        match &self.object {
            Object::Exchange(name, _) => format!("1/{vhost}\0{}", escape(name)),
            Object::Queue(name, ..) => format!("2/{vhost}\0{}", escape(name)),
            Object::Binding(source, to, binding) => {
                let (to_queue, to) = to.parts();
                let key = String::from_utf8_lossy(&binding.key);
                let [source, to, key] = [source.as_str(), to, &*key].map(escape);
                let arguments = &binding.arguments;
                format!("3/{vhost}\0{source}\0{to_queue}\0{to}\0{key}\0{arguments:?}")
            }
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut table = FieldTable::default();
        let mut put = |name: &str, value| {
            table.insert(name.into(), value);
        };
        put("vhost", text(&self.vhost));
        let arguments = match &self.object {
            Object::Exchange(name, settings) => {
                put("name", text(name));
                put("type", text(settings.kind.name()));
                put("auto_delete", settings.auto_delete.into());
                put("internal", settings.internal.into());
                &settings.arguments
            }
            Object::Queue(name, serial, settings) => {
                put("name", text(name));
                put("serial", (*serial).into());
                put("auto_delete", settings.auto_delete.into());
                &settings.arguments
            }
            Object::Binding(source, to, binding) => {
                let (to_queue, to) = to.parts();
                put("source", text(source));
                put("to_queue", to_queue.into());
                put("to", text(to));
                put("key", AMQPValue::LongString(binding.key.to_vec().into()));
                &binding.arguments
            }
        };
        put("arguments", arguments.clone().into());
        let encoded = gen_field_table(&table)(Vec::new().into());
        encoded.expect("a vector takes every table").into_inner().0
    }

    /// Parses a definition; `None` if this version did not write it.
    pub(crate) fn decode(key: &str, value: &[u8]) -> Option<Self> {
        let (_, table) = parse_field_table(value).ok()?;
        let get = |name: &str| table.inner().get(name);
        let text = |name| Some(get(name)?.as_long_string()?.to_string());
        let flag = |name| get(name)?.as_bool();
        let arguments = get("arguments")?.as_field_table()?.clone();
        let object = match key.as_bytes().first()? {
            b'1' => {
                let settings = ExchangeSettings {
                    kind: Kind::parse(&text("type")?)?,
                    durable: true,
                    auto_delete: flag("auto_delete")?,
                    internal: flag("internal")?,
                    arguments,
                };
                Object::Exchange(text("name")?, settings)
            }
            b'2' => {
                let settings = QueueSettings {
                    durable: true,
                    auto_delete: flag("auto_delete")?,
                    arguments,
                };
                Object::Queue(text("name")?, get("serial")?.as_long_uint()?, settings)
            }
            b'3' => {
                let to = if flag("to_queue")? {
                    End::Queue(text("to")?)
                } else {
                    End::Exchange(text("to")?)
                };
                let key = get("key")?.as_long_string()?.as_bytes().into();
                Object::Binding(text("source")?, to, Binding { key, arguments })
            }
            _ => return None,
        };
        let vhost = text("vhost")?;
        Some(Self { vhost, object })
    }
}

impl End {
    /// Returns true for a queue, and the name.
    fn parts(&self) -> (bool, &str) {
        match self {
            Self::Queue(name) => (true, name),
            Self::Exchange(name) => (false, name),
        }
    }
}

/// Escapes a name in a key: NUL separates names, and may also occur in one. A name without control characters is
/// unchanged.
fn escape(name: &str) -> String {
    name.replace('\u{1}', "\u{1}\u{1}")
        .replace('\0', "\u{1}\u{2}")
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_nul_have_keys_of_their_own() {
        let binding = |to: &str, key: &str| {
            let binding = Binding::new(key, FieldTable::default());
            Definition {
                vhost: "/".to_owned(),
                object: Object::Binding("x".to_owned(), End::Queue(to.to_owned()), binding),
            }
        };
        for other in [("a", "b\0c"), ("a\u{1}\u{2}b", "c")] {
            assert_ne!(binding("a\0b", "c").key(), binding(other.0, other.1).key());
        }
        assert_eq!(
            binding("a", "b").key(),
            "3//\0x\0true\0a\0b\0FieldTable({})"
        );
    }

    #[test]
    fn definitions_are_decoded_as_they_were_encoded() {
        let mut arguments = FieldTable::default();
        arguments.insert("x-max-length".into(), AMQPValue::LongInt(3));
        let settings = ExchangeSettings {
            kind: Kind::Topic,
            durable: true,
            auto_delete: true,
            internal: false,
            arguments: arguments.clone(),
        };
        let queue = QueueSettings {
            durable: true,
            auto_delete: false,
            arguments: arguments.clone(),
        };
        let binding = Binding::new("a.#", arguments);
        let end = End::Queue("q".to_owned());
        for object in [
            Object::Exchange("x".to_owned(), settings),
            Object::Queue("q".to_owned(), 7, queue),
            Object::Binding("x".to_owned(), end, binding),
        ] {
            let vhost = "/".to_owned();
            let definition = Definition { vhost, object };
            let decoded = Definition::decode(&definition.key(), &definition.encode());
            assert_eq!(decoded, Some(definition));
        }
    }
}
