//! The queues and the exchange of a run: declared before it, deleted after it.

use amq_protocol::protocol::basic::AMQPProperties;
use amq_protocol::protocol::{basic, exchange, queue};
use amq_protocol::types::{AMQPValue, FieldArray, FieldTable, ShortString};
use amqp_client::{Session, SessionError};

use crate::settings::Settings;

/// The channel for setup and teardown.
pub(crate) const CHANNEL: u16 = 1;
/// Argument that sets where a consumer starts to read a stream.
const OFFSET: &str = "x-stream-offset";

/// Handling of messages that are in a queue when it is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leftovers {
    Purge,
    Keep,
}

/// Declares queues and exchange, purges `leftovers` if requested, and binds the queues. Predeclared ones are only
/// checked (passive declare).
pub(crate) fn declare(
    session: &mut Session,
    settings: &Settings,
    leftovers: Leftovers,
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
        session.declare_exchange(CHANNEL, declare)?;
    }
    if settings.exclusive {
        // Only their consumers declare them, on their own connections.
        return Ok(());
    }
    settings
        .queues()
        .iter()
        .try_for_each(|name| declare_queue(session, settings, name, leftovers))
}

/// Returns the method that declares a queue.
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

/// Returns the method that binds a queue, if an exchange is named.
pub(crate) fn binding(settings: &Settings, name: &str) -> Option<queue::Bind> {
    (!settings.exchange.is_empty()).then(|| queue::Bind {
        queue: name.into(),
        exchange: settings.exchange.as_str().into(),
        routing_key: settings.routing_key.as_deref().unwrap_or(name).into(),
        nowait: false,
        arguments: FieldTable::default(),
    })
}

/// Declares a queue, and binds it if an exchange is named. The channel must be open.
pub(crate) fn declare_queue(
    session: &mut Session,
    settings: &Settings,
    name: &str,
    leftovers: Leftovers,
) -> Result<(), SessionError> {
    let declared = session.declare_queue(CHANNEL, declaration(settings, name))?;
    if settings.predeclared {
        return Ok(());
    }
    if declared.message_count > 0 && leftovers == Leftovers::Purge {
        session.purge_queue(CHANNEL, name)?;
    }
    match binding(settings, name) {
        Some(bind) => session.bind_queue(CHANNEL, bind),
        None => Ok(()),
    }
}

/// Returns the method that declares a queue passively.
pub(crate) fn passive(settings: &Settings, name: &str) -> queue::Declare {
    queue::Declare {
        passive: true,
        ..declaration(settings, name)
    }
}

