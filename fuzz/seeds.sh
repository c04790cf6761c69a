#!/bin/sh
# Writes what the fuzzers start from to fuzz/corpus: small programs made by the compilers at hand.
set -eu
cd "$(dirname "$0")/.."
cargo run --quiet -p relive-promises --example seed_corpus -- fuzz/corpus
