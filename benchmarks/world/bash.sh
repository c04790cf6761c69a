# bash: a large configure script, that of sed
. "$(dirname "$0")/common.sh"
set_up() { packages gcc make; source_of sed; }
run() {
    cp -rp "$WORLD/sed" sed && cd sed && ./configure --disable-nls >log 2>&1
    echo "exit $?, $(wc -l <log) lines"
    grep -v '^checking for .* to be 64-bit' log
    sha256sum config.h Makefile
}
main "$@"
