# python3: 90 modules of its own tests
. "$(dirname "$0")/common.sh"
set_up() { packages python3.11 libpython3.11-testsuite; }
MODULES="test___all__ test_abc test_array test_ast test_asyncgen test_atexit test_base64 test_bigmem test_binascii test_bisect test_bool
 test_buffer test_bytes test_bz2 test_calendar test_call test_capi test_class test_cmath test_codecs test_collections test_compile test_complex
 test_configparser test_contextlib test_copy test_coroutines test_csv test_ctypes test_datetime test_decimal test_deque test_descr test_dict
 test_difflib test_dis test_email test_enum test_exceptions test_fcntl test_file test_float test_fork1 test_fractions test_frame test_functools
 test_gc test_generators test_gzip test_hashlib test_heapq test_inspect test_int test_io test_itertools test_json test_list test_logging
 test_long test_lzma test_marshal test_math test_memoryview test_mmap test_multiprocessing_fork test_operator test_os test_pickle test_posix
 test_pty test_queue test_random test_re test_sched test_select test_selectors test_set test_shelve test_signal test_socket test_sort
 test_sqlite test_statistics test_str test_struct test_subprocess test_syntax test_sys test_sys_settrace test_tarfile test_tempfile test_thread
 test_threading test_threadsignals test_time test_tokenize test_traceback test_types test_typing test_unicode test_unittest test_wait3
 test_wait4 test_weakref test_xml_etree test_zipfile test_zlib"
run() {
    mkdir t && TMPDIR="$PWD/t" /usr/bin/python3.11 -m test --timeout 600 $MODULES >log 2>&1
    echo "exit $?"
    # Which passed, which did not, and what of them; not when.
    sed -nE -e 's/^[0-9:. ]*load avg: [0-9.]+ //' -e 's/^[0-9:]+ //' -e '/^\[.*\] test_/s/^\[[^]]*\] //p' -e '/^(FAIL|ERROR): /p' -e '/^[0-9]+ tests? /,/^$/p' log |
        sed -E 's/ \([0-9.]+ (sec|min).*\)//' | sort
}
main "$@"
