#!/usr/bin/env bash
# Makes the pictures of docs/html-report.md: docs/images/make.sh RELIVE LUA_OLD LUA_NEW
# (two builds of Lua, such as those of benchmarks/corpus; needs chromium and gcc, and pngquant if it is there).
set -euo pipefail
relive=$(realpath "$1") old=$(realpath "$2") new=$(realpath "$3") here=$(realpath "$(dirname "$0")")
work=$(mktemp -d /tmp/pictures.XXXXXX)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir old new
cp "$old" old/lua
cp "$new" new/lua
cat >work.lua <<'LUA'
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local t = {} for i = 1, 20000 do t[i] = (i * 7919) % 20011 end table.sort(t)
local s = {} for i = 1, 3000 do s[#s + 1] = string.format("%d:%s", i, tostring(t[i])) end
print(fib(20), #table.concat(s, ","))
LUA
cat >grid.c <<'C'
#include <stdlib.h>
static double grid[256][256];
static int *list;
__attribute__((noinline)) static void by_column(void) { for (int i = 0; i < 256; i++) for (int j = 0; j < 256; j++) grid[j][i] += i * j; }
__attribute__((noinline)) static void by_row(void) { for (int i = 0; i < 256; i++) for (int j = 0; j < 256; j++) grid[i][j] += i * j; }
__attribute__((noinline)) static void at_random(void) { for (int i = 0; i < 50000; i++) list[i * 7919 % 200000] += i; }
int main(void) { list = calloc(200000, sizeof *list); for (int i = 0; i < 4; i++) { by_column(); at_random(); by_row(); } return 0; }
C
gcc -g -O1 grid.c -o grid
"$relive" run -o lua.rprof -- old/lua work.lua >/dev/null
"$relive" report lua.rprof --html lua.html
"$relive" match old/lua new/lua --html match.html
"$relive" trace -o grid.rtrace -- ./grid
"$relive" analyze working-set --window 20000 grid.rtrace --html working-set.html

# shot PAGE VIEW WIDTH HEIGHT NAME [dark]
shot() {
    local dark=()
    [ "${6:-}" = dark ] && dark=(--blink-settings=preferredColorScheme=0)
    chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
        --disable-component-update --disable-sync --hide-scrollbars --virtual-time-budget=5000 --user-data-dir="$work/browser-$5" \
        "${dark[@]}" --window-size="$3,$4" --screenshot="$work/$5.png" "file://$work/$1#/$2" 2>/dev/null
    if command -v pngquant >/dev/null; then pngquant --force --output "$here/$5.png" 128 "$work/$5.png"; else cp "$work/$5.png" "$here/$5.png"; fi
}
# The number of a function in the page is its place in the order of instructions.
shot lua.html overview 1400 1000 report-overview
shot lua.html function/0 1400 900 report-graph dark
shot lua.html functions 500 900 report-phone
row=$(grep -o '"rows":\[.*' match.html | tr '[' '\n' | grep '^"' | grep -n '"luaH_resize",' | head -1 | cut -d: -f1)
shot match.html "pair/$((row - 2))?block=new6" 1400 900 match
shot working-set.html overview 1400 760 working-set
ls -l "$here"/*.png
