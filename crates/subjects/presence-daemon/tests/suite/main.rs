//! Tests of presence: the program itself, alone and with other nodes over Redis.

mod client;
mod daemon;
mod descriptors;
mod interruptions;
mod nodes;
mod redis;
mod simulated_peers;
mod startup;
