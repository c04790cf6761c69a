# bash: a large configure script, that of sed
. "$(dirname "$0")/common.sh"
set_up() { packages gcc make; source_of sed; }
run() {
    # Two questions are answered by who is faster.
    local known="am_cv_filesystem_timestamp_resolution=2 gl_cv_func_pthread_sigmask_unblock_works=yes"
    cp -rp "$WORLD/sed" sed && cd sed && ./configure --disable-nls $known >log 2>&1
    echo "exit $?, $(wc -l <log) lines"
    cat log
    sha256sum config.h Makefile
}
main "$@"
