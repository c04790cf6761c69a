# redis: redis-server under redis-benchmark, with a background save
. "$(dirname "$0")/common.sh"
set_up() { packages redis-server redis-tools; }
run() {
    redis-server --port 0 --unixsocket "$PWD/s" --dir "$PWD" --save '' --io-threads 2 --io-threads-do-reads yes >log 2>&1 &
    local cli="redis-cli -s $PWD/s"
    until_it_can $cli ping
    redis-benchmark -s "$PWD/s" -q -n 20000 -c 20 -P 4 --threads 2 2>&1 | tr '\r' '\n' | sed -n 's/: [0-9.]* requests per second.*//p'
    $cli eval 'local s = 0; for i = 1, 100000 do s = s + i % 7 end; return s' 0
    $cli debug populate 1000 >/dev/null; for i in $(seq 50); do echo "set k$i $i"; done | $cli | sort | uniq -c
    $cli bgsave; until_it_can sh -c "$cli info persistence | grep -q rdb_bgsave_in_progress:0"
    $cli info persistence | grep rdb_last_bgsave_status; $cli dbsize
    $cli shutdown save; wait; echo "exit $?"; redis-check-rdb dump.rdb | grep -c OK
}
main "$@"
