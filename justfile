# What people do with Drover; `just` alone lists it.

set positional-arguments

_list:
    @just --list --unsorted

# Install what this machine lacks (--check only says what)
setup *args:
    scripts/setup "$@"

# Build everything, optimised
build:
    cargo build --release --workspace

# Run all tests
test *args:
    cargo test --workspace "$@"

# Formatting, lints and documentation, as .ci/run wants them
check:
    cargo fmt --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace --locked

# Run the microbenchmarks of all crates
bench *args:
    cargo bench --workspace "$@"

# The same with cargo-criterion (`just setup --bench` installs it)
criterion *args:
    cargo criterion --workspace "$@"

# Measure a streaming daemon: fdpass-gen with these arguments
run-fdpass *args:
    cargo run --release -p fdpass-gen -- "$@"

# Run every plan of configs/fdpass through the driver, each with these arguments
bench-all *args:
    #!/usr/bin/env bash
    set -euo pipefail
    failed=()
    for plan in configs/fdpass/*.toml; do
        printf '\n== %s: %s\n' "$plan" "$(sed -n '1s/^# *//p' "$plan")"
        cargo run --release --quiet -p fdpass-gen -- --plan "$plan" "$@" || failed+=("$plan (exit $?)")
    done
    ((${#failed[@]} == 0)) || { printf 'failed: %s\n' "${failed[@]}" >&2; exit 1; }

# Check result files against the published schema
check-results +files:
    cargo run --quiet -p measure --example check-result -- "$@"

# Everything that a change must pass
ci:
    .ci/run
