# qemu-x86_64: a static program with threads and signals, translated twice
. "$(dirname "$0")/common.sh"
set_up() { packages qemu-user gcc libc6-dev; }
run() {
    gcc -O2 -static -pthread -o guest "$(dirname "$SELF")/programs/guest.c" -lm; ./guest; echo "exit $?"; qemu-x86_64 ./guest
    echo "exit $?"
}
main "$@"
