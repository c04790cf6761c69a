#!/bin/sh
# Runs one fuzzer: fuzz/run.sh elf_facts|decode_cfg|profile|trace|annotations [SECONDS] [libFuzzer options].
#
# Works with stable Rust: RUSTC_BOOTSTRAP lets cargo-fuzz pass the flags for coverage, and without
# unsafe code there is little for a sanitizer to find. Memory is limited as a whole, since without a
# sanitizer libFuzzer sees only what is touched, not what is asked for.
set -eu
target=$1
seconds=${2:-600}
[ $# -lt 2 ] || shift
shift
cd "$(dirname "$0")/.."
[ -d "fuzz/corpus/$target" ] || fuzz/seeds.sh
RUSTC_BOOTSTRAP=1 cargo fuzz build --sanitizer none "$target"
ulimit -v 4000000
RUSTC_BOOTSTRAP=1 exec cargo fuzz run --sanitizer none "$target" -- \
    -max_total_time="$seconds" -max_len=65536 -timeout=20 -rss_limit_mb=3000 "$@"
