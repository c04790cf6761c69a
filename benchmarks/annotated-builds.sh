#!/bin/bash
# Builds real projects by their own build systems (annotated-projects.sh), with the compiler alone and with `relive cc`, runs the
# projects' own tests on what came out, and compares. Sources come by apt-get, from where this machine has its packages.
# A table, tab-separated: project, build system, compiler, seconds of processor time with each, the project's tests,
# programs and libraries, how many of them have the same code, bytes of code and annotations, functions of the project and how
# many of them are not understood without annotations and with them.
# --map: clang keeps its map of blocks, which is set against annotations; two more columns: blocks, and how many are described otherwise.
# --instrument: all programs and libraries with annotations are instrumented (and verified), and the tests run again; two more columns: files
# that were instrumented, the tests.
# usage: annotated-builds.sh [--relive FILE] [--cc "gcc clang-19"] [--map] [--instrument] [project...]
set -u
here=$(realpath "$(dirname "$0")")
relive=$here/../target/release/relive ccs="gcc clang-19" only=() maps= instruments=
while [ $# -gt 0 ]; do case $1 in
  --relive) relive=$2; shift;; --cc) ccs=$2; shift;; --map) maps=1;; --instrument) instruments=1;; -*) sed -n '2,11s/^# //p' "$0"; exit 2;; *) only+=("$1");; esac; shift; done
relive=$(realpath "$relive")
work=${WORK_DIR:-$here/../target/annotated-builds}; sources=$(realpath "${SOURCES_DIR:-$work}"); mkdir -p "$work/lists"; cd "$work" || exit 2

. "$here/deb_src.sh"
# The newest version that is to be had: not every mirror has them all.
fetch() { # source package
  cd "$sources" || exit 2
  ls -d "$1"-[0-9]*/ >/dev/null 2>&1 && return
  local v
  deb_src_options "$work/lists" || exit 2
  for v in $(apt-cache "${deb_src[@]}" showsrc "$1" 2>/dev/null | sed -n 's/^Version: //p' | sort -urV); do
    apt-get "${deb_src[@]}" -q source "$1=$v" >fetch.log 2>&1 && return
  done
  cat fetch.log >&2; exit 2
}

. "$here/annotated-projects.sh"

programs() { find . -type f \( -perm -100 -o -name '*.so*' \) -exec sh -c 'head -c 18 "$1" | od -An -tx1 -j16 -N1 2>/dev/null | grep -q "0[23]" && head -c4 "$1" | grep -q ELF && echo "$1"' _ {} \; | grep -v CMakeFiles | sort; }
failing() { sed -nE 's/^(FAIL|ERROR): ([^ ]+).*/\2/p; s/.* - ([^ ]+) \(Failed\).*/\1/p' "$1" | sort -u; }
code() { objcopy -O binary --only-section='.text*' "$1" "$2"; }
not_understood() { "$relive" inspect --functions "$1" | awk -F'\t' 'NR > 1 { n++; if ($4 != "understood") bad++ } END { print n + 0, bad + 0 }'; }
# Puts what is measured in the place of all programs and libraries in the current folder, with their times. Profiles go elsewhere.
instrument() {
  local program
  local refused=0; files=0
  while read -r program; do
    if "$relive" instrument --verify "$program" -o "$work/measured" >"$work/instrument.log" 2>&1; then
      chmod --reference="$program" "$work/measured"; touch -r "$program" "$work/measured"; mv "$work/measured" "$program"; files=$((files+1))
    else echo "$project $cc: $program is not instrumented: $(tail -1 "$work/instrument.log")" >&2; refused=$((refused+1)); fi
  done <<<"$(programs)"
  [ $refused -eq 0 ] || fails=$((fails+1))
  # Each measured file of a program has a profile of its own: tests compare what is said on standard error.
  rm -rf "$work/profiles"; mkdir -p "$work/profiles"; export RELIVE_PROFILE=$work/profiles/%m.%p.rprof
}
# Blocks of clang's maps, and how many of them are described otherwise.
mapped() { objdump -h "$1" | grep -q llvm_bb_addr_map && "$here/corpus/annotated_blocks.py" "$1" || echo 0 0; }
TIMEFORMAT='%U %S'
export SOURCE_DATE_EPOCH=1000000000

