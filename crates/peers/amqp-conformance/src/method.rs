//! Methods by type and by name: building from the words of a script, matching, and reading of fields.

use std::num::ParseIntError;
use std::str::FromStr;

use amq_protocol::protocol::{AMQPClass, basic, channel, confirm, connection, exchange, queue, tx};
use amq_protocol::types::{FieldTable, LongString, ShortString};
use anyhow::{Context as _, anyhow, bail};

use super::words::Arguments;

/// A method of AMQP 0-9-1 that a case sends or waits for.
pub(super) trait Method: Sized {
    /// The name as in the specification: `queue.declare-ok`.
    const NAME: &'static str;
    fn wrap(self) -> AMQPClass;
    /// Returns the method, which must be of this type.
    fn unwrap(class: AMQPClass) -> anyhow::Result<Self>;
}

/// Returns the ids of a method's class and of the method itself.
pub(super) fn ids(class: &AMQPClass) -> (u16, u16) {
    (class.get_amqp_class_id(), class.get_amqp_method_id())
}

/// Returns the ids of the answer to the method with these ids, unless it has none or two.
pub(super) fn answer_ids(ids: (u16, u16)) -> Option<(u16, u16)> {
    match ids {
        // exchange.unbind is the only one whose answer has not the next number.
        (40, 40) => Some((40, 51)),
        // publish, get, ack, reject, recover-async, nack.
        (60, 40 | 70 | 80 | 90 | 100 | 120) => None,
        (class, method) => (method % 10 == 0).then_some((class, method + 1)),
    }
}

/// Returns the error for an unexpected method.
pub(super) fn unexpected(expected: &str, other: &AMQPClass) -> anyhow::Error {
    let (what, code, text) = match other {
        AMQPClass::Connection(connection::AMQPMethod::Close(close)) => {
            ("connection", close.reply_code, &close.reply_text)
        }
        AMQPClass::Channel(channel::AMQPMethod::Close(close)) => {
            ("channel", close.reply_code, &close.reply_text)
        }
        other => return anyhow!("expected {expected}, got {other:?}"),
    };
    anyhow!("expected {expected}, but the {what} was closed: {code} {text}")
}

