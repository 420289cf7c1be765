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
}

macro_rules! methods {
    ($($variant:ident, $class:ident: $($method:ident $name:literal),+;)+) => {$($(
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
    )+)+};
}

methods! {
    Connection, connection:
        Start "connection.start", StartOk "connection.start-ok", Tune "connection.tune", TuneOk "connection.tune-ok",
        Secure "connection.secure", SecureOk "connection.secure-ok",
        Open "connection.open", OpenOk "connection.open-ok", Close "connection.close", CloseOk "connection.close-ok";
    Channel, channel:
        Open "channel.open", OpenOk "channel.open-ok", Close "channel.close", CloseOk "channel.close-ok",
        Flow "channel.flow", FlowOk "channel.flow-ok";
    Exchange, exchange:
        Declare "exchange.declare", DeclareOk "exchange.declare-ok", Delete "exchange.delete",
        DeleteOk "exchange.delete-ok", Bind "exchange.bind", BindOk "exchange.bind-ok", Unbind "exchange.unbind",
        UnbindOk "exchange.unbind-ok";
    Queue, queue:
        Declare "queue.declare", DeclareOk "queue.declare-ok", Bind "queue.bind", BindOk "queue.bind-ok",
        Unbind "queue.unbind", UnbindOk "queue.unbind-ok", Purge "queue.purge", PurgeOk "queue.purge-ok",
        Delete "queue.delete", DeleteOk "queue.delete-ok";
    Basic, basic:
        Qos "basic.qos", QosOk "basic.qos-ok", Consume "basic.consume", ConsumeOk "basic.consume-ok",
        Cancel "basic.cancel", CancelOk "basic.cancel-ok", Publish "basic.publish", Return "basic.return",
        Deliver "basic.deliver", Get "basic.get", GetOk "basic.get-ok", GetEmpty "basic.get-empty",
        Ack "basic.ack", Reject "basic.reject", RecoverAsync "basic.recover-async", Recover "basic.recover",
        RecoverOk "basic.recover-ok", Nack "basic.nack";
    Confirm, confirm: Select "confirm.select", SelectOk "confirm.select-ok";
    Tx, tx:
        Select "tx.select", SelectOk "tx.select-ok", Commit "tx.commit", CommitOk "tx.commit-ok",
        Rollback "tx.rollback", RollbackOk "tx.rollback-ok";
}
