# esbuild, as shipped: bundles and minifies a library (Go)
. "$(dirname "$0")/common.sh"
set_up() {
    packages npm
    [ -e "$WORLD/esbuild" ] || (mkdir -p "$WORLD/esbuild.new" && cd "$WORLD/esbuild.new" &&
        npm install --silent --no-audit --no-fund esbuild@0.25.0 three@0.170.0 && mv "$WORLD/esbuild.new" "$WORLD/esbuild")
}
run() {
    for round in 1 2 3; do
        "$WORLD"/esbuild/node_modules/@esbuild/linux-x64/bin/esbuild "$WORLD/esbuild/node_modules/three/src/Three.js" \
            --bundle --minify --sourcemap --outfile=out.js --log-level=warning
        echo "exit $?"
        sha256sum <out.js
    done
}
main "$@"
