//! Producers and consumers against an AMQP 0-9-1 broker.
//!
//! [`settings`] are the driver's part of a plan. `layout` assigns producers and consumers to connections and workers,
//! `topology` declares their queues, and `ledger` accounts for every message by the stamp at the head of its body
//! ([`amqp_client::stamp`]). An engine serves one worker's share of producers and consumers: [`wire`] writes and reads
//! frames itself, `lapin` calls the library of that name, as applications do. Everything else is the same for all engines.

mod check;
mod churn;
pub mod cli;
mod counts;
pub mod driver;
mod ending;
mod findings;
mod lapin;
mod layout;
mod ledger;
mod listener;
mod nodes;
pub mod outcome;
mod pace;
mod report;
pub mod series;
pub mod settings;
pub mod spec;
mod starts;
mod topology;
pub mod wire;
