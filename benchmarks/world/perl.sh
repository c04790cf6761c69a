# perl: 208 of its own tests, those of the core language
. "$(dirname "$0")/common.sh"
set_up() { packages perl; source_of perl; }
run() {
    cp -r "$WORLD/perl" perl && cd perl && rm -r lib && mkdir lib
    # The library that belongs to the installed perl, where the tests look for it.
    local version; version=$(perl -e 'print "$1" if $] =~ /5\.0*(\d+)\d{3}/')
    for from in /usr/share/perl/5.$version /usr/lib/*/perl/5.$version /usr/lib/*/perl-base; do cp -rL "$from/." lib/; done
    ln -s "$(command -v perl)" t/perl; ln -s "$(command -v perl)" perl
    cd t || exit
    for test in base/*.t cmd/*.t comp/*.t mro/*.t op/[a-k]*.t; do
        PERL_CORE=1 timeout 300 ./perl "$test" >out 2>err </dev/null
        echo "$test exit $? ok $(grep -c '^ok' out) not $(grep -c '^not ok' out)"
    done
}
main "$@"
