# node --test: tests in processes of their own
. "$(dirname "$0")/common.sh"
set_up() { packages nodejs; }
run() {
    cp "$(dirname "$SELF")"/programs/*.test.mjs . && node --test --test-reporter=tap . >log 2>&1
    echo "exit $?"
    sed -e '/duration_ms/d' log
}
main "$@"
