//! The write-ahead log from outside: what it promises, after each way in which a process, a disk or a byte may fail.

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
