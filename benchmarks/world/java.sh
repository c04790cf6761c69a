# java: javac, and a program with threads, garbage and null pointers, compiled just in time
. "$(dirname "$0")/common.sh"
set_up() { packages openjdk-17-jdk-headless; }
run() {
    cp "$(dirname "$SELF")/programs/World.java" . && javac -d classes World.java
    echo "exit $?"
    for collector in Serial Parallel G1; do java -Xmx256m -XX:+Use${collector}GC -cp classes World; echo "$collector: exit $?"; done
}
main "$@"
