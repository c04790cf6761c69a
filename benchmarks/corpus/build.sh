#!/bin/bash
# Compiles what fetch.sh brought, one compilation at a time (JOBS=n for more) and at nice ${NICE:-10}.
# usage: [CORPUS_DIR=dir] build.sh [--cfg clang-O2[,gcc-O2,...]] [--all] [program[/version]...]
#   by default   the versions and configurations of accuracy.tsv and counting.tsv, in their order
#   --all        also every other version of sources.tsv, gcc-O2 (Rust: rustc-O2)
#   --cfg LIST   these configurations (of configs.tsv) instead of those of the table
# Leaves under CORPUS_DIR (default: target/corpus), and does not build again what is there:
#   bin/<program>/<version>/<cfg>           symbols, -g, and clang's block map
#   bin/<program>/<version>/<cfg>.nomap     the same without the block map (clang only)
#   bin/<program>/<version>/<cfg>.stripped  no symbols, no debug information, no map
#   bin/<program>/<version>/<cfg>.labels    as linked: with every local label of the assembler source as a symbol
#   asm/<program>/<version>/<cfg>/*.s       the assembler source: which labels jumps, tables and landing pads name
. "$(dirname "$0")/paths.sh"
all=; cfgs=; only=()
while [ $# -gt 0 ]; do case $1 in
  --all) all=1;; --cfg) cfgs=$2; shift;; -*) sed -n '2,13s/^# //p' "$0"; exit 2;; *) only+=("$1");; esac; shift; done
S=$CORPUS_DIR/src; B=$CORPUS_DIR/bin; I=$CORPUS_DIR/inputs; W=$CORPUS_DIR/work; L=$CORPUS_DIR/logs; A=$CORPUS_DIR/asm
D=$here/drivers; nice_="nice -n ${NICE:-10}"
mkdir -p "$B" "$W" "$A"
. "$here/recipes.sh"

# Builds of counting.tsv are only run: they keep no truth.
only_run() { case $cfg in *-static|*-static-pie|*-relocs|*-coverage|*-pgo|*-instr) return 0;; *) return 1;; esac; }

# The prefix maps give the same source file the same name in the line tables of every version and hide the build folder.
# -save-temps=obj with -Wa,-L is what makes the truth: assembler source, and its labels kept in the symbol table.
compile() {
  local truth="-save-temps=obj -Wa,-L"
  only_run && truth=
  $nice_ "$@" $FLAGS -g -fno-lto -w $truth "-ffile-prefix-map=$PWD/=" "-ffile-prefix-map=$D/=driver/" \
    "-ffile-prefix-map=$I/=inputs/" "-ffile-prefix-map=$W/=work/"
}
cc() { compile "$CC" "$@"; }
cxx() { compile "$CXX" "$@"; }

# What relive is shown: the linked file without the labels, and its poorer copies.
finish() { # linked-file binary
  if only_run; then mv "$1" "$2" && strip -s -o "$2.stripped" "$2"; return; fi
  if [ "$CC" = rustc ]; then mv "$1" "$2"; else
    mv "$1" "$2.labels" && objcopy --wildcard --strip-symbol '.L*' "$2.labels" "$2.tmp" && mv "$2.tmp" "$2" || return 1
  fi
  llvm-objcopy-19 --remove-section=.llvm_bb_addr_map "$2" "$2.nomap" || return 1
  strip -s -o "$2.stripped" "$2.nomap" || return 1
  cmp -s "$2" "$2.nomap" && rm "$2.nomap"
  case $FLAGS in *-fbasic-block-address-map*) [ -s "$2.nomap" ];; *) rm -f "$2.nomap";; esac
}

wanted() { local x; [ ${#only[@]} -eq 0 ] && return 0; for x in "${only[@]}"; do [ "$x" = "$1" ] || [ "$x" = "$1/$2" ] && return 0; done; return 1; }
fails=$L/build-fails.$$; : >"$fails"
fail() { echo "FAIL $*" | tee -a "$fails" >&2; }
spawn() { while [ "$(jobs -rp | wc -l)" -ge "${JOBS:-1}" ]; do wait -n; done; one "$@" & }

one() { # program version cfg
  local prog=$1 v=$2 cfg=$3 line t0=$SECONDS
  local bin=$B/$prog/$v/$cfg asm=$A/$prog/$v/$cfg log=$L/build-$prog-$v-$cfg.log
  [ -s "$bin.stripped" ] && return 0
  [ -d "$S/$prog/$v" ] || { fail "no source of $prog $v: run fetch.sh"; return; }
  line=$(grep "^$cfg	" "$here/configs.tsv") || { fail "no configuration $cfg"; return; }
  IFS=$'\t' read -r _ CC CXX FLAGS <<<"$line"
  [ "$cfg" = rustc-O2 ] && CC=rustc
  mkdir -p "$B/$prog/$v"; rm -rf "$asm"; mkdir -p "$asm"
  local out=$asm/out
  if (cd "$S/$prog/$v" && "build_$prog") >"$log" 2>&1 && finish "$out" "$bin" >>"$log" 2>&1; then
    rm -f "$asm"/*.{i,ii,bc,o}
    echo "built $prog $v $cfg in $((SECONDS-t0)) s"
  else fail "build $prog $v $cfg: see $log"; fi
}

build_table() { # file of programs, versions and configurations
  local prog ver list c
  while IFS=$'\t' read -r prog ver list <&3; do
    case $prog in ''|\#*) continue;; esac
    wanted "$prog" "$ver" || continue
    list=${cfgs:-$list}
    for c in ${list//,/ }; do spawn "$prog" "$ver" "$c"; done
  done 3<"$here/$1"
}

build_versions() { # every version
  local prog ver lang rest c
  while IFS=$'\t' read -r prog ver lang rest <&3; do
    case $prog in ''|\#*) continue;; esac
    wanted "$prog" "$ver" || continue
    c=gcc-O2; [ "$lang" = Rust ] && c=rustc-O2
    c=${cfgs:-$c}
    for c in ${c//,/ }; do spawn "$prog" "$ver" "$c"; done
  done 3<"$here/sources.tsv"
}

build_table accuracy.tsv
[ -n "$cfgs" ] || build_table counting.tsv
[ -n "$all" ] && build_versions
wait
echo "build done in $SECONDS s, failures: $(wc -l <"$fails")"
[ ! -s "$fails" ]; rc=$?; rm -f "$fails"; exit $rc
