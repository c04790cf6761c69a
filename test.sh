#!/usr/bin/env bash
# The test command: installs the Debian packages the tests need if they are missing, then checks
# formatting, lints, tests and documentation. Passes on a bare Debian 12 with Rust.
set -euo pipefail
cd "$(dirname "$0")"

# package:command it brings
needed=(gcc:gcc g++:g++ binutils:objdump clang-19:clang-19 lld-19:ld.lld-19 llvm-19:llvm-readobj-19 bolt-19:llvm-bolt-19 golang-go:go gdb:gdb perl:perl valgrind:valgrind chromium:chromium chromium-driver:chromedriver lcov:genhtml)
missing=()
for pair in "${needed[@]}"; do
    command -v "${pair#*:}" >/dev/null || missing+=("${pair%%:*}")
done
if [ ${#missing[@]} -gt 0 ]; then
    echo "installing ${missing[*]}"
    as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update -q
    DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -yq --no-install-recommends "${missing[@]}"
fi

# What is compiled once is not compiled again: keeping what incremental compilation wants costs time and disk.
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"

cargo fmt --all --check
cargo clippy --workspace --all-targets --locked -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
if cargo nextest --version >/dev/null 2>&1; then
    cargo nextest run --workspace --locked
    cargo test --workspace --locked --doc
else
    cargo test --workspace --locked
fi
# Files for programs that come from PyPI and npm, where these can be had.
checked=77
if command -v npm >/dev/null && python3 -c 'import ensurepip' 2>/dev/null; then
    checked=0
    tests/consumers/check.sh "${CARGO_TARGET_DIR:-target}/debug/relive" || checked=$?
fi
case $checked in
    0) ;;
    77) echo "not run, for want of npm, python3-venv or what they install: tests/consumers/check.sh" ;;
    *) exit "$checked" ;;
esac
