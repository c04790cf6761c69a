# sqlite3: joins, recursion, full-text search, transactions, integrity
. "$(dirname "$0")/common.sh"
set_up() { packages sqlite3; }
run() { sqlite3 world.db <"$(dirname "$SELF")/programs/world.sql" 2>&1; echo "exit $?"; sha256sum world.db; }
main "$@"
