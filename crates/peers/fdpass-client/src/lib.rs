//! The protocol of streaming daemons, as its clients see it: [`handoff`] creates a client and passes it, [`client`] reads
//! single answers with deadlines, [`sse`] parses the events piece by piece, and [`transcript`] has the answers that all
//! daemons give, byte for byte.

pub mod client;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod handoff;
pub mod sse;
pub mod transcript;
