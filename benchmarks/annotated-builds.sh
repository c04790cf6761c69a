#!/bin/bash
# Builds real projects by their own build systems, with the compiler alone and with `relive cc`, runs the projects' own tests on
# what came out, and compares: autoconf (sed, grep), CMake (brotli, jsoncpp), plain make (bzip2, zstd), a
# script of its own (zlib). Sources come by apt-get, from where this machine has its packages.
# A table, tab-separated: project, build system, compiler, seconds of processor time with each, the project's tests,
# programs and libraries, how many of them have the same code, bytes of code and annotations, functions of the project and how
# many of them are not understood without annotations and with them.
# usage: annotated-builds.sh [--relive FILE] [--cc "gcc clang-19"] [project...]
set -u
here=$(realpath "$(dirname "$0")")
relive=$here/../target/release/relive ccs="gcc clang-19" only=()
while [ $# -gt 0 ]; do case $1 in
  --relive) relive=$2; shift;; --cc) ccs=$2; shift;; -*) sed -n '2,9s/^# //p' "$0"; exit 2;; *) only+=("$1");; esac; shift; done
relive=$(realpath "$relive")
work=${WORK_DIR:-$here/../target/annotated-builds}; mkdir -p "$work/lists"; cd "$work" || exit 2

. "$here/deb_src.sh"
# The newest version that is to be had: not every mirror has them all.
fetch() { # source package
  ls -d "$1"-[0-9]*/ >/dev/null 2>&1 && return
  local v
  deb_src_options "$work/lists" || exit 2
  for v in $(apt-cache "${deb_src[@]}" showsrc "$1" 2>/dev/null | sed -n 's/^Version: //p' | sort -urV); do
    apt-get "${deb_src[@]}" -q source "$1=$v" >fetch.log 2>&1 && return
  done
  cat fetch.log >&2; exit 2
}

