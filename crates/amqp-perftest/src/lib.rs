//! Producers and consumers against an AMQP 0-9-1 broker.
//!
//! [`stamp`] is what each body begins with, `ledger` the account of all messages, [`settings`] what a plan may ask for,
//! `layout` who is on which connection and worker, `topology` the queues of a run. An engine serves one worker's share
//! of producers and consumers: [`wire`] writes and reads frames by hand, `lapin` calls the library of that name as
//! applications do. All else is the same for any engine. `conformance` looks at what a broker answers, case by case,
//! with frames of its own.

mod check;
mod churn;
pub mod cli;
mod conformance;
mod counts;
mod doubts;
pub mod driver;
mod ending;
mod lapin;
mod layout;
mod ledger;
mod listener;
mod nodes;
pub mod null_broker;
pub mod outcome;
mod pace;
mod report;
pub mod series;
mod session;
pub mod settings;
mod socket;
pub mod stamp;
mod starts;
mod tls;
mod topology;
pub mod wire;
