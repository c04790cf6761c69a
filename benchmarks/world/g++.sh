# g++, make -j2: lzip from source, and its checks
. "$(dirname "$0")/common.sh"
set_up() { packages g++ make; source_of lzip; }
run() {
    cp -rp "$WORLD/lzip" lzip && cd lzip && ./configure >log 2>&1 && make -j2 >>log 2>&1
    echo "exit $?"
    sort log
    sha256sum lzip
    make check 2>&1
    echo "exit $?"
}
main "$@"
