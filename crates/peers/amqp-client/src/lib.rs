//! A blocking AMQP 0-9-1 client: frames, and connections that wait for each answer.
//!
//! Programs that load or test brokers use it for everything besides their load, such as opening connections and
//! declaring or deleting queues. [`stamp`] is the mark that identifies a message when it is delivered.

mod broker;
mod error;
pub mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod session;
pub mod stamp;
mod topology;

pub use broker::{Broker, connect};
pub use error::SessionError;
pub use session::Session;
pub use tls_client::{Socket, TlsOptions};
