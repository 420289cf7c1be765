//! `amqp-perftest`: producers and consumers against an AMQP 0-9-1 broker.

use std::process::ExitCode;

/// What lapin allocates on one thread it frees on another, several times a message: the system's allocator takes a lock
/// for each.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    amqp_perftest::cli::main()
}
