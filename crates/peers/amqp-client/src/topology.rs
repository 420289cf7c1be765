//! Calls that declare and delete exchanges and queues.

use amq_protocol::protocol::{AMQPClass, basic, confirm, exchange, queue};

use crate::error::SessionError;
use crate::session::Session;

impl Session {
    /// Declares an exchange (exchange.declare). The channel must be open, here and below.
    ///
    /// # Errors
    /// The broker's refusal, or a lost connection; the same for all calls below.
    pub fn declare_exchange(
        &mut self,
        channel: u16,
        declare: exchange::Declare,
    ) -> Result<(), SessionError> {
        self.exchange(channel, exchange::AMQPMethod::Declare(declare))
    }

    /// Deletes an exchange (exchange.delete).
    pub fn delete_exchange(&mut self, channel: u16, name: &str) -> Result<(), SessionError> {
        let delete = exchange::Delete {
            exchange: name.into(),
            if_unused: false,
            nowait: false,
        };
        self.exchange(channel, exchange::AMQPMethod::Delete(delete))
    }

    /// Declares a queue (queue.declare). Returns the broker's answer, with the number of messages in the queue.
    pub fn declare_queue(
        &mut self,
        channel: u16,
        declare: queue::Declare,
    ) -> Result<queue::DeclareOk, SessionError> {
        match self.queue(channel, queue::AMQPMethod::Declare(declare))? {
            AMQPClass::Queue(queue::AMQPMethod::DeclareOk(declared)) => Ok(declared),
            _ => Err(SessionError::Protocol(
                "queue.declare was not answered with queue.declare-ok".to_owned(),
            )),
        }
    }

    /// Removes the ready messages of a queue (queue.purge).
    pub fn purge_queue(&mut self, channel: u16, name: &str) -> Result<(), SessionError> {
        let purge = queue::Purge {
            queue: name.into(),
            nowait: false,
        };
        self.queue(channel, queue::AMQPMethod::Purge(purge))
            .map(drop)
    }

    /// Binds a queue (queue.bind).
    pub fn bind_queue(&mut self, channel: u16, bind: queue::Bind) -> Result<(), SessionError> {
        self.queue(channel, queue::AMQPMethod::Bind(bind)).map(drop)
    }

    /// Deletes a queue with its messages (queue.delete).
    pub fn delete_queue(&mut self, channel: u16, name: &str) -> Result<(), SessionError> {
        let delete = queue::Delete {
            queue: name.into(),
            if_unused: false,
            if_empty: false,
            nowait: false,
        };
        self.queue(channel, queue::AMQPMethod::Delete(delete))
            .map(drop)
    }

    /// Makes the broker confirm messages published on the channel (confirm.select).
    pub fn select_confirms(&mut self, channel: u16) -> Result<(), SessionError> {
        let select = confirm::AMQPMethod::Select(confirm::Select { nowait: false });
        self.call(channel, AMQPClass::Confirm(select)).map(drop)
    }

    /// Limits the unacknowledged messages of the channel (basic.qos).
    pub fn limit_prefetch(&mut self, channel: u16, qos: basic::Qos) -> Result<(), SessionError> {
        let qos = AMQPClass::Basic(basic::AMQPMethod::Qos(qos));
        self.call(channel, qos).map(drop)
    }

    fn exchange(&mut self, channel: u16, method: exchange::AMQPMethod) -> Result<(), SessionError> {
        self.call(channel, AMQPClass::Exchange(method)).map(drop)
    }

    fn queue(
        &mut self,
        channel: u16,
        method: queue::AMQPMethod,
    ) -> Result<AMQPClass, SessionError> {
        self.call(channel, AMQPClass::Queue(method))
    }
}
