//! Definitions: durable exchanges, queues and bindings as stored in the log, a key and an AMQP table each.

use amq_protocol::types::generation::gen_field_table;
use amq_protocol::types::parsing::parse_field_table;
use amq_protocol::types::{AMQPValue, FieldTable};

use crate::exchange::{Binding, Kind, Traits};
use crate::queue::QueueTraits;

/// A durable object, with the names of its ends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Definition {
    Exchange {
        vhost: String,
        name: String,
        traits: Traits,
    },
    Queue {
        vhost: String,
        name: String,
        /// The queue's number in the log.
        serial: u32,
        traits: QueueTraits,
    },
    Binding {
        vhost: String,
        source: String,
        /// True if it is bound to a queue, false if to an exchange.
        to_queue: bool,
        to: String,
        binding: Binding,
    },
}

impl Definition {
    /// Returns the key. Exchanges sort before queues, and queues before bindings.
    pub(crate) fn key(&self) -> String {
        let is_exchange = matches!(self, Self::Exchange { .. });
        match self {
            Self::Exchange { vhost, name, .. } | Self::Queue { vhost, name, .. } => {
                let kind = if is_exchange { 1 } else { 2 };
                format!("{kind}/{}\0{}", escape(vhost), escape(name))
            }
            Self::Binding {
                vhost,
                source,
                to_queue,
                to,
                binding,
            } => {
                let key = String::from_utf8_lossy(&binding.key);
                let to_queue = to_queue.to_string();
                let names: [&str; 5] = [vhost, source, &to_queue, to, &key];
                let names = names.map(escape);
                format!("3/{}\0{:?}", names.join("\0"), binding.arguments)
            }
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut table = FieldTable::default();
        let mut put = |name: &str, value| {
            table.insert(name.into(), value);
        };
        match self {
            Self::Exchange {
                vhost,
                name,
                traits,
            } => {
                put("vhost", text(vhost));
                put("name", text(name));
                put("type", text(traits.kind.name()));
                put("auto_delete", traits.auto_delete.into());
                put("internal", traits.internal.into());
                put("arguments", traits.arguments.clone().into());
            }
            Self::Queue {
                vhost,
                name,
                serial,
                traits,
            } => {
                put("vhost", text(vhost));
                put("name", text(name));
                put("serial", (*serial).into());
                put("auto_delete", traits.auto_delete.into());
                put("arguments", traits.arguments.clone().into());
            }
            Self::Binding {
                vhost,
                source,
                to_queue,
                to,
                binding,
            } => {
                put("vhost", text(vhost));
                put("source", text(source));
                put("to_queue", (*to_queue).into());
                put("to", text(to));
                put("key", AMQPValue::LongString(binding.key.to_vec().into()));
                put("arguments", binding.arguments.clone().into());
            }
        }
        let encoded = gen_field_table(&table)(Vec::new().into());
        encoded.expect("a vector takes every table").into_inner().0
    }

    /// Parses a definition; `None` if this version did not write it.
    pub(crate) fn decode(key: &str, value: &[u8]) -> Option<Self> {
        let (_, table) = parse_field_table(value).ok()?;
        let get = |name: &str| table.inner().get(name);
        let text = |name| Some(get(name)?.as_long_string()?.to_string());
        let flag = |name| get(name)?.as_bool();
        let vhost = text("vhost")?;
        let arguments = get("arguments")?.as_field_table()?.clone();
        Some(match key.as_bytes().first()? {
            b'1' => Self::Exchange {
                vhost,
                name: text("name")?,
                traits: Traits {
                    kind: Kind::parse(&text("type")?)?,
                    durable: true,
                    auto_delete: flag("auto_delete")?,
                    internal: flag("internal")?,
                    arguments,
                },
            },
            b'2' => Self::Queue {
                vhost,
                name: text("name")?,
                serial: get("serial")?.as_long_uint()?,
                traits: QueueTraits {
                    durable: true,
                    auto_delete: flag("auto_delete")?,
                    arguments,
                },
            },
            b'3' => Self::Binding {
                vhost,
                source: text("source")?,
                to_queue: flag("to_queue")?,
                to: text("to")?,
                binding: Binding {
                    key: get("key")?.as_long_string()?.as_bytes().into(),
                    arguments,
                },
            },
            _ => return None,
        })
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
        let binding = |to: &str, key: &str| Definition::Binding {
            vhost: "/".to_owned(),
            source: "x".to_owned(),
            to_queue: true,
            to: to.to_owned(),
            binding: Binding {
                key: key.as_bytes().into(),
                arguments: FieldTable::default(),
            },
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
    fn what_is_encoded_is_decoded() {
        let mut arguments = FieldTable::default();
        arguments.insert("x-max-length".into(), AMQPValue::LongInt(3));
        let vhost = "/".to_owned();
        let traits = Traits {
            kind: Kind::Topic,
            durable: true,
            auto_delete: true,
            internal: false,
            arguments: arguments.clone(),
        };
        let queue = QueueTraits {
            durable: true,
            auto_delete: false,
            arguments: arguments.clone(),
        };
        let binding = Binding {
            key: b"a.#".as_slice().into(),
            arguments,
        };
        for definition in [
            Definition::Exchange {
                vhost: vhost.clone(),
                name: "x".to_owned(),
                traits,
            },
            Definition::Queue {
                vhost: vhost.clone(),
                name: "q".to_owned(),
                serial: 7,
                traits: queue,
            },
            Definition::Binding {
                vhost,
                source: "x".to_owned(),
                to_queue: true,
                to: "q".to_owned(),
                binding,
            },
        ] {
            let decoded = Definition::decode(&definition.key(), &definition.encode());
            assert_eq!(decoded, Some(definition));
        }
    }
}
