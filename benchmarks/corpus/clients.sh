# Sourced by fetch.sh: one function per package client.  get_<kind> NAME VERSION prints the path of the archive,
# or nothing when it could not be had; what was downloaded once is taken from the cache.
cache=$CORPUS_DIR/cache
mkdir -p "$cache"
export CARGO_HOME=$CORPUS_DIR/cargo-home
mkdir -p "$CARGO_HOME"
if [ -f "$HOME/.cargo/config.toml" ] && [ ! -f "$CARGO_HOME/config.toml" ]; then cp "$HOME/.cargo/config.toml" "$CARGO_HOME/"; fi

first() { local f; for f in "$@"; do [ -e "$f" ] && { echo "$f"; return; }; done; }

# `cargo info` downloads just that one crate; its exit status is not telling (it fails on some old manifests
# after the download), so look for the file.
get_crate() {
  local f; f=$(first "$CARGO_HOME"/registry/cache/*/"$1-$2.crate")
  [ -n "$f" ] || (cd "$CORPUS_DIR" && cargo info -q "$1@$2") >"$CORPUS_DIR/logs/fetch-$1-$2.log" 2>&1
  first "$CARGO_HOME"/registry/cache/*/"$1-$2.crate"
}

get_sdist() {
  local f; f=$(first "$cache/sdist/$1-$2"/*)
  [ -n "$f" ] || f=$(python3 "$here/fetch_sdist.py" "$1" "$2" "$cache/sdist/$1-$2" 2>"$CORPUS_DIR/logs/fetch-$1-$2.log")
  echo "$f"
}

get_npm() {
  local d=$cache/npm/$1-$2
  mkdir -p "$d"
  [ -n "$(first "$d"/*.tgz)" ] || (cd "$d" && npm pack -s "$1@$2") >"$CORPUS_DIR/logs/fetch-npm-${1//\//-}.log" 2>&1
  first "$d"/*.tgz
}

# A binary package: unpacked, not installed.
get_apt() {
  local d=$cache/apt/$1
  mkdir -p "$d"
  [ -n "$(first "$d"/*.deb)" ] || (cd "$d" && apt-get download -q "$1") >"$CORPUS_DIR/logs/fetch-apt-$1.log" 2>&1
  first "$d"/*.deb
}

# A source package.  The machine may list no sources of that kind, so a private list is made out of its own one;
# --download-only because unpacking would want dpkg-dev.
. "$here/../deb_src.sh"
get_aptsrc() {
  local d=$cache/aptsrc/$1
  if [ -z "$(first "$d/$1"*.orig.tar.*)" ]; then
    mkdir -p "$d"
    deb_src_options "$cache/aptsrc/.lists" >&2 && (cd "$d" && apt-get "${deb_src[@]}" -q source --download-only "$1") >>"$CORPUS_DIR/logs/fetch-aptsrc.log" 2>&1
  fi
  first "$d/$1"*.orig.tar.*
}

# unpack ARCHIVE DEST: without the archive's top folder
unpack() {
  rm -rf "$2.tmp"; mkdir -p "$2.tmp"
  case $1 in
    *.crate|*.tgz|*.tar.gz) tar xzf "$1" -C "$2.tmp" --strip-components=1 ;;
    *.tar.*) tar xf "$1" -C "$2.tmp" --strip-components=1 ;;
    *.zip) python3 -m zipfile -e "$1" "$2.zip" && mv "$2.zip"/*/* "$2.tmp"/ && rm -rf "$2.zip" ;;
    *.deb) dpkg -x "$1" "$2.tmp" ;;
    *) return 1 ;;
  esac && mv "$2.tmp" "$2"
}
