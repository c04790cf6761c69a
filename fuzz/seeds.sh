#!/bin/sh
# Writes what the fuzzers start from to fuzz/corpus: small programs made by the compilers at hand, and
# profiles of them.
set -eu
cd "$(dirname "$0")/.."
cargo run --quiet -p relive-promises --example seed_corpus -- fuzz/corpus
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
for program in static dynamic dwarf; do
    cargo run --quiet -p relive -- instrument "fuzz/corpus/elf_facts/$program" -o "$runs/$program" \
        --profile "$runs/%m.rprof" 2>/dev/null
    chmod +x "$runs/$program"
    # Whatever it returns.
    "$runs/$program" || true
done
cargo run --quiet -p relive-promises --example seed_corpus -- fuzz/corpus "$runs"/*.rprof
