# gdb with a program: breakpoints, a watchpoint, threads, a signal, a back-trace
. "$(dirname "$0")/common.sh"
set_up() { packages gdb gcc libc6-dev; }
run() {
    gcc -g -O0 -pthread -o inferior "$(dirname "$SELF")/programs/inferior.c" || exit
    gdb -nx -batch -ex 'set debuginfod enabled off' -ex 'set width 0' -ex 'break work' -ex run -ex bt -ex 'watch total' -ex c -ex c -ex 'delete' \
        -ex c -ex bt -ex 'print total' -ex c ./inferior 2>&1 </dev/null |
        sed -E -e 's/0x[0-9a-f]+/@/g' -e 's/expected=[0-9]+/expected=N/' -e 's/(LWP|process|Inferior 1 \(process) [0-9]+/\1 N/g'
}
main "$@"
