//! streaming-daemon
