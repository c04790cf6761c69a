# cargo: a crate with a build script, a macro crate and tests
. "$(dirname "$0")/common.sh"
set_up() { packages cargo; }
run() {
    cp -r "$(dirname "$SELF")/programs/crate" crate && cd crate && CARGO_TERM_PROGRESS_WHEN=never cargo build --offline --release -j2 >log 2>&1
    echo "exit $?"
    sed -E 's/ in [0-9.]+s$//' log | sort; ./target/release/world
    cargo test --offline -j2 2>&1 | grep -E '^(test |running)' | sed 's/; finished in.*//' | sort; echo "exit ${PIPESTATUS[0]}"
}
main "$@"
