//! Throughput, staged latency and concurrent connections over HTTP.

pub mod answer;
