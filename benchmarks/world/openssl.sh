# openssl: digests, ciphers, keys, a TLS connection, speed
. "$(dirname "$0")/common.sh"
set_up() { packages openssl; }
run() {
    seq 200000 >plain
    for digest in md5 sha1 sha256 sha512 sha3-256 blake2b512; do openssl dgst -$digest plain; done
    for cipher in aes-128-cbc aes-256-ctr chacha20 camellia-128-cbc aria-256-cbc; do
        openssl enc -$cipher -k world -md sha256 -S 0011223344556677 -pbkdf2 -in plain -out coded
        openssl dgst -sha256 coded
    done
    openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out key 2>/dev/null; openssl pkey -in key -check -noout
    openssl req -x509 -new -key key -subj /CN=world -days 30 -out certificate && openssl dgst -sha256 -sign key -out signed plain &&
        openssl pkey -in key -pubout -out public && openssl dgst -sha256 -verify public -signature signed plain
    openssl s_server -accept 127.0.0.1:18443 -key key -cert certificate -www >server 2>&1 &
    until_it_can sh -c 'openssl s_client -connect 127.0.0.1:18443 </dev/null'
    printf 'GET / HTTP/1.0\r\n\r\n' | openssl s_client -connect 127.0.0.1:18443 -CAfile certificate -quiet -verify_return_error -ign_eof 2>&1 | grep -E '^(HTTP|verify|depth|New)'
    kill $!; wait 2>/dev/null
    openssl speed -seconds 1 -bytes 1024 -evp aes-128-gcm 2>&1 | awk '/^AES/ { print $1, NF }'
    openssl speed -seconds 1 -multi 2 ecdsap256 2>&1 | awk '/^ *256 bits/ { print $1, $2, $3, NF }'
    echo "exit $?"
}
main "$@"
