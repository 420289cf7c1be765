//! Databases beside the issue daemon.

pub mod peers;
