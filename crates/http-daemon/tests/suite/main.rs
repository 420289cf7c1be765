//! The daemon as a process, as its users and the driver meet it.

mod serving;
mod sink;
#[cfg(test)]
mod support;
