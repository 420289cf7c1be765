//! Black-box tests of the write-ahead log: its guarantees after every kind of failure of a process, a disk or a byte.

mod compact;
mod crash;
mod damage;
mod full;
mod model;
mod reopen;
