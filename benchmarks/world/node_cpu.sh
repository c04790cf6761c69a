# node: number crunching, strings, garbage, workers and WebAssembly, all compiled just in time
. "$(dirname "$0")/common.sh"
set_up() { packages nodejs; }
run() { node "$(dirname "$SELF")/programs/cpu.mjs"; echo "exit $?"; }
main "$@"
