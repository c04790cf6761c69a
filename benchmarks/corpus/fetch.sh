#!/bin/bash
# Downloads the corpus by package name and version, with the ordinary clients.
# usage: [CORPUS_DIR=dir] fetch.sh [--accuracy|--all] [program...]
#   --accuracy   one version per program, those of accuracy.tsv (the default)
#   --all        every version of sources.tsv
# Leaves src/<program>/<version>/ and inputs/<name>/ under CORPUS_DIR (default: target/corpus).
# What is there already is not fetched again.
. "$(dirname "$0")/paths.sh"
. "$here/clients.sh"
all=; only=()
for a in "$@"; do case $a in --accuracy) all=;; --all) all=1;; -*) sed -n '2,7s/^# //p' "$0"; exit 2;; *) only+=("$a");; esac; done
fails=0
fail() { echo "FAIL $*" >&2; fails=$((fails+1)); }

wanted() { # program version
  local x
  [ -n "$all" ] || grep -q "^$1	$2	" "$here/accuracy.tsv" || return 1
  [ ${#only[@]} -eq 0 ] && return 0
  for x in "${only[@]}"; do [ "$x" = "$1" ] && return 0; done
  return 1
}

fetch_sources() {
  local prog ver lang kind pkg pv sub d f
  while IFS=$'\t' read -r prog ver lang kind pkg pv sub <&3; do
    case $prog in ''|\#*) continue;; esac
    wanted "$prog" "$ver" || continue
    d=$CORPUS_DIR/src/$prog/$ver
    [ -d "$d" ] && continue
    mkdir -p "$CORPUS_DIR/src/$prog"
    f=$("get_$kind" "$pkg" "$pv")
    if [ -z "$f" ] || ! unpack "$f" "$d.pkg"; then fail "fetch $prog $ver ($kind $pkg $pv)"; rm -rf "$d.pkg"*; continue; fi
    case $sub in
      .) mv "$d.pkg" "$d" ;;
      *) mv "$d.pkg/$sub" "$d" ;;
    esac
    rm -rf "$d.pkg"
    if [ -d "$d" ]; then echo "fetched $prog $ver"; else fail "unpack $prog $ver"; fi
  done 3<"$here/sources.tsv"
}

fetch_inputs() {
  local name kind pkg pv why d f
  mkdir -p "$CORPUS_DIR/inputs"
  while IFS=$'\t' read -r name kind pkg pv why <&3; do
    case $name in ''|\#*) continue;; esac
    d=$CORPUS_DIR/inputs/$name
    [ -d "$d" ] && continue
    f=$("get_$kind" "$pkg" "$pv")
    if [ -z "$f" ] || ! unpack "$f" "$d"; then fail "input $name ($kind $pkg $pv)"; rm -rf "$d.tmp"; continue; fi
    echo "input $name"
  done 3<"$here/inputs.tsv"
  bash "$here/inputs.sh" || fail "preparing the inputs"
}

fetch_sources
fetch_inputs
echo "fetch done, failures: $fails"
[ $fails -eq 0 ]
