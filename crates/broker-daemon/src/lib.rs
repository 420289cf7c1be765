//! An AMQP 0-9-1 broker: the embedded default of `amqp-perftest`.

pub mod log;
