#!/usr/bin/env bash
# Builds the tool twice, in folders of different names, and compares: benchmarks/reproducible.sh [cargo build's options].
# What differs is kept in target/.
# Then says what the binary is linked with.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for place in one another/deeper; do
    mkdir -p "$work/$place"
    git archive HEAD | tar -x -C "$work/$place"
    (cd "$work/$place" && CARGO_TARGET_DIR="$work/$place/target" cargo build --release --locked "$@")
done
one=$work/one/target/release/relive
other=$work/another/deeper/target/release/relive
if ! cmp "$one" "$other"; then
    cp "$one" target/relive.one && cp "$other" target/relive.other
    echo "they differ: target/relive.one, target/relive.other" >&2
    exit 1
fi
sha256sum < "$one"
ldd "$one"
"$one" --version
