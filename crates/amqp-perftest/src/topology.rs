//! The queues and the exchange of a run: declared before it, deleted after it.

use std::collections::BTreeMap;

use amq_protocol::protocol::basic::AMQPProperties;
use amq_protocol::protocol::{AMQPClass, basic, confirm, exchange, queue};
use amq_protocol::types::{AMQPValue, FieldArray, FieldTable, ShortString};

use crate::session::{Session, SessionError};
use crate::settings::Settings;

/// The channel of what is done once.
pub(crate) const CHANNEL: u16 = 1;
/// From where a consumer reads a stream.
const OFFSET: &str = "x-stream-offset";

/// What to do with messages that lie in a queue when it is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    Purge,
    Keep,
}

/// Declares queues and exchange, purges what was `left` in them if so asked, and binds them. What is predeclared is asked
/// for alone.
pub(crate) fn declare(
    session: &mut Session,
    settings: &Settings,
    left: Left,
) -> Result<(), SessionError> {
    session.open_channel(CHANNEL)?;
    if !settings.exchange.is_empty() {
        let declare = exchange::Declare {
            exchange: settings.exchange.as_str().into(),
            kind: settings.exchange_type.as_str().into(),
            passive: settings.predeclared,
            durable: settings.durable,
            auto_delete: false,
            internal: false,
            nowait: false,
            arguments: FieldTable::default(),
        };
        session.call(
            CHANNEL,
            AMQPClass::Exchange(exchange::AMQPMethod::Declare(declare)),
        )?;
    }
    if settings.exclusive {
        // Theirs alone who consume: see `declare_own`.
        return Ok(());
    }
    settings
        .queues()
        .iter()
        .try_for_each(|name| declare_queue(session, settings, name, left))
}

/// Declares the exclusive queue of consumer `place` on its own connection, with which it goes. Consumers that share a
/// connection may share a queue. The channel is open.
pub(crate) fn declare_own(
    session: &mut Session,
    settings: &Settings,
    place: u32,
) -> Result<(), SessionError> {
    let name = settings.queue_of(u64::from(place));
    declare_queue(session, settings, &name, Left::Keep)
}

/// What declares a queue.
pub(crate) fn declaration(settings: &Settings, name: &str) -> queue::Declare {
    queue::Declare {
        queue: name.into(),
        passive: settings.predeclared,
        durable: settings.durable,
        exclusive: settings.exclusive,
        auto_delete: settings.auto_delete,
        nowait: false,
        arguments: arguments(settings),
    }
}

/// What binds a queue, where an exchange is named.
pub(crate) fn binding(settings: &Settings, name: &str) -> Option<queue::Bind> {
    (!settings.exchange.is_empty()).then(|| queue::Bind {
        queue: name.into(),
        exchange: settings.exchange.as_str().into(),
        routing_key: settings.routing_key.as_deref().unwrap_or(name).into(),
        nowait: false,
        arguments: FieldTable::default(),
    })
}

/// Declares a queue, and binds it where an exchange is named. The channel is open.
pub(crate) fn declare_queue(
    session: &mut Session,
    settings: &Settings,
    name: &str,
    left: Left,
) -> Result<(), SessionError> {
    let declare = declaration(settings, name);
    let call = AMQPClass::Queue(queue::AMQPMethod::Declare(declare));
    let AMQPClass::Queue(queue::AMQPMethod::DeclareOk(declared)) = session.call(CHANNEL, call)?
    else {
        return Err(SessionError::Protocol(
            "queue.declare was not answered with queue.declare-ok".to_owned(),
        ));
    };
    if settings.predeclared {
        return Ok(());
    }
    if declared.message_count > 0 && left == Left::Purge {
        let purge = queue::Purge {
            queue: name.into(),
            nowait: false,
        };
        session.call(CHANNEL, AMQPClass::Queue(queue::AMQPMethod::Purge(purge)))?;
    }
    let Some(bind) = binding(settings, name) else {
        return Ok(());
    };
    session
        .call(CHANNEL, AMQPClass::Queue(queue::AMQPMethod::Bind(bind)))
        .map(drop)
}

