#!/usr/bin/env bash
# Exported files, read by the programs they are for that come from PyPI and npm (the test command reads the others):
# DuckDB and pyarrow (Parquet), pycobertura (Cobertura), speedscope's schema and importer.
# Needs gcc, python3 with venv, npm and the network; installs into a scratch folder.
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
python3 -m venv venv
venv/bin/pip install -q duckdb pyarrow pycobertura jsonschema
npm install --silent --no-fund --no-audit speedscope >/dev/null

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
venv/bin/python "$here/check.py"
