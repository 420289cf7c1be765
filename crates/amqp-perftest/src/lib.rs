//! Measures AMQP 0-9-1 brokers, and checks that they answer as they must.

pub mod cli;
mod conformance;
