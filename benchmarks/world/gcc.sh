# gcc, as, ld, make -j2: sed from source
. "$(dirname "$0")/common.sh"
set_up() {
    packages gcc make perl; source_of sed
    [ -e "$WORLD/sed.configured/Makefile" ] || (rm -rf "$WORLD/sed.configured" && cp -rp "$WORLD/sed" "$WORLD/sed.configured" &&
        cd "$WORLD/sed.configured" && FORCE_UNSAFE_CONFIGURE=1 ./configure --disable-nls >log 2>&1)
}
run() {
    cp -rp "$WORLD/sed.configured" sed && cd sed && make -j2 >log 2>&1
    echo "exit $?"
    sed 's/^  [A-Z]* *//' log | sort
    sha256sum sed/sed
    for n in 1 2 3; do seq 100 | sed/sed -nE "$n~7{s/(.)(.)/\\2\\1/;p}" | tr '\n' ' '; done
}
main "$@"
