//! Black-box tests of the write-ahead log: its guarantees after every kind of failure of a process, a disk or a byte.

#[path = "log/compact.rs"]
mod compact;
#[path = "log/crash.rs"]
mod crash;
#[path = "log/damage.rs"]
mod damage;
#[path = "log/full.rs"]
mod full;
#[path = "log/kill.rs"]
mod kill;
#[path = "log/model.rs"]
mod model;
#[path = "log/reopen.rs"]
mod reopen;
