//! A blocking AMQP 0-9-1 client: frames, and connections that wait for each answer.
//!
//! Programs that load or test brokers use it for everything besides their load, such as opening connections and
//! declaring or deleting queues. [`stamp`] is the mark that identifies a message when it is delivered.

pub mod frame;
pub mod session;
pub mod stamp;
mod topology;

pub use session::{Broker, Session, SessionError};
pub use tls_client::{Socket, TlsOptions};
