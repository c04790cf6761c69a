# Sourced by every script here. `NAME.sh set-up` (root, network) brings what it needs, once; `NAME.sh run` does something
# in an empty folder, and prints the same whenever it is run. WORLD is where what was brought is kept.
set -u
: "${WORLD:?set WORLD}"
SELF=$(realpath "$0")
export LC_ALL=C TZ=UTC HOME="$PWD"

# Debian's packages, those that are missing.
packages() {
    local missing=()
    for name in "$@"; do dpkg -s "$name" 2>&1 | grep -q '^Status: install ok installed' || missing+=("$name"); done
    [ ${#missing[@]} = 0 ] || DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"
}

# The source of a Debian package, in $WORLD/NAME.
source_of() {
    [ ! -e "$WORLD/$1" ] || return 0
    local lists="$WORLD/apt" folder="$WORLD/$1.download"
    mkdir -p "$lists/parts" "$lists/lists/partial" "$folder"
    sed -n '1,/^$/p' /etc/apt/sources.list.d/debian.sources |
        sed -e 's/^Types:.*/Types: deb-src/' -e 's/^Suites: \([a-z]*\).*/Suites: \1/' >"$lists/parts/debian.sources"
    local options=(-q -o "Dir::Etc::sourcelist=$lists/none" -o "Dir::Etc::sourceparts=$lists/parts" -o "Dir::State::lists=$lists/lists")
    apt-get "${options[@]}" update && (cd "$folder" && apt-get "${options[@]}" source --download-only "$1") &&
        mkdir "$folder/tree" && tar -xf "$folder/$1"_*.orig.tar.* -C "$folder/tree" --strip-components=1 && mv "$folder/tree" "$WORLD/$1"
}

# Waits until a command succeeds, ten seconds at most.
until_it_can() { for _ in $(seq 200); do "$@" >/dev/null 2>&1 && return; sleep 0.05; done; echo "never: $*"; exit 1; }

main() {
    case ${1:-} in
        set-up) set_up;;
        run) run;;
        *) echo "usage: $0 set-up|run" >&2; exit 2;;
    esac
}