# Each takes the compilers from $CC and $CXX, builds in the current folder, which is a copy of the source, and has a test of its own.
# What the package brings ready made stays so, whatever its patches did to the times of files.
generated=(MAKEINFO=true ACLOCAL=true AUTOCONF=true AUTOHEADER=true AUTOMAKE=true)
system_sed=autoconf;   build_sed() { touch doc/sed.info; ./configure CC="$CC" --disable-nls && make -j2 "${generated[@]}"; };  test_sed() { make -j2 check "${generated[@]}"; }
system_bzip2=make;     build_bzip2() { make -j2 CC="$CC" bzip2 bzip2recover libbz2.a; };  test_bzip2() { make CC="$CC" test; }
autoconf() { touch doc/*.info 2>/dev/null; ./configure CC="$CC" "$@" && make -j2 "${generated[@]}"; }
system_grep=autoconf;  build_grep() { autoconf --disable-nls; };  test_grep() { make -j2 check "${generated[@]}"; }
system_zlib=script;    build_zlib() { ./configure && make -j2; };  test_zlib() { make test; }
source_zstd=libzstd
system_zstd=make;      build_zstd() { make -j2 CC="$CC" lib zstd; };  test_zstd() { make -C tests CC="$CC" datagen && (cd tests && ZSTD=../programs/zstd DATAGEN=./datagen ./playTests.sh); }
cmake_launched() { # option... : CMake takes one file for a compiler, and what to put in front of it
  case $CC in "$relive"*) set -- "$@" "-DCMAKE_C_COMPILER_LAUNCHER=$relive;cc;--" "-DCMAKE_CXX_COMPILER_LAUNCHER=$relive;cc;--" "-DCMAKE_C_LINKER_LAUNCHER=$relive;cc;--" "-DCMAKE_CXX_LINKER_LAUNCHER=$relive;cc;--";; esac
  cmake -S . -B build -DCMAKE_C_COMPILER="$plain_cc" -DCMAKE_CXX_COMPILER="$plain_cxx" -DCMAKE_BUILD_TYPE=Release "$@" && make -j2 -C build
}
system_brotli=CMake;   build_brotli() { cmake_launched; };  test_brotli() { (cd build && ctest -j2); }
source_jsoncpp=libjsoncpp
system_jsoncpp=CMake;  build_jsoncpp() { cmake_launched -DCMAKE_POLICY_VERSION_MINIMUM=3.5; };  test_jsoncpp() { (cd build && ctest); } # two of its tests write to the same files

programs() { find . -type f \( -perm -100 -o -name '*.so*' \) -exec sh -c 'head -c 18 "$1" | od -An -tx1 -j16 -N1 | grep -q "0[23]" && head -c4 "$1" | grep -q ELF && echo "$1"' _ {} \; | grep -v CMakeFiles | sort; }
failing() { sed -nE 's/^(FAIL|ERROR): ([^ ]+).*/\2/p; s/.* - ([^ ]+) \(Failed\).*/\1/p' "$1" | sort -u; }
code() { objcopy -O binary --only-section='.text*' "$1" "$2"; }
not_understood() { "$relive" inspect --functions "$1" | awk -F'\t' 'NR > 1 { n++; if ($4 != "understood") bad++ } END { print n + 0, bad + 0 }'; }
TIMEFORMAT='%U %S'

printf 'project\tsystem\tcompiler\tplain s\tannotated s\ttests\tprograms\tsame code\ttext\tannotate\tfunctions\twithout\twith\n'
fails=0
for project in sed grep bzip2 zstd zlib brotli jsoncpp; do
  if [ ${#only[@]} -gt 0 ]; then case " ${only[*]} " in *" $project "*) ;; *) continue;; esac; fi
  source=source_$project; source=${!source:-$project}
  cd "$work" && fetch "$source" || exit 2
  for cc in $ccs; do
    cd "$work"; plain_cc=$cc; case $cc in gcc*) plain_cxx=g++${cc#gcc};; *) plain_cxx=clang++${cc#clang};; esac
    for kind in plain annotated; do
      rm -rf "$work/$kind"; cp -a "$work/$source"-[0-9]*/ "$work/$kind"
      case $kind in plain) CC=$plain_cc CXX=$plain_cxx;; *) CC="$relive cc -- $plain_cc" CXX="$relive cc -- $plain_cxx";; esac
      export CC CXX; cd "$work/$kind" || exit 2
      # The same place for both: paths are in what is made.
      cd "$work" && rm -rf build-here && mv "$kind" build-here && cd build-here
      { time (build_$project >"$work/$kind.log" 2>&1 && touch "$work/done"); } 2>"$work/time"
      rm "$work/done" 2>/dev/null || { echo "FAIL $project $cc: the $kind build; see $work/$kind.log" >&2; fails=$((fails+1)); continue 2; }
      declare "seconds_$kind=$(awk '{ printf "%.1f", $1 + $2 }' "$work/time")"
      if test_$project >"$work/$kind-test.log" 2>&1; then tests=pass; else tests=FAIL; fi
      failing "$work/$kind-test.log" >"$work/$kind.failing"
      cd "$work" && rm -rf "$kind" && mv build-here "$kind"
    done
    if [ $tests = FAIL ]; then
      if [ -s plain.failing ] && cmp -s plain.failing annotated.failing; then tests="as without: $(tr '\n' ' ' <plain.failing)"; else fails=$((fails+1)); fi
    fi
    count=0 same=0 text=0 annotate=0 functions=0 without=0 with=0
    while read -r program; do
      [ -f "plain/$program" ] || continue
      count=$((count+1)); code "plain/$program" plain.text; code "annotated/$program" annotated.text
      cmp -s plain.text annotated.text && same=$((same+1)) || echo "$project $cc: code of $program differs" >&2
      read -r t a <<<"$(size -A "annotated/$program" | awk '/^\.text/ { t += $2 } /^\.annotate/ { a += $2 } END { print t + 0, a + 0 }')"
      read -r n bad <<<"$(not_understood "annotated/$program")"; read -r _ plainbad <<<"$(not_understood "plain/$program")"
      text=$((text+t)) annotate=$((annotate+a)) functions=$((functions+n)) with=$((with+bad)) without=$((without+plainbad))
    done <<<"$(cd annotated && programs)"
    [ $same -eq $count ] && [ $with -eq 0 ] || fails=$((fails+1))
    eval "system=\$system_$project"
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$project" "$system" "$cc" "$seconds_plain" "$seconds_annotated" "$tests" "$count" "$same" "$text" "$annotate" "$functions" "$without" "$with"
  done
done
[ $fails -eq 0 ]
