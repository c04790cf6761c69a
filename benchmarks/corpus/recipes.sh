# Sourced by build.sh: build_<program> compiles the sources in the current folder into $out.
# cc and cxx are the compilers of the configuration; $v is the version, $cfg the configuration,
# $S/$B/$I/$W the folders of sources, binaries, inputs and scratch, $D the drivers.

build_lua() {
  cc -std=gnu99 '-Dluai_makeseed(...)=20200420u' -DLUA_USE_POSIX -DLUA_USE_DLOPEN -DLUA_COMPAT_5_3 -I. *.c \
    "$D/lua_main.c" -o "$out" -Wl,-E -lm -ldl
}

build_bzip2() {
  cc -D_FILE_OFFSET_BITS=64 blocksort.c huffman.c crctable.c randtable.c compress.c decompress.c bzlib.c bzip2.c -o "$out"
}

build_lz4() {
  local f p=()
  for f in programs/*.c; do case $f in
    */fullbench.c|*/fuzzer.c|*/frametest.c|*/datagencli.c|*/roundTripTest.c|*/checkFrame.c) ;;
    *) p+=("$f");;
  esac; done
  cc -std=gnu99 -DXXH_NAMESPACE=LZ4_ -Ilib -Iprograms lib/*.c "${p[@]}" -o "$out"
}

# sqlite's own benchmark program is newer than some versions: one constant, used by an option never given.
build_sqlite() {
  local x=()
  grep -q SQLITE_FCNTL_RESERVE_BYTES sqlite3.h || x=(-DSQLITE_FCNTL_RESERVE_BYTES=38)
  cc "${x[@]}" -DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_ENABLE_RTREE -DSQLITE_ENABLE_FTS5 \
    -DSQLITE_ENABLE_MATH_FUNCTIONS -DSQLITE_DEFAULT_MEMSTATUS=0 -I. sqlite3.c "$I/sqlite-src/test/speedtest1.c" -o "$out" -lm
}

build_onig() {
  local f p=() w=$W/onig-$v-$cfg name
  mkdir -p "$w"
  rm -f src/config.h # 6.4.0 has one for Windows, which would hide ours
  for name in HAVE_PROTOTYPES STDC_HEADERS HAVE_STRING_H HAVE_STDARG_H HAVE_STDLIB_H HAVE_LIMITS_H HAVE_INTTYPES_H \
    HAVE_STDINT_H HAVE_ALLOCA_H HAVE_ALLOCA HAVE_SYS_TYPES_H HAVE_UNISTD_H; do echo "#define $name 1"; done >"$w/config.h"
  printf '%s\n' '#define SIZEOF_INT 4' '#define SIZEOF_SHORT 2' '#define SIZEOF_LONG 8' '#define SIZEOF_VOIDP 8' \
    '#define SIZEOF_LONG_LONG 8' '#define PACKAGE "onig"' '#define VERSION "x"' >>"$w/config.h"
  for f in src/*.c; do case $f in
    */mktable.c|*unicode_*_data*.c|*/regposix.c|*/regposerr.c|*/reggnu.c) ;;
    *) p+=("$f");;
  esac; done
  cc -DHAVE_CONFIG_H "-I$w" -Isrc "${p[@]}" "$D/onig_main.c" -o "$out"
}

# Before 2020-07-05 the library needed no handlers, which the driver starts.
build_quickjs() {
  local x=()
  grep -q js_std_init_handlers quickjs-libc.h || x=('-Djs_std_init_handlers(rt)=((void)(rt))')
  cc "${x[@]}" -D_GNU_SOURCE "-DCONFIG_VERSION=\"$v\"" -DCONFIG_BIGNUM -fwrapv -I. quickjs.c quickjs-libc.c libregexp.c libunicode.c \
    cutils.c libbf.c "$D/qjs_main.c" -o "$out" -lm -ldl -lpthread
}

# The package leaves out headers of the flac program: libFLAC and a driver.
build_flac() {
  local f p=() w=$W/flac-$v-$cfg
  mkdir -p "$w"; : >"$w/config.h"
  for f in src/libFLAC/*.c; do case $f in *ogg*|*/windows_*) ;; *) p+=("$f");; esac; done
  cc -std=gnu99 "-I$w" -Iinclude -Isrc/libFLAC/include -DHAVE_CONFIG_H "-DPACKAGE_VERSION=\"$v\"" -DNDEBUG -DFLAC__NO_DLL \
    -DHAVE_STDINT_H -DHAVE_INTTYPES_H -DHAVE_FSEEKO -DHAVE_LROUND -DHAVE_STRING_H -DHAVE_STDBOOL_H -DHAVE_BSWAP16 \
    -DHAVE_BSWAP32 -DFLAC__CPU_X86_64 -DFLAC__ALIGN_MALLOC_DATA -DFLAC__HAS_X86INTRIN=1 -DHAVE_X86INTRIN_H \
    -DENABLE_64_BIT_WORDS=1 -DCPU_IS_LITTLE_ENDIAN=1 -DCPU_IS_BIG_ENDIAN=0 -DFLAC__HAS_OGG=0 -D_FILE_OFFSET_BITS=64 \
    -D_GNU_SOURCE "${p[@]}" "$D/flac_main.c" -o "$out" -lm -lpthread
}

build_cadical() {
  local f p=()
  for f in src/*.cpp; do case $f in */mobical.cpp) ;; *) p+=("$f");; esac; done
  if [ -f src/kitten.c ]; then cc -DNDEBUG -c src/kitten.c -o "$asm/kitten.o" && p+=("$asm/kitten.o"); fi
  cxx -std=gnu++17 -DNDEBUG -DNBUILD "-DVERSION=\"$v\"" -Isrc "${p[@]}" -o "$out"
}

# Its own complex.h must not hide <complex.h>; a fixed seed makes runs repeatable.
build_libquantum() {
  local f p=() w=$W/libquantum-$cfg
  [ -f config.status ] || CC=gcc CFLAGS=-O2 ./configure -q --disable-shared --without-lapack || return 1
  for f in classic complex decoherence energy error expn gates lapack matrix measure oaddn objcode omuln qec qft qtime \
    qureg version density; do [ -f $f.c ] && p+=($f.c); done
  sed "s/srand(time(0))/srand(1)/" shor.c >corpus_shor.c
  mkdir -p "$w"; cp quantum.h "$w/"
  cc -std=gnu99 -DHAVE_CONFIG_H "-I$w" -iquote . "${p[@]}" corpus_shor.c -o "$out" -lm
}

# rustc has no switch for the block map or for kept labels: only the executed jumps can judge this one.
build_ripgrep() {
  [ "$cfg" = rustc-O2 ] || return 1
  (
    export CARGO_HOME=$CORPUS_DIR/cargo-home CARGO_TARGET_DIR=$W/ripgrep-$v CARGO_PROFILE_RELEASE_DEBUG=1 \
      CARGO_PROFILE_RELEASE_OPT_LEVEL=2 CARGO_PROFILE_RELEASE_STRIP=none CARGO_PROFILE_RELEASE_LTO=off
    export RUSTFLAGS="-C linker=gcc --remap-path-prefix=$PWD/= --remap-path-prefix=$CORPUS_DIR/=corpus/ --cap-lints allow"
    $nice_ cargo build -q --release --locked -j1 && cp "$CARGO_TARGET_DIR/release/rg" "$out"
  ) && rm -rf "$W/ripgrep-$v"
}
