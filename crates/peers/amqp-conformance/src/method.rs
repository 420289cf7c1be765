//! Methods by type: sending, and matching of answers.

use amq_protocol::protocol::{AMQPClass, basic, channel, confirm, connection, exchange, queue, tx};

/// A method of AMQP 0-9-1 that a case sends or waits for.
pub(super) trait Method: Sized {
    /// The name as in the specification: `queue.declare-ok`.
    const NAME: &'static str;
    /// Returns the ids of its class and of itself.
    fn ids(&self) -> (u16, u16);
    fn wrap(self) -> AMQPClass;
    /// Returns the method, if it is of this type.
    fn unwrap(class: AMQPClass) -> Result<Self, AMQPClass>;

    /// Returns the method with a change of its fields.
    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// A method that the broker answers with one other.
pub(super) trait Call: Method {
    type Answer: Method;
}

macro_rules! methods {
    ($($variant:ident, $class:ident: $($method:ident $name:literal $(=> $answer:ident)?),+;)+) => {$($(
        impl Method for $class::$method {
            const NAME: &'static str = $name;

            fn ids(&self) -> (u16, u16) {
                (self.get_amqp_class_id(), self.get_amqp_method_id())
            }

            fn wrap(self) -> AMQPClass {
                AMQPClass::$variant($class::AMQPMethod::$method(self))
            }

            fn unwrap(class: AMQPClass) -> Result<Self, AMQPClass> {
                match class {
                    AMQPClass::$variant($class::AMQPMethod::$method(method)) => Ok(method),
                    other => Err(other),
                }
            }
        }
        $(impl Call for $class::$method {
            type Answer = $class::$answer;
        })?
    )+)+};
}

methods! {
    Connection, connection:
        Start "connection.start", StartOk "connection.start-ok", Tune "connection.tune", TuneOk "connection.tune-ok",
        Open "connection.open" => OpenOk, OpenOk "connection.open-ok",
        Close "connection.close" => CloseOk, CloseOk "connection.close-ok";
    Channel, channel:
        Open "channel.open" => OpenOk, OpenOk "channel.open-ok",
        Close "channel.close" => CloseOk, CloseOk "channel.close-ok",
        Flow "channel.flow" => FlowOk, FlowOk "channel.flow-ok";
    Exchange, exchange:
        Declare "exchange.declare" => DeclareOk, DeclareOk "exchange.declare-ok",
        Delete "exchange.delete" => DeleteOk, DeleteOk "exchange.delete-ok",
        Bind "exchange.bind" => BindOk, BindOk "exchange.bind-ok",
        Unbind "exchange.unbind" => UnbindOk, UnbindOk "exchange.unbind-ok";
    Queue, queue:
        Declare "queue.declare" => DeclareOk, DeclareOk "queue.declare-ok",
        Bind "queue.bind" => BindOk, BindOk "queue.bind-ok",
        Unbind "queue.unbind" => UnbindOk, UnbindOk "queue.unbind-ok",
        Purge "queue.purge" => PurgeOk, PurgeOk "queue.purge-ok",
        Delete "queue.delete" => DeleteOk, DeleteOk "queue.delete-ok";
    Basic, basic:
        Qos "basic.qos" => QosOk, QosOk "basic.qos-ok",
        Consume "basic.consume" => ConsumeOk, ConsumeOk "basic.consume-ok",
        Cancel "basic.cancel" => CancelOk, CancelOk "basic.cancel-ok",
        Recover "basic.recover" => RecoverOk, RecoverOk "basic.recover-ok", RecoverAsync "basic.recover-async",
        Publish "basic.publish", Return "basic.return", Deliver "basic.deliver",
        Get "basic.get", GetOk "basic.get-ok", GetEmpty "basic.get-empty",
        Ack "basic.ack", Nack "basic.nack", Reject "basic.reject";
    Confirm, confirm: Select "confirm.select" => SelectOk, SelectOk "confirm.select-ok";
    Tx, tx:
        Select "tx.select" => SelectOk, SelectOk "tx.select-ok",
        Commit "tx.commit" => CommitOk, CommitOk "tx.commit-ok",
        Rollback "tx.rollback" => RollbackOk, RollbackOk "tx.rollback-ok";
}
