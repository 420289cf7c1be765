//! `amqp-perftest`: producers and consumers against an AMQP 0-9-1 broker.

use std::process::ExitCode;

/// Memory that lapin allocates on one thread is freed on another, several times per message. The system's allocator
/// takes a lock for each.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    amqp_perftest::main(build_version::version!())
}
