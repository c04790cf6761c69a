#!/usr/bin/env python3
"""Programs of gcc's own tests, each with flags drawn at random, by gcc or clang alone and by `relive cc`: the same code, every function
understood, nothing disbelieved, and instrumented (and verified) they do what they did.
usage: annotated-programs.py [--relive FILE] [--seconds N] [--seed N] TESTSUITE [FOLDER...]
TESTSUITE is gcc/testsuite of gcc's sources (`apt-get source gcc-12`, in its tarball). Prints what is wrong, with the command that shows
it; how many programs were tried, and how many the compiler alone did not take. Exit status: 1 if anything is wrong."""
import argparse, glob, os, random, re, resource, shutil, subprocess, sys, tempfile, time

here = os.path.dirname(os.path.realpath(__file__))
options = argparse.ArgumentParser()
options.add_argument('--relive', default=here + '/../target/release/relive')
options.add_argument('--seconds', type=float, default=600)
options.add_argument('--seed', type=int, default=1)
options.add_argument('testsuite')
options.add_argument('folders', nargs='*', default=[
    'gcc.c-torture/execute', 'gcc.dg/torture', 'g++.dg/torture', 'g++.dg/eh', 'g++.dg/opt', 'c-c++-common/torture', 'gcc.dg', 'g++.dg/coroutines/torture',
    'gcc.target/i386', 'g++.dg/cpp0x', 'g++.dg/cpp1y', 'g++.dg/cpp2a', 'g++.dg/tree-prof', 'gcc.dg/tree-prof', 'gcc.dg/tree-ssa'])
options = options.parse_args()
relive, dice = os.path.realpath(options.relive), random.Random(options.seed)

LEVELS = '-O0 -O1 -O2 -O3 -Os -Og -Ofast'.split()
BOTH = '''-fPIC;-fno-pie -no-pie;-ffunction-sections;-ffunction-sections -Wl,--gc-sections;-flto;-g;-fno-asynchronous-unwind-tables;-fno-plt;-fomit-frame-pointer
-fno-omit-frame-pointer;-fcf-protection=none;-mtune=native;-mavx2;-fno-jump-tables;-fstack-protector-all;-fno-inline;-masm=intel;-funroll-loops;-fwrapv;-ftrapv
-fexceptions;-fnon-call-exceptions;-fno-reorder-blocks;-Wl,--build-id=none;-Wl,-z,noseparate-code;-fno-builtin;-fdata-sections;-fvisibility=hidden;-falign-loops=32
-fno-common;-fcf-protection=full;-fzero-call-used-regs=all;-fpatchable-function-entry=3,1'''
GCC = '''-freorder-blocks-and-partition;-mindirect-branch=thunk -fcf-protection=none;-fno-toplevel-reorder;-fipa-pta;-fprofile-arcs;-fselective-scheduling2
-mindirect-branch=thunk-inline -mfunction-return=thunk-inline -fcf-protection=none;-fharden-compares;-fharden-conditional-branches;-fsplit-stack;-fstack-clash-protection
-fno-reorder-functions;-ftracer;-fuse-ld=gold;-fno-if-conversion -fno-if-conversion2;-fno-crossjumping;-minline-all-stringops;-mstringop-strategy=loop;-fsanitize=undefined
-Wa,-mbranches-within-32B-boundaries;-fkeep-inline-functions;-mno-red-zone;-maccumulate-outgoing-args;-fconserve-stack'''
CLANG = '''-fuse-ld=lld;-fuse-ld=lld -Wl,--icf=all -ffunction-sections;-fno-integrated-as;-fbasic-block-sections=all -fuse-ld=lld;-mllvm -align-all-blocks=4;-mretpoline
-flto=thin -fuse-ld=lld;-fxray-instrument;-mllvm -tail-merge-threshold=1000;-mllvm -enable-tail-merge=0;-mstackrealign;-fsanitize-trap=undefined -fsanitize=undefined
-mharden-sls=all'''
BOTH, GCC, CLANG = (text.replace('\n', ';').split(';') for text in (BOTH, GCC, CLANG))
# What tests ask for that makes no program, or says what to tell of it.
NOT_TAKEN = ('-fdump', '-W', '-pedantic', '-S', '-c', '-save', '-O', '-M', '-E', '-dA', '-flto', '-m32', '-mx32')
ENVIRONMENT = dict(os.environ, SOURCE_DATE_EPOCH='1')


