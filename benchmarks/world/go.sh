# Go: goroutines that never yield, channels, panics, garbage; go build and go vet themselves
. "$(dirname "$0")/common.sh"
set_up() { packages golang-go; }
run() {
    export GOCACHE="$PWD/cache" GOFLAGS=-mod=mod GO111MODULE=on GOPROXY=off GOTOOLCHAIN=local
    mkdir world && cd world && cp "$(dirname "$SELF")/programs/world.go" . && go mod init world 2>&1
    go vet . && go build -p 2 -trimpath -o world . && ./world
    echo "exit $?"
}
main "$@"
