//! Tests of the program, its engines, and its parts, against scripted servers.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod answers;
mod calibration;
mod calls;
mod command_line;
mod connections;
mod contents;
mod divided;
mod engines;
mod event_daemons;
mod events;
mod flame_graphs;
mod frames;
mod front;
mod goaway;
mod held;
mod http2_answers;
mod isolation;
mod latency;
mod left_over;
mod left_server;
mod mistakes;
mod overload;
mod paths;
mod program;
mod realistic;
mod redirect_runs;
mod redirects;
mod reference;
mod running;
mod scenarios;
mod scripted;
mod scripted_server;
mod secrets;
mod secure;
mod servers;
mod shares;
mod tls;
mod tls_options;
mod tls_peers;
