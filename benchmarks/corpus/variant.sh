#!/bin/bash
# Compiles one version of a program with flags of its own.
# usage: [CORPUS_DIR=dir] variant.sh program version compiler out flags...
. "$(dirname "$0")/paths.sh"
[ $# -ge 4 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
prog=$1 v=$2 CC=$3 out=$4; shift 4
S=$CORPUS_DIR/src; B=$CORPUS_DIR/bin; I=$CORPUS_DIR/inputs; W=$CORPUS_DIR/work; D=$here/drivers; cfg=variant asm=$W/variant-$$
. "$here/recipes.sh"
flags=("$@")
compile() { "$@" "${flags[@]}" -g -fno-lto -w "-ffile-prefix-map=$PWD/=" "-ffile-prefix-map=$D/=driver/" \
  "-ffile-prefix-map=$I/=inputs/" "-ffile-prefix-map=$W/=work/"; }
cc() { compile "$CC" "$@"; }
# gcc links no C++ library, g++ does
cxx() { local name=${CC//gcc/g++}; compile "${name//clang/clang++}" "$@"; }
mkdir -p "$asm" && trap 'rm -rf "$asm"' EXIT
cd "$S/$prog/$v" && "build_$prog"