def run(command, seconds=20, **environment):
    """None if it takes too long."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    try:
        return subprocess.run(command, capture_output=True, timeout=seconds, stdin=subprocess.DEVNULL, env=dict(ENVIRONMENT, **environment), preexec_fn=limit)
    except subprocess.TimeoutExpired:
        return None


def ends(ran):
    return ran and (ran.returncode, ran.stdout)


def code(file):
    subprocess.run(['objcopy', '-O', 'binary', '--only-section=.text*', file, file + '.text'], check=True, capture_output=True)
    return open(file + '.text', 'rb').read()


def command_of(source, text):
    """Compiler, flags and files; whether it makes a program that runs."""
    family, plus = dice.choice(['gcc', 'clang']), source.endswith('.C')
    compiler = {'gcc': ['gcc', 'g++'], 'clang': ['clang-19', 'clang++-19']}[family][plus]
    flags = [dice.choice(LEVELS)]
    for _ in range(dice.choice([0, 1, 1, 2, 3])):
        flags += dice.choice(BOTH + (GCC if family == 'gcc' else CLANG)).split()
    asked = re.search(r'dg-(?:additional-)?options "([^"]*)"', text)
    flags += [flag for flag in (asked.group(1).split() if asked else []) if not flag.startswith(NOT_TAKEN)]
    if plus and not any(flag.startswith('-std') for flag in flags):
        flags.append(dice.choice(['-std=c++17', '-std=c++20', '-std=gnu++14']))
    runs = bool(re.search(r'\bmain\s*\(', text)) and 'dg-do compile' not in text and 'dg-do link' not in text
    out = ['-o', 'made'] if runs else ['-shared', '-fPIC', '-o', 'made']
    return [compiler, *flags, '-w', '-I', os.path.dirname(source), source, *out, '-lm'], runs


def check(command, runs):
    """What is wrong with the program that was made; it is `made`, and `plain` by the compiler alone."""
    moves = '-fuse-ld=gold' in command
    ran = run([relive, 'cc', *(['--no-runtime'] if moves else []), '--', *command], 60)
    if not ran or ran.returncode:
        return 'is not built: %s' % (ran and ran.stderr.decode(errors='replace')[-300:])
    if b'relive' in ran.stderr:
        return 'says: ' + ran.stderr.decode(errors='replace')[-300:]
    if code('plain') != code('made'):
        return 'other code'
    ran = run([relive, 'inspect', '--functions', 'made'], 60)
    if not ran or ran.returncode:
        return 'is not inspected'
    for line in ran.stdout.decode(errors='replace').splitlines()[1:]:
        if line.split('\t')[3] != 'understood':
            return 'not understood: ' + line
    ran = run([relive, 'inspect', 'made', '--annotations'], 60)
    if b'not believed' in ran.stdout + ran.stderr:
        return 'not believed'
    ran = run([relive, 'instrument', '--verify', 'made', '-o', 'measured'], 60)
    if ran and ran.returncode and (b'none of its functions' in ran.stderr or b'gs segment' in ran.stderr):
        return None
    if not ran or ran.returncode or b'warning' in ran.stderr:
        return 'is not instrumented: %s' % (ran and ran.stderr.decode(errors='replace')[-300:])
    if runs and ends(run(['./measured'], RELIVE_PROFILE='%p.rprof')) != ends(run(['./plain'])):
        # Some never do the same twice.
        if ends(run(['./plain'])) == ends(run(['./made'])):
            return 'does something else when it is measured'
    return None


sources = sorted(file for folder in options.folders for end in ('c', 'C') for file in glob.glob('%s/%s/*.%s' % (os.path.realpath(options.testsuite), folder, end)))
dice.shuffle(sources)
scratch, end = tempfile.mkdtemp(prefix='annotated-programs-'), time.time() + options.seconds
os.chdir(scratch)
tried = refused = wrong = 0
for source in sources:
    if time.time() > end:
        break
    command, runs = command_of(source, open(source, errors='replace').read())
    alone = run(command)
    if not alone or alone.returncode:
        refused += 1
        continue
    os.rename('made', 'plain')
    tried += 1
    if fault := check(command, runs):
        wrong += 1
        print('%s\n  %s' % (' '.join(command), fault), flush=True)
    for file in os.listdir('.'):
        os.remove(file)
print('programs %d, not taken by the compiler %d, wrong %d' % (tried, refused, wrong))
shutil.rmtree(scratch)
sys.exit(1 if wrong else 0)