printf 'project\tsystem\tcompiler\tplain s\tannotated s\ttests\tprograms\tsame code\ttext\tannotate\tfunctions\twithout\twith%s%s\n' "${maps:+\tblocks\tothers}" "${instruments:+\tinstrumented\ttests}" | sed 's/\\t/\t/g'
fails=0
for project in $projects; do
  if [ ${#only[@]} -gt 0 ]; then case " ${only[*]} " in *" $project "*) ;; *) continue;; esac; fi
  name=${project//-/_}; source=source_$name; source=${!source:-$project}
  cd "$work" && fetch "$source" || exit 2
  for cc in $ccs; do
    cd "$work"; plain_cc=$cc; case $cc in gcc*) plain_cxx=g++${cc#gcc};; *) plain_cxx=clang++${cc#clang};; esac
    map=; case $cc in clang*) [ -z "$maps" ] || map=-fbasic-block-address-map;; esac
    for kind in plain annotated; do
      rm -rf "$work/$kind"; cp -a "$sources/$source"-[0-9]*/ "$work/$kind"
      case $kind in plain) CC=$plain_cc CXX=$plain_cxx;; *) CC="$relive cc -- $plain_cc" CXX="$relive cc -- $plain_cxx";; esac
      CC="$CC${map:+ $map}" CXX="$CXX${map:+ $map}"
      export CC CXX; cd "$work/$kind" || exit 2
      # The same place for both: paths are in what is made.
      cd "$work" && rm -rf build-here && mv "$kind" build-here && cd build-here
      { time (build_$name >"$work/$kind.log" 2>&1 && touch "$work/done"); } 2>"$work/time"
      rm "$work/done" 2>/dev/null || { echo "FAIL $project $cc: the $kind build; see $work/$kind.log" >&2; fails=$((fails+1)); continue 2; }
      declare "seconds_$kind=$(awk '{ printf "%.1f", $1 + $2 }' "$work/time")"
      if test_$name >"$work/$kind-test.log" 2>&1; then tests=pass; else tests=FAIL; fi
      failing "$work/$kind-test.log" >"$work/$kind.failing"
      if [ $kind = annotated ] && [ -n "$instruments" ]; then
        # What came out stays as it is: beside, and back when its tests are over.
        rm -rf "$work/as-built"; cp -a . "$work/as-built"; instrument
        if test_$name >"$work/instrumented-test.log" 2>&1; then measured=pass; else measured=FAIL; fi
        failing "$work/instrumented-test.log" >"$work/instrumented.failing"
        if [ "$measured" = FAIL ]; then
          if [ -s "$work/$kind.failing" ] && cmp -s "$work/$kind.failing" "$work/instrumented.failing"; then measured='as without'; else fails=$((fails+1)); fi
        fi
        cd "$work" && rm -rf build-here && mv as-built build-here
      fi
      cd "$work" && rm -rf "$kind" && mv build-here "$kind"
    done
    if [ $tests = FAIL ]; then
      if [ -s plain.failing ] && cmp -s plain.failing annotated.failing; then tests="as without: $(tr '\n' ' ' <plain.failing)"; else fails=$((fails+1)); fi
    fi
    count=0 same=0 text=0 annotate=0 functions=0 without=0 with=0 blocks=0 others=0
    while read -r program; do
      [ -f "plain/$program" ] || continue
      count=$((count+1)); code "plain/$program" plain.text; code "annotated/$program" annotated.text
      cmp -s plain.text annotated.text && same=$((same+1)) || echo "$project $cc: code of $program differs" >&2
      read -r t a <<<"$(size -A "annotated/$program" | awk '/^\.text/ { t += $2 } /^\.annotate/ { a += $2 } END { print t + 0, a + 0 }')"
      for kind in plain annotated; do strip --strip-debug -R .llvm_bb_addr_map -o "$kind.shown" "$kind/$program"; done
      [ -z "$map" ] || { read -r b o <<<"$(mapped "annotated/$program")"; blocks=$((blocks+b)) others=$((others+o)); }
      read -r n bad <<<"$(not_understood annotated.shown)"; read -r _ plainbad <<<"$(not_understood plain.shown)"
      [ $bad -eq 0 ] || echo "$project $cc: $bad functions of $program are not understood" >&2
      text=$((text+t)) annotate=$((annotate+a)) functions=$((functions+n)) with=$((with+bad)) without=$((without+plainbad))
    done <<<"$(cd annotated && programs)"
    [ $same -eq $count ] && [ $with -eq 0 ] && [ $others -eq 0 ] || fails=$((fails+1))
    system=system_$name; system=${!system}
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s' "$project" "$system" "$cc" "$seconds_plain" "$seconds_annotated" "$tests" "$count" "$same" "$text" "$annotate" "$functions" "$without" "$with"
    [ -z "$maps" ] || printf '\t%s\t%s' "$blocks" "$others"
    [ -z "$instruments" ] || printf '\t%s\t%s' "$files" "$measured"
    echo
  done
done
[ $fails -eq 0 ]
