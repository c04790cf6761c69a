#!/bin/bash
# Compiles what fetch.sh brought with the compiler alone and through `relive cc`, and compares. A table, tab-separated:
#   program version flags, seconds of processor time with each, whether all code is the same byte for byte,
#   bytes of .text and .annotate, functions, how many of them are understood without annotations and with them;
#   of clang's: blocks in its own map, and how many of them are described otherwise or not at all
# The runtime is linked in, but not by gold, which puts data at another distance from the code then.
# usage: [CORPUS_DIR=dir] annotated.sh [--relive FILE] [--flags "gcc -O2;clang-19 -O2;..."] [program[/version]...]
. "$(dirname "$0")/paths.sh"
relive=$here/../../target/release/relive
flags="gcc -O0;gcc -O1;gcc -O2;gcc -O3;gcc -Os;gcc -O2 -fPIC;gcc -O2 -fno-pie -no-pie;gcc -O2 -ffunction-sections -Wl,--gc-sections;gcc -O2 -ffunction-sections -Wl,--gc-sections -fuse-ld=gold;gcc -O2 -flto;clang-19 -O0;clang-19 -O2;clang-19 -O3;clang-19 -Os;clang-19 -O2 -ffunction-sections -Wl,--gc-sections -fuse-ld=lld;clang-19 -O2 -flto -fuse-ld=lld"
only=()
while [ $# -gt 0 ]; do case $1 in
  --relive) relive=$2; shift;; --flags) flags=$2; shift;; -*) sed -n '2,8s/^# //p' "$0"; exit 2;; *) only+=("$1");; esac; shift; done
relive=$(realpath "$relive")
S=$CORPUS_DIR/src; B=$CORPUS_DIR/bin; I=$CORPUS_DIR/inputs; W=$CORPUS_DIR/work; D=$here/drivers; L=$CORPUS_DIR/logs
. "$here/recipes.sh"
# What a program says of the time it was built at moves other strings (cadical, lld).
export SOURCE_DATE_EPOCH=1000000000
T=$(mktemp -d); trap 'rm -rf "$T"' EXIT

cxx_of() { case $1 in gcc*) echo "g++${1#gcc}";; clang*) echo "clang++${1#clang}";; esac; }
run() { # compiler argument...
  if [ -n "$annotated" ]; then "$relive" cc $alone -- "$@" $FLAGS $map -w; else "$@" $FLAGS -w; fi
}
cc() { run "$CC" "$@"; }
cxx() { run "$CXX" "$@"; }
code() { objcopy -O binary --only-section='.text*' "$1" "$2"; }
field() { python3 -c 'import json,sys; d=json.load(sys.stdin)
for k in sys.argv[1].split("."): d=d[k]
print(d)' "$1"; }

# Builds in the current folder; prints seconds of processor time.
TIMEFORMAT='%U %S'
build() { # program
  { time (build_"$1" >"$T/log" 2>&1 && touch "$T/done"); } 2>"$T/time"
  rm "$T/done" 2>/dev/null || { tail -3 "$T/log" >&2; return 1; }
  awk '{ printf "%.2f", $1 + $2 }' "$T/time"
}

printf 'program\tversion\tflags\tplain s\tannotated s\tsame code\ttext\tannotate\tfunctions\twithout\twith\tblocks\tothers\n'
fails=0
one() { # program version
  local prog=$1 v=$2 cfg=annotated out plain with same size blocks asm=$T
  IFS=';' read -ra lists <<<"$flags"
  for list in "${lists[@]}"; do
    read -r CC FLAGS <<<"$list"; CXX=$(cxx_of "$CC")
    alone=; case $FLAGS in *-fuse-ld=gold*) alone=--no-runtime;; esac
    map=; case $CC in clang*) map=-fbasic-block-address-map;; esac
    out=$T/plain annotated=; plain=$(cd "$S/$prog/$v" && build "$prog") || { echo "$prog $v $list: does not build" >&2; continue; }
    out=$T/annotated annotated=1; with=$(cd "$S/$prog/$v" && build "$prog") || { echo "FAIL $prog $v $list: not with relive cc" >&2; fails=$((fails+1)); continue; }
    code "$T/plain" "$T/plain.text"; code "$T/annotated" "$T/annotated.text"
    same=yes; cmp -s "$T/plain.text" "$T/annotated.text" || { same=NO; fails=$((fails+1)); }
    strip --strip-debug -R .llvm_bb_addr_map -o "$T/shown" "$T/annotated"
    "$relive" inspect --json "$T/plain" >"$T/plain.json"; "$relive" inspect --json "$T/shown" >"$T/annotated.json"
    size=$(size -A "$T/annotated" | awk '/^\.text/ { t += $2 } /^\.annotate/ { a += $2 } END { print t "\t" a }')
    blocks=; [ -z "$map" ] || blocks=$("$here/annotated_blocks.py" "$T/annotated") || fails=$((fails+1))
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$prog" "$v" "$list" "$plain" "$with" "$same" "$size" \
      "$(field functions.total <"$T/annotated.json")" "$(field functions.understood <"$T/plain.json")" "$(field functions.understood <"$T/annotated.json")" "$blocks"
  done
}
for prog in "$S"/*/; do
  prog=$(basename "$prog")
  declare -F "build_$prog" >/dev/null || continue
  v=$(ls "$S/$prog" | sort -V | tail -1)
  if [ ${#only[@]} -gt 0 ]; then
    wanted=; for x in "${only[@]}"; do [ "${x%%/*}" = "$prog" ] && { wanted=1; [ "$x" = "$prog" ] || v=${x#*/}; }; done
    [ -n "$wanted" ] || continue
  fi
  one "$prog" "$v"
done
[ $fails -eq 0 ]
