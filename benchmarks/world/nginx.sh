# nginx: two workers under ab, and a reload
. "$(dirname "$0")/common.sh"
set_up() { packages nginx-light apache2-utils; }
run() {
    mkdir logs www; head -c 100000 /dev/zero | tr '\0' x >www/large; echo small >www/small
    cat >conf <<END
daemon off; worker_processes 2; pid $PWD/pid; error_log $PWD/logs/error;
events { worker_connections 256; }
http { access_log $PWD/logs/access; client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
  server { listen 127.0.0.1:18080; root $PWD/www; gzip on; gzip_types *; } }
END
    /usr/sbin/nginx -e "$PWD/logs/error" -p "$PWD" -c "$PWD/conf" &
    until_it_can ab -n 1 http://127.0.0.1:18080/small
    for what in small large missing; do
        ab -q -n 3000 -c 16 -H 'Accept-Encoding: gzip' "http://127.0.0.1:18080/$what" 2>&1 | grep -E '^(Complete|Failed|Non-2xx|Document Length)'
    done
    kill -HUP $!; sleep 0.5; ab -q -n 1000 -c 16 -k http://127.0.0.1:18080/small 2>&1 | grep -E '^(Complete|Failed)'
    kill -QUIT $!; wait; echo "exit $?"; grep -vcE 'notice|No such file' logs/error; true
}
main "$@"
