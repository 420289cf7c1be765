//! Publishers and consumers without I/O. An engine reports what happened to them, and performs the actions that they
//! return; everything they decide is therefore the same for all engines.

pub(crate) mod connection;
pub(crate) mod consumer;
pub(crate) mod ending;
pub(crate) mod pace;
pub(crate) mod publisher;
pub(crate) mod starts;
pub(crate) mod worker;

#[cfg(test)]
pub(crate) mod testing;