/// A field of a method, written and read as a word of a script.
trait Field: Sized {
    fn take(name: &str, arguments: &mut Arguments<'_>) -> anyhow::Result<Self>;
    fn show(&self) -> String;
}

impl Field for bool {
    fn take(name: &str, arguments: &mut Arguments<'_>) -> anyhow::Result<Self> {
        Ok(arguments.take_flag(&name.replace('_', "-")))
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Field for FieldTable {
    fn take(_: &str, arguments: &mut Arguments<'_>) -> anyhow::Result<Self> {
        arguments.take_table()
    }

    fn show(&self) -> String {
        format!("{self:?}")
    }
}

macro_rules! fields {
    ($($type:ty: $read:ident),+) => {$(
        impl Field for $type {
            fn take(name: &str, arguments: &mut Arguments<'_>) -> anyhow::Result<Self> {
                let word = arguments.words.pop_front().unwrap_or_default();
                $read(&word).with_context(|| format!("{name} {word:?}"))
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

fields!(u8: number, u16: number, u32: number, u64: number, ShortString: text, LongString: text);

fn number<T: Default + FromStr<Err = ParseIntError>>(word: &str) -> Result<T, ParseIntError> {
    if word.is_empty() {
        Ok(T::default())
    } else {
        word.parse()
    }
}

fn text<'a, T: From<&'a str>>(word: &'a str) -> anyhow::Result<T> {
    Ok(word.into())
}

macro_rules! methods {
    ($($variant:ident $class:ident: $($method:ident $name:literal $($field:ident)*),+;)+) => {
        $($(impl Method for $class::$method {
            const NAME: &'static str = $name;

            fn wrap(self) -> AMQPClass {
                AMQPClass::$variant($class::AMQPMethod::$method(self))
            }

            fn unwrap(class: AMQPClass) -> anyhow::Result<Self> {
                match class {
                    AMQPClass::$variant($class::AMQPMethod::$method(method)) => Ok(method),
                    other => Err(unexpected(Self::NAME, &other)),
                }
            }
        })+)+

        /// Returns the method with this name in the specification. Words are its fields in their order, except for
        /// flags, which are named; entries are its table. What is not given is 0, empty or false.
        pub(super) fn build(name: &str, arguments: &mut Arguments<'_>) -> anyhow::Result<AMQPClass> {
            Ok(match name {
                $($($name => $class::$method {
                    $($field: Field::take(stringify!($field), arguments)?,)*
                }.wrap(),)+)+
                _ => bail!("this step is unknown"),
            })
        }

        /// Returns the name of a method, and its fields by name.
        #[expect(unused_variables, reason = "some methods have no fields")]
        pub(super) fn fields(class: &AMQPClass) -> (&'static str, Vec<(&'static str, String)>) {
            match class {
                $($(AMQPClass::$variant($class::AMQPMethod::$method(method)) => {
                    ($name, vec![$((stringify!($field), method.$field.show()),)*])
                })+)+
                _ => ("another method", Vec::new()),
            }
        }
    };
}

methods! {
    Connection connection:
        Start "connection.start" version_major version_minor server_properties mechanisms locales,
        StartOk "connection.start-ok" client_properties mechanism response locale,
        Tune "connection.tune" channel_max frame_max heartbeat,
        TuneOk "connection.tune-ok" channel_max frame_max heartbeat,
        Open "connection.open" virtual_host, OpenOk "connection.open-ok",
        Close "connection.close" reply_code reply_text class_id method_id, CloseOk "connection.close-ok";
    Channel channel:
        Open "channel.open", OpenOk "channel.open-ok",
        Close "channel.close" reply_code reply_text class_id method_id, CloseOk "channel.close-ok",
        Flow "channel.flow" active, FlowOk "channel.flow-ok" active;
    Exchange exchange:
        Declare "exchange.declare" exchange kind passive durable auto_delete internal nowait arguments,
        DeclareOk "exchange.declare-ok",
        Delete "exchange.delete" exchange if_unused nowait, DeleteOk "exchange.delete-ok",
        Bind "exchange.bind" destination source routing_key nowait arguments, BindOk "exchange.bind-ok",
        Unbind "exchange.unbind" destination source routing_key nowait arguments, UnbindOk "exchange.unbind-ok";
    Queue queue:
        Declare "queue.declare" queue passive durable exclusive auto_delete nowait arguments,
        DeclareOk "queue.declare-ok" queue message_count consumer_count,
        Bind "queue.bind" queue exchange routing_key nowait arguments, BindOk "queue.bind-ok",
        Unbind "queue.unbind" queue exchange routing_key arguments, UnbindOk "queue.unbind-ok",
        Purge "queue.purge" queue nowait, PurgeOk "queue.purge-ok" message_count,
        Delete "queue.delete" queue if_unused if_empty nowait, DeleteOk "queue.delete-ok" message_count;
    Basic basic:
        Qos "basic.qos" prefetch_count global, QosOk "basic.qos-ok",
        Consume "basic.consume" queue consumer_tag no_local no_ack exclusive nowait arguments,
        ConsumeOk "basic.consume-ok" consumer_tag,
        Cancel "basic.cancel" consumer_tag nowait, CancelOk "basic.cancel-ok" consumer_tag,
        Recover "basic.recover" requeue, RecoverOk "basic.recover-ok", RecoverAsync "basic.recover-async" requeue,
        Publish "basic.publish" exchange routing_key mandatory immediate,
        Return "basic.return" reply_code reply_text exchange routing_key,
        Deliver "basic.deliver" consumer_tag delivery_tag redelivered exchange routing_key,
        Get "basic.get" queue no_ack,
        GetOk "basic.get-ok" delivery_tag redelivered exchange routing_key message_count, GetEmpty "basic.get-empty",
        Ack "basic.ack" delivery_tag multiple, Nack "basic.nack" delivery_tag multiple requeue,
        Reject "basic.reject" delivery_tag requeue;
    Confirm confirm: Select "confirm.select" nowait, SelectOk "confirm.select-ok";
    Tx tx:
        Select "tx.select", SelectOk "tx.select-ok", Commit "tx.commit", CommitOk "tx.commit-ok",
        Rollback "tx.rollback", RollbackOk "tx.rollback-ok";
}
