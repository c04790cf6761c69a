# xz -T2 and zstd -T2: there and back
. "$(dirname "$0")/common.sh"
set_up() { packages xz-utils zstd; source_of perl; }
run() {
    tar -cf plain.tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$WORLD" perl/pod perl/t && sha256sum plain.tar
    xz -T2 --block-size=2MiB -3 -k plain.tar; echo "exit $?"; sha256sum plain.tar.xz; xz -T2 -t plain.tar.xz && xz -T2 -dc plain.tar.xz | sha256sum
    zstd -q -T2 -9 -k plain.tar; echo "exit $?"; sha256sum plain.tar.zst; zstd -q -t plain.tar.zst && zstd -q -dc plain.tar.zst | sha256sum
}
main "$@"
