# gcc, as, ld, make -j2: sed from source, and its checks
. "$(dirname "$0")/common.sh"
set_up() {
    packages gcc make perl; source_of sed
    [ -e "$WORLD/sed.configured" ] || (cp -r "$WORLD/sed" "$WORLD/sed.configuring" && cd "$WORLD/sed.configuring" &&
        FORCE_UNSAFE_CONFIGURE=1 ./configure --disable-nls >log 2>&1 && mv "$WORLD/sed.configuring" "$WORLD/sed.configured")
}
run() {
    cp -rp "$WORLD/sed.configured" sed && cd sed && make -j2 >log 2>&1
    echo "exit $?"
    sed 's/^  [A-Z]* *//' log | sort
    sha256sum sed/sed
    make check >checked 2>&1
    echo "exit $?"
    grep -E '^(# (TOTAL|PASS|SKIP|XFAIL|FAIL|XPASS|ERROR)|FAIL|ERROR)' checked | sort
}
main "$@"
