# Sourced by scripts that fetch source packages: the options that make apt-get see the sources of what this machine has its
# packages from, in $deb_src. Keeps its lists in a folder of its own, and what apt is set up to do as it is.
deb_src_options() { # folder
  local s
  mkdir -p "$1/parts" "$1/state/partial"
  for s in /etc/apt/sources.list.d/*.sources; do
    [ -f "$s" ] && sed 's/^Types: .*/Types: deb-src/' "$s" >"$1/parts/$(basename "$s")"
  done
  for s in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -s "$s" ] && sed -n 's/^deb /deb-src /p' "$s" >"$1/parts/$(basename "$s" .list).list"
  done
  : >"$1/none"
  deb_src=(-o "Dir::Etc::sourcelist=$1/none" -o "Dir::Etc::sourceparts=$1/parts" -o "Dir::State::lists=$1/state")
  # Some of them may have no sources; those that have do.
  [ -f "$1/updated" ] || { apt-get "${deb_src[@]}" -q update >"$1/log" 2>&1; [ -n "$(ls "$1"/state/*_Sources* 2>/dev/null)" ] && touch "$1/updated"; } || { cat "$1/log" >&2; return 1; }
}
