# Recipes for common tasks; `just` without arguments lists them.

set positional-arguments

# Settings of bench-… and run. They may come before or after the recipe: `just bench-go CONNECTIONS=1000 HOLD=30s`.
CONNECTIONS := "100"
RAMP := "10s"
HOLD := "60s"
DAEMON := "rust"
# The socket of `run` [default: the socket path of the daemon named by DAEMON].
SOCKET := ""
# The folder of `analyze` [default: the latest suite].
DIR := ""
# Where `install` puts the programs.
PREFIX := env("HOME") / ".local"

_list:
    @just --list --unsorted

# Install the packages and tools that are missing on this machine (--check only lists them)
setup *args:
    scripts/setup "$@"

# Build everything in release mode
build:
    cargo build --release --workspace

# Install all programs, daemons and plans below a folder: `just install PREFIX=/usr/local`
install prefix=PREFIX:
    scripts/install --prefix "${1#PREFIX=}"

# Make a tarball, a Debian package and their checksums in dist/
dist *args:
    scripts/dist "$@"

# Run the tests: `just test`, `just test kills`, `just test --scale 1`
test *args:
    scripts/test "$@"

# Check formatting, lints and documentation, as .ci/run does
check:
    cargo fmt --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace --locked

# Build the book into target/book (`just setup` installs mdbook)
book:
    mdbook build docs

# Draw bench-results/report.png again, the head of the report of a suite on this machine (needs nginx and chromium)
picture:
    cargo run --release -p drover -- run configs/http/compare-nginx.toml --repeat 9 --set timeline.measure=2s
    chromium --headless --no-sandbox --hide-scrollbars --window-size=1200,1060 --screenshot=bench-results/report.png \
      "file://$(realpath "$(ls -td bench-results/*/compare-nginx | head -n 1)")/report.html"

# Run the microbenchmarks of all crates
bench *args:
    cargo bench --workspace "$@"

# Run the microbenchmarks with cargo-criterion (`just setup --bench` installs it)
criterion *args:
    cargo criterion --workspace "$@"

# Measure with a driver, for example any HTTP server: `just drive http-load -c 1000 -d 30s http://127.0.0.1:8080/`
drive driver *args:
    cargo run --release -p "$1" -- "${@:2}"

# Compare the daemons of a protocol: run every plan in its folder of configs/, as in `just bench-plans http`
bench-plans protocol *args:
    cargo run --release --quiet -p drover -- run configs/"$1"/*.toml "${@:2}"

# Reproduce the reference's requests per second: 1, 10 and 100 KB from every HTTP server
throughput-test *args:
    cargo run --release --quiet -p drover -- run configs/http/throughput.toml "$@"

# Reproduce the reference's latencies under k6's stages of users
latency-test *args:
    cargo run --release --quiet -p drover -- run configs/http/latency.toml "$@"

# Reproduce the reference's million connections
concurrent-test *args:
    cargo run --release --quiet -p drover -- run configs/http/concurrent.toml "$@"

# Compare the issue daemon with direct access and other databases: single operations, then every plan in configs/issue/
bench-issue *args:
    cargo build --release --quiet -p issue-stress -p issue-cli -p issue-daemon
    cargo run --release --quiet -p issue-stress -- benchmark
    cargo run --release --quiet -p drover -- run configs/issue/*.toml "$@"

# Run every plan in configs/ that is a suite, including full.toml: all daemons, all levels, the capacity search
bench-all *args:
    #!/usr/bin/env bash
    set -euo pipefail
    mapfile -t plans < <(grep -l '^\[suite\]' configs/*/*.toml | sort)
    cargo run --release --quiet -p drover -- run "${plans[@]}" "$@"

# Launch the Go daemon and measure it: `just bench-go CONNECTIONS=1000 HOLD=30s`
bench-go *settings: (_drive "go" "launch" settings)

# Launch the Python daemon and measure it
bench-python *settings: (_drive "python" "launch" settings)

# Launch the PHP daemon and measure it
bench-php *settings: (_drive "php" "launch" settings)

# Launch the Rust daemon and measure it
bench-rust *settings: (_drive "rust" "launch" settings)

# Measure an already running daemon: `just run DAEMON=go CONNECTIONS=1000 HOLD=30s`
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
            DAEMON=*) if [[ $2 == running ]]; then declare "$setting"; else echo "DAEMON= is a setting of \`just run\` only: remove it, or use \`just run\`" >&2; exit 2; fi ;;
            *) echo "unknown setting $setting: use CONNECTIONS=, RAMP=, HOLD=, and for \`just run\` DAEMON= and SOCKET=" >&2; exit 2 ;;
        esac
    done
    load=(--connections "$CONNECTIONS" --ramp-up "$RAMP" --hold "$HOLD")
    if [[ $2 == launch ]]; then
        exec cargo run --release --quiet -p fdpass-gen -- --daemon "$DAEMON-streaming" "${load[@]}"
    fi
    # Besides the common default, each daemon of the reference has its own path.
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
    [[ -n $dir ]] || { echo "no suite in bench-results: run just bench-all, or set DIR=…" >&2; exit 2; }
    exec cargo run --release --quiet -p drover -- analyze "$dir"

# Run the suite program: `just drover run configs/fdpass/quick.toml`, `just drover list`
drover *args:
    cargo run --release --quiet -p drover -- "$@"

# Check that this machine can run the plans; print a fix for each problem
doctor *args:
    cargo run --release --quiet -p drover -- doctor "$@"

# Check that all daemons give the correct responses, byte for byte
check-daemons *args:
    cargo run --release --quiet -p drover -- check "$@"

# Check result files against the published schema
check-results +files:
    cargo run --quiet -p measure --example check-result -- "$@"

# Run all the checks that a change must pass
ci:
    .ci/run
