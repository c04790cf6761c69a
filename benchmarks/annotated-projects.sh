# Sourced by annotated-builds.sh: how each project is built and tested. Each build takes the compilers from $CC and $CXX, and builds in the
# current folder, which is a copy of the source; its test says what failed as `FAIL: name`, or by its exit status alone. $source_NAME is the
# name of the source package where it is another one. Some need Debian packages besides compilers: autoconf, automake, libtool, cmake, meson,
# ninja-build, nasm, zlib1g-dev, libgpg-error-dev; unicode-data (re2), googletest (fmt), libgtest-dev, libgmock-dev and libbenchmark-dev (leveldb).

# What the package brings ready made stays so, whatever its patches did to the times of files.
generated=(MAKEINFO=true ACLOCAL=true AUTOCONF=true AUTOHEADER=true AUTOMAKE=true)
autoconf() { touch doc/*.info 2>/dev/null; ./configure CC="$CC" CXX="$CXX" "$@" && make -j2 "${generated[@]}"; }
check() { make -j2 check "${generated[@]}"; }
cmake_launched() { # option... : CMake takes one file for a compiler, and what to put in front of it
  case $CC in "$relive"*) set -- "$@" "-DCMAKE_C_COMPILER_LAUNCHER=$relive;cc;--" "-DCMAKE_CXX_COMPILER_LAUNCHER=$relive;cc;--" "-DCMAKE_C_LINKER_LAUNCHER=$relive;cc;--" "-DCMAKE_CXX_LINKER_LAUNCHER=$relive;cc;--";; esac
  cmake -S . -B build -DCMAKE_C_COMPILER="$plain_cc" -DCMAKE_CXX_COMPILER="$plain_cxx" -DCMAKE_C_FLAGS="$map" -DCMAKE_CXX_FLAGS="$map" -DCMAKE_BUILD_TYPE=Release "$@" && make -j2 -C build
}

projects="sed grep gawk gzip xz libpng expat bzip2 zstd re2 zlib brotli jsoncpp pcre2 tinyxml2 double-conversion fmt leveldb jpeg dav1d gmp nettle libgcrypt luajit x264 openssl"

system_sed=autoconf;   build_sed() { touch doc/sed.info; ./configure CC="$CC" --disable-nls && make -j2 "${generated[@]}"; };  test_sed() { check; }
system_grep=autoconf;  build_grep() { autoconf --disable-nls; };  test_grep() { check; }
# The package leaves out its manual, and what is made from it.
system_gawk=autoconf;  build_gawk() { local d; for d in doc awklib; do echo "all check:" >$d/Makefile.in; done; autoconf --disable-nls --disable-mpfr; };  test_gawk() { make check "${generated[@]}" || { (cd test && for t in _*; do echo "FAIL: ${t#_}"; done); return 1; }; } # some want the locale en_US.UTF-8
system_gzip=autoconf;  build_gzip() { autoconf; };  test_gzip() { check; }
source_xz=xz-utils
system_xz=autoconf;    build_xz() { autoconf --disable-nls --disable-doc; };  test_xz() { check; }
source_libpng=libpng1.6
system_libpng=autoconf; build_libpng() { autoconf; };  test_libpng() { check; }
# What it takes out of its repository is not made ready.
system_expat=autoconf; build_expat() { (cd expat && autoreconf -fi && ./configure CC="$CC" CXX="$CXX" --without-docbook && make -j2); };  test_expat() { make -j2 -C expat check; }
system_bzip2=make;     build_bzip2() { make -j2 CC="$CC" bzip2 bzip2recover libbz2.a; };  test_bzip2() { make CC="$CC" test; }
source_zstd=libzstd
system_zstd=make;      build_zstd() { make -j2 CC="$CC" lib zstd; };  test_zstd() { make -C tests CC="$CC" datagen && (cd tests && ZSTD=../programs/zstd DATAGEN=./datagen ./playTests.sh); }
# Its exhaustive tests take hours. Tables that the package leaves out are made anew, from Debian's unicode-data.
re2_tests="charclass_test compile_test filtered_re2_test mimics_pcre_test parse_test possible_match_test re2_test regexp_test required_prefix_test search_test set_test simplify_test string_generator_test"
system_re2=make;       build_re2() { make -j2 REBUILD_TABLES=1 CXX="$CXX" obj/libre2.a obj/so/libre2.so $(printf 'obj/test/%s ' $re2_tests); }
test_re2() { local t bad=0; for t in $re2_tests; do obj/test/$t || { echo "FAIL: $t"; bad=1; }; done; return $bad; }
system_zlib=script;    build_zlib() { ./configure && make -j2; };  test_zlib() { make test; }
system_brotli=CMake;   build_brotli() { cmake_launched; };  test_brotli() { (cd build && ctest -j2); }
source_jsoncpp=libjsoncpp
system_jsoncpp=CMake;  build_jsoncpp() { cmake_launched -DCMAKE_POLICY_VERSION_MINIMUM=3.5; };  test_jsoncpp() { (cd build && ctest); } # two of its tests write to the same files
system_pcre2=CMake;    build_pcre2() { cmake_launched -DPCRE2_SUPPORT_JIT=ON -DPCRE2_BUILD_PCRE2_16=ON -DBUILD_SHARED_LIBS=ON; };  test_pcre2() { (cd build && ctest); }
system_tinyxml2=CMake; build_tinyxml2() { cmake_launched -DBUILD_SHARED_LIBS=ON; };  test_tinyxml2() { (cd build && ctest); }
system_double_conversion=CMake
source_double_conversion=double-conversion
build_double_conversion() { cmake_launched -DBUILD_TESTING=ON; };  test_double_conversion() { (cd build && ctest -j2); }
source_fmt=fmtlib
system_fmt=CMake;      build_fmt() { cmake_launched -DFMT_DOC=OFF -DBUILD_SHARED_LIBS=ON; };  test_fmt() { (cd build && ctest -j2); }
system_leveldb=CMake;  build_leveldb() { cmake_launched -DLEVELDB_BUILD_BENCHMARKS=OFF; };  test_leveldb() { (cd build && ctest); }
source_jpeg=libjpeg-turbo
system_jpeg=CMake;     build_jpeg() { cmake_launched; };  test_jpeg() { (cd build && ctest -j2); }
system_dav1d=meson;    build_dav1d() { CFLAGS="$map" meson setup build --buildtype=release && ninja -j2 -C build; };  test_dav1d() { meson test -C build --no-rebuild; }
system_gmp=autoconf;   build_gmp() { [ -e doc/Makefile.in ] || { mkdir -p doc; echo "all check:" >doc/Makefile.in; }; ./configure CC="$CC" CXX="$CXX" --enable-cxx --enable-fat && make -j2 "${generated[@]}"; };  test_gmp() { make -C tests libtests.la && GMP_CHECK_REPFACTOR=0.2 make -j2 -C tests/mpn check && GMP_CHECK_REPFACTOR=0.2 make -j2 -C tests/mpz check; }
system_nettle=autoconf; build_nettle() { ./configure CC="$CC" CXX="$CXX" CC_FOR_BUILD="$CC -O -g" --disable-documentation --enable-mini-gmp && make -j2; };  test_nettle() { make check; }
source_libgcrypt=libgcrypt20
system_libgcrypt=autoconf; build_libgcrypt() { autoconf --disable-doc; };  test_libgcrypt() { make -j2 -C tests check TESTS="basic hashtest t-kdf hmac mpitests t-mpi-point curves keygen pubkey dsa-rfc6979 t-dsa t-ecdsa t-ed25519 t-cv25519 t-ed448 t-x448 aeswrap pkcs1v2 random"; } # the others take most of their time
system_luajit=make;    build_luajit() { make -j2 amalg HOST_CC="$CC" CC="$CC" BUILDMODE=mixed; };  test_luajit() { luajit_agrees; }
system_x264=script;    build_x264() { ./configure --enable-shared --disable-opencl --extra-cflags="$map" && make -j2 x264 lib-shared checkasm; };  test_x264() { ./checkasm8 && ./checkasm10; }
# It tells by what command it was compiled, which is of another length by `relive cc`.
system_openssl=script; build_openssl() { ./Configure linux-x86_64 no-tests && sed -i 's/mkbuildinf.pl "$(CC)/mkbuildinf.pl "cc/' Makefile && make -j2 build_sw; };  test_openssl() { openssl_agrees; }

# Packages without tests: what the interpreter says has to be what compiled code says.
luajit_agrees() {
  cat >agrees.lua <<'LUA'
local t = {}
for i = 1, 200000 do t[i] = (i * 7919) % 100003 end
table.sort(t)
local sum, text = 0, {}
for i, v in ipairs(t) do sum = (sum + i * v) % 2147483647 end
for i = 1, 3000 do text[#text + 1] = ("%d:%s"):format(i, tostring(i / 7)):gsub("%d", function(d) return d == "3" and "x" or nil end) end
local co = coroutine.wrap(function() for i = 1, 1e4 do coroutine.yield(i * i) end end)
local squares = 0
for i = 1, 1e4 do squares = squares + co() end
local class = setmetatable({}, { __index = function(_, k) return k .. k end, __add = function(a, b) return 42 end, __call = function(_, ...) return select("#", ...) end })
local ok, why = pcall(function() local x = nil; return x.y end)
local ffi, bit = require("ffi"), require("bit")
ffi.cdef "int snprintf(char *, size_t, const char *, ...); typedef struct { double x, y; } point;"
local buf, p, acc = ffi.new("char[64]"), ffi.new("point[100]"), 0
for r = 1, 500 do for i = 0, 99 do p[i].x = p[i].x + i; acc = bit.bxor(acc, bit.lshift(i, r % 20)) end end
ffi.C.snprintf(buf, 64, "%d %g", ffi.cast("int", acc), p[99].x)
print(sum, #table.concat(text, ","), text[1234], squares, class.ab, class + 1, class(1, 2, 3), ok, why, ffi.string(buf))
LUA
  src/luajit -joff agrees.lua >off && src/luajit agrees.lua >on && src/luajit -O0 agrees.lua >slow && src/luajit -bl agrees.lua >/dev/null 2>&1
  test -s off && cmp off on && cmp off slow
}
openssl_agrees() {
  local run=apps/openssl d c bad=0
  export LD_LIBRARY_PATH=$PWD
  seq 200000 >plain.txt
  for d in md5 sha1 sha224 sha256 sha384 sha512; do
    [ "$($run dgst -$d -r plain.txt | cut -d' ' -f1)" = "$(${d}sum plain.txt | cut -d' ' -f1)" ] || { echo "FAIL: $d"; bad=1; }
  done
  for c in aes-128-cbc aes-256-ctr aes-192-ecb chacha20 camellia-256-cbc aria-128-ctr des-ede3-cbc; do
    $run enc -$c -pbkdf2 -k secret -in plain.txt -out coded && $run enc -d -$c -pbkdf2 -k secret -in coded -out back && cmp plain.txt back || { echo "FAIL: $c"; bad=1; }
  done
  for c in 'RSA -pkeyopt rsa_keygen_bits:2048' 'EC -pkeyopt ec_paramgen_curve:P-256' 'EC -pkeyopt ec_paramgen_curve:P-521' ED25519; do
    $run genpkey -algorithm $c -out key.pem && $run pkey -in key.pem -pubout -out pub.pem && $run pkeyutl -sign -rawin -inkey key.pem -in plain.txt -out sig &&
      $run pkeyutl -verify -rawin -pubin -inkey pub.pem -in plain.txt -sigfile sig || { echo "FAIL: $c"; bad=1; }
  done
  $run speed -seconds 1 -bytes 1024 sha256 rsa2048 ecdsap256 || { echo "FAIL: speed"; bad=1; }
  for c in aes-128-gcm chacha20-poly1305; do $run speed -seconds 1 -bytes 1024 -evp $c || { echo "FAIL: speed of $c"; bad=1; }; done
  unset LD_LIBRARY_PATH
  return $bad
}
