# What people do with Drover; `just` alone lists it.

set positional-arguments

# Settings of bench-… and run. They may stand before the recipe or behind it: `just bench-go CONNECTIONS=1000 HOLD=30s`.
CONNECTIONS := "100"
RAMP := "10s"
HOLD := "60s"
DAEMON := "rust"
# The socket of `run`; by default where the daemon of that name listens.
SOCKET := ""
# The folder of `analyze`; by default the latest suite.
DIR := ""

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

# Measure an AMQP broker: amqp-perftest with these arguments
run-amqp *args:
    cargo run --release -p amqp-perftest -- "$@"

# Compare the brokers: every plan of configs/amqp/
bench-amqp *args:
    cargo run --release --quiet -p drover -- run configs/amqp/*.toml "$@"

# Run the HTTP driver on the embedded server, or on any: `just run-http -c 1000 -d 30s http://127.0.0.1:8080/`
run-http *args:
    cargo run --release -p http-load -- "$@"

# Compare the HTTP servers: every plan of configs/http/
bench-http *args:
    cargo run --release --quiet -p drover -- run configs/http/*.toml "$@"

# Run every plan of configs/ that is a suite, full.toml among them: all daemons, all levels, the search for the capacity
bench-all *args:
    #!/usr/bin/env bash
    set -euo pipefail
    mapfile -t plans < <(grep -l '^\[suite\]' configs/*/*.toml | sort)
    cargo run --release --quiet -p drover -- run "${plans[@]}" "$@"

# Launch the Go daemon and measure it: `just bench-go CONNECTIONS=1000 HOLD=30s`
bench-go *settings: (_drive "go" "launch" settings)

# The Python daemon
bench-python *settings: (_drive "python" "launch" settings)

# The PHP daemon
bench-php *settings: (_drive "php" "launch" settings)

# The Rust daemon
bench-rust *settings: (_drive "rust" "launch" settings)

# Measure a daemon that runs already: `just run DAEMON=go CONNECTIONS=1000 HOLD=30s`
run *settings: (_drive DAEMON "running" settings)

[private]
_drive daemon how settings:
    #!/usr/bin/env bash
    set -euo pipefail
    DAEMON=$1 CONNECTIONS={{ quote(CONNECTIONS) }} RAMP={{ quote(RAMP) }} HOLD={{ quote(HOLD) }} SOCKET={{ quote(SOCKET) }}
    read -ra settings <<<"$3"
    for setting in ${settings[@]+"${settings[@]}"}; do
        case $setting in
            CONNECTIONS=* | RAMP=* | HOLD=* | SOCKET=*) declare "$setting" ;;
            DAEMON=*) if [[ $2 == running ]]; then declare "$setting"; else echo "DAEMON= belongs to \`just run\`" >&2; exit 2; fi ;;
            *) echo "$setting: known are CONNECTIONS=, RAMP=, HOLD=, and for \`just run\` DAEMON= and SOCKET=" >&2; exit 2 ;;
        esac
    done
    load=(--connections "$CONNECTIONS" --ramp-up "$RAMP" --hold "$HOLD")
    if [[ $2 == launch ]]; then
        exec cargo run --release --quiet -p fdpass-gen -- --daemon "$DAEMON-streaming" "${load[@]}"
    fi
    # Beside the common default each daemon of the reference has a path of its own.
    declare -A own=([python]=-py [rust]=-rs [php]=-amp)
    for path in "/var/run/streaming-daemon${own[$DAEMON]:-}.sock" /var/run/streaming-daemon.sock; do
        [[ -n $SOCKET || ! -S $path ]] || SOCKET=$path
    done
    exec cargo run --release --quiet -p fdpass-gen -- --socket "${SOCKET:-/var/run/streaming-daemon.sock}" "${load[@]}"

# Compare the results of a folder, or of the latest suite: `just analyze DIR=bench-results/2026-01-31-host/quick`
analyze dir=DIR:
    #!/usr/bin/env bash
    set -euo pipefail
    dir=${1#DIR=}
    [[ -n $dir ]] || dir=$(ls -t bench-results/*/*/suite.json 2>/dev/null | head -n 1 | xargs -r dirname) || true
    [[ -n $dir ]] || { echo "there is no suite in bench-results yet: just bench-all, or DIR=…" >&2; exit 2; }
    exec cargo run --release --quiet -p drover -- analyze "$dir"

# The suite program: `just drover run configs/fdpass/quick.toml`, `just drover list`
drover *args:
    cargo run --release --quiet -p drover -- "$@"

# Say what this machine lacks for the plans, with the commands that mend it
doctor *args:
    cargo run --release --quiet -p drover -- doctor "$@"

# Check that all daemons answer byte for byte as they must
check-daemons *args:
    cargo run --release --quiet -p drover -- check "$@"

# Check result files against the published schema
check-results +files:
    cargo run --quiet -p measure --example check-result -- "$@"

# Everything that a change must pass
ci:
    .ci/run
