//! Tests of the broker, over its sockets.

mod malformed;
