//! A file system in memory for SQLite that loses power on request.
//!
//! A [`MockVfs`] keeps the writes of each file that were not synced apart from what is on its disk. At a crash, each
//! unsynced sector of 512 bytes is written, dropped or torn, and those that are written are written in any order. The
//! names of files behave the same: a file exists for certain once it was synced, and is gone for certain once its
//! deletion was.
//!
//! Everything is drawn from a seed, so that a crash can be repeated. Errors of the disk can be injected as well:
//! [`MockVfs::fail_at`] ends the power at the n-th operation, and [`MockVfs::fail_syncs`] lets syncs fail, after which
//! the data may be lost although later syncs succeed, as on Linux (Rebello et al., "Can Applications Recover from fsync
//! Failures?", USENIX ATC 2020).
//!
//! Not simulated: damage of data that was synced (bit rot), and of bytes beside those that are written (SQLite calls
//! their absence "powersafe overwrite" and assumes it).

mod disk;
mod locks;
mod vfs;

pub use vfs::MockVfs;
