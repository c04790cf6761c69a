# PostgreSQL: initdb, pgbench, a crash and its recovery
. "$(dirname "$0")/common.sh"
set_up() { packages postgresql; }
run() {
    PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
    initdb -D data -U world --no-sync >log 2>&1; echo "initdb: exit $?"
    local options="-c listen_addresses=127.0.0.1 -p 15432 -k $PWD"
    pg_ctl -D data -o "$options" -l server -w start >>log; echo "start: exit $?"
    export PGHOST=127.0.0.1 PGPORT=15432 PGUSER=world PGDATABASE=postgres
    pgbench -i -s 2 -q 2>>log; echo "pgbench -i: exit $?"
    pgbench -c 4 -j 2 -t 200 2>&1 | grep -E '^number of transactions (actually|failed)'
    psql -Atc 'select count(*) from pgbench_history' -c 'select sum(abalance) - sum(delta) from (select sum(abalance) abalance from pgbench_accounts) a, (select sum(delta) delta from pgbench_history) h' \
        -c 'create table t as select g, md5(g::text) m from generate_series(1, 20000) g' -c 'create index on t (m)' -c 'set max_parallel_workers_per_gather = 2' \
        -c 'select count(*), min(m), max(m) from t where m like $$a%$$' -c 'do $$ begin perform 1/0; exception when others then raise notice $q$caught %$q$, sqlerrm; end $$' 2>&1
    pg_ctl -D data -m immediate stop >>log; echo "crash: exit $?"
    pg_ctl -D data -o "$options" -l server -w start >>log; echo "recovery: exit $?"
    psql -Atc 'select count(*) from t'
    pg_ctl -D data -m fast stop >>log; echo "stop: exit $?"
}
main "$@"
