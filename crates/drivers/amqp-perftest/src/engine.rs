//! What serves one worker's share of the clients: the roles decide, an engine does the I/O.

pub(crate) mod churn;
pub(crate) mod lapin;
pub mod wire;
