# chromium: a local page with scripts, headless, without its sandbox
. "$(dirname "$0")/common.sh"
set_up() { packages chromium; }
run() {
    cp "$(dirname "$SELF")/programs/page.html" .
    chromium --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/profile" --virtual-time-budget=10000 --dump-dom "file://$PWD/page.html" 2>log
    echo "exit $?"
}
main "$@"
