# python3: 68 modules of its own tests
. "$(dirname "$0")/common.sh"
set_up() { packages python3.11 libpython3.11-testsuite; }
MODULES="test_abc test_array test_atexit test_base64 test_binascii test_bisect test_bool test_calendar test_call test_class test_cmath test_collections
 test_complex test_configparser test_contextlib test_copy test_coroutines test_csv test_ctypes test_deque test_dict test_difflib test_dis
 test_enum test_exceptions test_fcntl test_file test_float test_fork1 test_fractions test_frame test_functools test_generators test_heapq
 test_inspect test_int test_itertools test_json test_list test_marshal test_math test_memoryview test_mmap test_operator test_os test_posix
 test_pty test_queue test_re test_sched test_select test_set test_signal test_sort test_struct test_syntax test_sys_settrace test_thread
 test_threading test_threadsignals test_time test_tokenize test_traceback test_types test_wait3 test_wait4 test_weakref test_zlib"
run() {
    mkdir t && TMPDIR="$PWD/t" /usr/bin/python3.11 -m test --timeout 600 $MODULES >log 2>&1
    echo "exit $?"
    # Which passed, which did not, and what of them; not when.
    sed -nE -e 's/^[0-9:. ]*load avg: [0-9.]+ //' -e 's/^[0-9:]+ //' -e '/^\[.*\] test_/s/^\[[^]]*\] //p' -e '/^(FAIL|ERROR): /p' -e '/^[0-9]+ tests? /,/^$/p' log |
        sed -E 's/ (--|\().*//' | sort
}
main "$@"
