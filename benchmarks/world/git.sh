# git: from clone to gc
. "$(dirname "$0")/common.sh"
set_up() { packages git; source_of sed; }
run() {
    export GIT_AUTHOR_DATE="1700000000 +0000" GIT_COMMITTER_DATE="1700000000 +0000" GIT_CONFIG_NOSYSTEM=1
    git config --global user.name World; git config --global user.email world@example.org; git config --global init.defaultBranch main
    git init -q origin && cp -r "$WORLD/sed/." origin/ && cd origin && git add -A . && git commit -qm "all of it" && cd ..
    for n in $(seq 20); do (cd origin && echo "line $n" >>NEWS && git commit -qam "change $n"); done
    git clone -q --no-local origin copy && cd copy && git log --oneline | head -25
    git checkout -qb side HEAD~10 && echo side >side && git add side && git commit -qm side && git checkout -q main
    git merge -q -m merged side && git log --graph --oneline | head -30
    git checkout -qb again HEAD~3 && echo more >>side; git add side; git commit -qm more && git rebase -q main && git diff --stat main
    git grep -c regex -- '*.c' | head -20
    git stash list; git blame -s NEWS | tail -5
    git repack -qad --depth=50 --window=20 && git gc -q --prune=now && git fsck --full 2>&1 && git count-objects -v | grep -E '^(count|packs|in-pack)'
    git archive HEAD | sha256sum
    echo "exit $?"
}
main "$@"