/// What asks for a queue that is there.
pub(crate) fn passive(settings: &Settings, name: &str) -> queue::Declare {
    queue::Declare {
        passive: true,
        ..declaration(settings, name)
    }
}

/// How many messages lie in the queues; one that is gone holds none, unless it was to go with its last consumer: then
/// nobody knows what it held, `None`. The channel is open, and stays so.
pub(crate) fn queued(
    session: &mut Session,
    settings: &Settings,
) -> Result<Option<u64>, SessionError> {
    if settings.exclusive {
        // They went with their consumers' connections, and with them what they held.
        return Ok(None);
    }
    let (mut queued, mut is_known) = (0, true);
    for name in settings.queues() {
        let declare = passive(settings, &name);
        let call = AMQPClass::Queue(queue::AMQPMethod::Declare(declare));
        match session.call(CHANNEL, call) {
            Ok(AMQPClass::Queue(queue::AMQPMethod::DeclareOk(declared))) => {
                queued += u64::from(declared.message_count);
            }
            Ok(_) => {}
            Err(error) if error.code() == Some(404) => {
                session.open_channel(CHANNEL)?;
                is_known &= !settings.auto_delete;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(is_known.then_some(queued))
}

/// Deletes what [`declare`] declared. The channel is open.
pub(crate) fn delete(session: &mut Session, settings: &Settings) -> Result<(), SessionError> {
    if settings.predeclared {
        return Ok(());
    }
    // Exclusive ones have gone with their connections.
    let queues = (!settings.exclusive).then(|| settings.queues());
    for name in queues.iter().flatten() {
        delete_queue(session, name)?;
    }
    if !settings.exchange.is_empty() {
        let delete = exchange::Delete {
            exchange: settings.exchange.as_str().into(),
            if_unused: false,
            nowait: false,
        };
        session.call(
            CHANNEL,
            AMQPClass::Exchange(exchange::AMQPMethod::Delete(delete)),
        )?;
    }
    Ok(())
}

/// Deletes a queue with all that is in it.
pub(crate) fn delete_queue(session: &mut Session, name: &str) -> Result<(), SessionError> {
    let delete = queue::Delete {
        queue: name.into(),
        if_unused: false,
        if_empty: false,
        nowait: false,
    };
    session
        .call(CHANNEL, AMQPClass::Queue(queue::AMQPMethod::Delete(delete)))
        .map(drop)
}

/// Makes a channel a producer's.
pub(crate) fn open_producer(
    session: &mut Session,
    settings: &Settings,
    channel: u16,
) -> Result<(), SessionError> {
    session.open_channel(channel)?;
    if settings.confirms.is_some() {
        let select = confirm::Select { nowait: false };
        session.call(
            channel,
            AMQPClass::Confirm(confirm::AMQPMethod::Select(select)),
        )?;
    }
    Ok(())
}

/// Makes a channel a consumer's, which consumes nothing yet.
pub(crate) fn open_consumer(
    session: &mut Session,
    settings: &Settings,
    channel: u16,
) -> Result<(), SessionError> {
    session.open_channel(channel)?;
    if settings.prefetch > 0 && !settings.auto_ack {
        let qos = basic::Qos {
            prefetch_count: settings.prefetch,
            global: settings.global_qos,
        };
        session.call(channel, AMQPClass::Basic(basic::AMQPMethod::Qos(qos)))?;
    }
    Ok(())
}

/// The tag of consumer `place`.
pub(crate) fn tag(place: u64) -> ShortString {
    format!("perftest-{place}").as_str().into()
}

/// What makes a consumer's channel consume. Nothing is answered: deliveries follow.
pub(crate) fn consume(settings: &Settings, place: u64) -> basic::Consume {
    let mut arguments = table(&settings.consumer_args);
    if settings.is_of_type("stream") && !settings.consumer_args.contains_key(OFFSET) {
        // What was published before the consumer came belongs to the run too.
        arguments.insert(OFFSET.into(), AMQPValue::LongString("first".into()));
    }
    basic::Consume {
        queue: settings.queue_of(place).as_str().into(),
        consumer_tag: tag(place),
        no_local: false,
        no_ack: settings.auto_ack,
        exclusive: false,
        nowait: true,
        arguments,
    }
}

/// How consumer `place` asks for a message.
pub(crate) fn get(settings: &Settings, place: u64) -> basic::Get {
    basic::Get {
        queue: settings.queue_of(place).as_str().into(),
        no_ack: settings.auto_ack,
    }
}

/// The properties of the messages.
pub(crate) fn properties(settings: &Settings) -> AMQPProperties {
    let mut properties = AMQPProperties::default();
    if settings.persistent {
        properties = properties.with_delivery_mode(2);
    }
    let of = &settings.properties;
    if let Some(value) = &of.content_type {
        properties = properties.with_content_type(value.as_str().into());
    }
    if let Some(value) = of.priority {
        properties = properties.with_priority(value);
    }
    if let Some(value) = &of.expiration {
        properties = properties.with_expiration(value.as_str().into());
    }
    if let Some(value) = &of.app_id {
        properties = properties.with_app_id(value.as_str().into());
    }
    if !of.headers.is_empty() {
        properties = properties.with_headers(table(&of.headers));
    }
    properties
}

fn arguments(settings: &Settings) -> FieldTable {
    let mut arguments = table(&settings.queue_args);
    if let Some(kind) = &settings.queue_type {
        let kind = AMQPValue::LongString(kind.as_str().into());
        arguments.insert("x-queue-type".into(), kind);
    }
    arguments
}

fn table(values: &BTreeMap<String, toml::Value>) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, from) in values {
        table.insert(name.as_str().into(), value(from));
    }
    table
}

fn value(from: &toml::Value) -> AMQPValue {
    match from {
        toml::Value::String(text) => AMQPValue::LongString(text.as_str().into()),
        toml::Value::Integer(number) => AMQPValue::LongLongInt(*number),
        toml::Value::Float(number) => AMQPValue::Double(*number),
        toml::Value::Boolean(truth) => AMQPValue::Boolean(*truth),
        toml::Value::Datetime(time) => AMQPValue::LongString(time.to_string().into()),
        toml::Value::Array(values) => AMQPValue::FieldArray(FieldArray::from(
            values.iter().map(value).collect::<Vec<_>>(),
        )),
        toml::Value::Table(values) => {
            let values = values
                .iter()
                .map(|(name, value)| (name.clone(), value.clone()));
            AMQPValue::FieldTable(table(&values.collect()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The offset that consumers of a queue with this argument read from, asked for so.
    fn offset(kind: &str, asked: Option<toml::Value>) -> Option<AMQPValue> {
        let argument = ("x-queue-type".to_owned(), kind.into());
        let settings = Settings {
            queue_args: [argument].into(),
            consumer_args: asked
                .map(|value| (OFFSET.to_owned(), value))
                .into_iter()
                .collect(),
            ..Settings::default()
        };
        consume(&settings, 0).arguments.inner().get(OFFSET).cloned()
    }

    #[test]
    fn a_stream_is_read_from_its_beginning_unless_another_place_is_named() {
        let text = |text: &str| Some(AMQPValue::LongString(text.into()));
        assert_eq!(offset("stream", None), text("first"));
        assert_eq!(offset("stream", Some("next".into())), text("next"));
        let number = Some(AMQPValue::LongLongInt(5));
        assert_eq!(offset("stream", Some(5.into())), number);
        assert_eq!(offset("quorum", None), None);
    }
}
