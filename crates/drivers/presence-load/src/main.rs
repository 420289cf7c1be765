//! `presence-load`: load-tests a presence server and audits every event.

use std::process::ExitCode;

/// Most memory of this driver is small and long-lived, and the default allocator would keep more of what a burst needs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    presence_load::main(build_version::version!())
}
