//! An operation whose instructions are counted: a message is published, delivered and acknowledged, without sockets.

#[path = "support/stand.rs"]
mod stand;

use stand::{CLIENTS, Stand};
use test_kit::operations;

/// The allocator of the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Messages per read of a producer.
const BATCH: u16 = 10;

fn main() {
    operations::run(&[("broker", message)]);
}

/// Passes `count` messages, a multiple of 200.
fn message(count: u64) {
    let mut stand = Stand::new(false, BATCH);
    for _ in 0..count.div_ceil(CLIENTS as u64 * u64::from(BATCH)) {
        stand.round();
    }
}