/// Returns how many messages are in the queues. A missing queue counts as empty. If it was an auto-delete queue, the
/// depth is unknown: `None`. The channel must be open, and stays open.
pub(crate) fn queued(
    session: &mut Session,
    settings: &Settings,
) -> Result<Option<u64>, SessionError> {
    if settings.exclusive {
        // They were deleted with their consumers' connections, including their messages.
        return Ok(None);
    }
    let (mut queued, mut is_known) = (0, true);
    for name in settings.queues() {
        match session.declare_queue(CHANNEL, passive(settings, &name)) {
            Ok(declared) => queued += u64::from(declared.message_count),
            Err(error) if error.code() == Some(404) => {
                session.open_channel(CHANNEL)?;
                is_known &= !settings.auto_delete;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(is_known.then_some(queued))
}

/// Deletes the queues and the exchange that [`declare`] declared. The channel must be open.
pub(crate) fn delete(session: &mut Session, settings: &Settings) -> Result<(), SessionError> {
    if settings.predeclared {
        return Ok(());
    }
    // Exclusive queues were deleted with their connections.
    let queues = (!settings.exclusive).then(|| settings.queues());
    for name in queues.iter().flatten() {
        session.delete_queue(CHANNEL, name)?;
    }
    if !settings.exchange.is_empty() {
        session.delete_exchange(CHANNEL, &settings.exchange)?;
    }
    Ok(())
}

pub(crate) fn tag(index: u64) -> ShortString {
    format!("perftest-{index}").as_str().into()
}

/// Returns the method that starts consuming. It requests no answer: deliveries follow.
pub(crate) fn consume(settings: &Settings, index: u64) -> basic::Consume {
    let mut arguments = table(&settings.consumer_args);
    if settings.is_of_type("stream") && !settings.consumer_args.contains_key(OFFSET) {
        // Messages published before the consumer started belong to the run too.
        arguments.insert(OFFSET.into(), AMQPValue::LongString("first".into()));
    }
    basic::Consume {
        queue: settings.queue_of(index).as_str().into(),
        consumer_tag: tag(index),
        no_local: false,
        no_ack: settings.auto_ack,
        exclusive: false,
        nowait: true,
        arguments,
    }
}

/// Returns the method that publishes a message of producer `index`.
pub(crate) fn publish(settings: &Settings, index: u64) -> basic::Publish {
    let queue = settings.queue_of(index);
    basic::Publish {
        exchange: settings.exchange.as_str().into(),
        routing_key: settings.routing_key.as_deref().unwrap_or(&queue).into(),
        mandatory: settings.mandatory,
        immediate: false,
    }
}

/// Returns the `basic.get` of consumer `index`.
pub(crate) fn get(settings: &Settings, index: u64) -> basic::Get {
    basic::Get {
        queue: settings.queue_of(index).as_str().into(),
        no_ack: settings.auto_ack,
    }
}

pub(crate) fn properties(settings: &Settings) -> AMQPProperties {
    let mut properties = AMQPProperties::default();
    let of = &settings.properties;
    let persistent = settings.persistent.then_some(2);
    if let Some(mode) = of.delivery_mode.or(persistent) {
        properties = properties.with_delivery_mode(mode);
    }
    if let Some(value) = of.priority {
        properties = properties.with_priority(value);
    }
    if let Some(value) = of.timestamp {
        properties = properties.with_timestamp(value);
    }
    type Setter = fn(AMQPProperties, ShortString) -> AMQPProperties;
    let texts: [(&Option<String>, Setter); 10] = [
        (&of.content_type, AMQPProperties::with_content_type),
        (&of.content_encoding, AMQPProperties::with_content_encoding),
        (&of.correlation_id, AMQPProperties::with_correlation_id),
        (&of.reply_to, AMQPProperties::with_reply_to),
        (&of.expiration, AMQPProperties::with_expiration),
        (&of.message_id, AMQPProperties::with_message_id),
        (&of.kind, AMQPProperties::with_type),
        (&of.user_id, AMQPProperties::with_user_id),
        (&of.app_id, AMQPProperties::with_app_id),
        (&of.cluster_id, AMQPProperties::with_cluster_id),
    ];
    for (value, set) in texts {
        if let Some(value) = value {
            properties = set(properties, value.as_str().into());
        }
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

fn table<'a>(values: impl IntoIterator<Item = (&'a String, &'a toml::Value)>) -> FieldTable {
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
        toml::Value::Table(values) => AMQPValue::FieldTable(table(values)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the stream offset that a consumer requests on a queue of type `kind`.
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
    fn a_message_has_the_fourteen_properties_of_the_plan() {
        let text = r#"
            persistent = true
            [properties]
            content_type = "a/b"
            content_encoding = "gzip"
            delivery_mode = 2
            priority = 5
            correlation_id = "7"
            reply_to = "r"
            expiration = "60000"
            message_id = "m"
            timestamp = 8
            type = "t"
            user_id = "guest"
            app_id = "app"
            cluster_id = "c"
            headers = { mine = true }
        "#;
        let settings: Settings = toml::from_str(text).unwrap();
        let mut headers = FieldTable::default();
        headers.insert("mine".into(), AMQPValue::Boolean(true));
        let expected = AMQPProperties::default()
            .with_content_type("a/b".into())
            .with_content_encoding("gzip".into())
            .with_headers(headers)
            .with_delivery_mode(2)
            .with_priority(5)
            .with_correlation_id("7".into())
            .with_reply_to("r".into())
            .with_expiration("60000".into())
            .with_message_id("m".into())
            .with_timestamp(8)
            .with_type("t".into())
            .with_user_id("guest".into())
            .with_app_id("app".into())
            .with_cluster_id("c".into());
        assert_eq!(properties(&settings), expected);
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
