#!/usr/bin/env python3
"""Instruments programs with and without annotations, runs their workloads, and compares. They are built by `relive cc`; without
means the same file without its section .annotate. Once with symbols, once stripped of everything but annotations. In turn, the best
of several runs counts, user and system time.
usage: CORPUS_DIR=dir annotated-counts.py [--relive FILE] [--runs N | --instructions] [--fixed-heap] [--cc "gcc -O2"] [--keep DIR] program...
--instructions: what executes is counted by callgrind instead of timed, once and with symbols only: that tells small differences, and
what else the machine does makes none.
--fixed-heap: memory is had at addresses that do not depend on how large the file is (drivers/fixed_heap.c): lua hashes them.
--keep: builds stay in DIR, and are not made again; with --runs 0 nothing else is done.
`hard` is no program of the corpus: functions that analysis alone does not understand (crates/cli/tests/programs/hard.c).
A table: functions left as they are, counters, slowdown, each without and with annotations; blocks that both count, how many of them
vary from run to run of the same file, and how many of the others differ. Exit status: 1 if any does, or if with annotations more functions are left or there are more counters."""
import argparse, os, re, shutil, subprocess, sys, tempfile

here = os.path.dirname(os.path.realpath(__file__))
options = argparse.ArgumentParser()
options.add_argument('--relive', default=here + '/../../target/release/relive')
options.add_argument('--runs', type=int, default=5)
options.add_argument('--instructions', action='store_true')
options.add_argument('--fixed-heap', action='store_true')
options.add_argument('--cc', default='gcc -O2')
options.add_argument('--keep')
options.add_argument('programs', nargs='+')
options = options.parse_args()
relive, corpus = os.path.realpath(options.relive), os.path.realpath(os.environ['CORPUS_DIR'])
scratch = tempfile.mkdtemp(prefix='annotated-counts-')
RUNNER = '''import os, sys
child = os.fork()
if not child: os.execv(sys.argv[2], sys.argv[2:])
_, status, used = os.wait4(child, 0)
open(sys.argv[1], 'a').write('%f\\n' % (used.ru_utime + used.ru_stime))
sys.exit(os.waitstatus_to_exitcode(status) & 255)
'''
# Only the program itself: what it starts goes without.
COUNTING_RUNNER = '''import os, re, subprocess, sys
counts = sys.argv[1] + '.callgrind'
child = os.fork()
if not child: os.execvp('valgrind', ['valgrind', '-q', '--tool=callgrind', '--callgrind-out-file=' + counts] + sys.argv[2:])
_, status = os.waitpid(child, 0)
open(sys.argv[1], 'a').write(re.search(r'^(?:totals|summary): (\\d+)', open(counts).read(), re.M).group(1) + '\\n')
sys.exit(os.waitstatus_to_exitcode(status) & 255)
'''
runner = scratch + '/runner.py'
open(runner, 'w').write(COUNTING_RUNNER if options.instructions else RUNNER)
if options.instructions:
    options.runs = 1


def call(*command, **more):
    ran = subprocess.run(command, check=True, capture_output=True, text=True, **more)
    return ran.stdout + ran.stderr


heap = {}
if options.fixed_heap:
    heap['LD_PRELOAD'] = scratch + '/fixed_heap.so'
    call('gcc', '-O1', '-shared', '-fPIC', here + '/drivers/fixed_heap.c', '-o', heap['LD_PRELOAD'])


def version(program):
    return next(line.split('\t')[1] for line in open(here + '/accuracy.tsv') if line.startswith(program + '\t'))


def build(program, out):
    """As recipes.sh does it, by way of `relive cc`."""
    compiler, *flags = options.cc.split()
    if program == 'hard':
        call(relive, 'cc', '--', compiler, *flags, '-w', here + '/../../crates/cli/tests/programs/hard.c', '-o', out)
        return
    plus = compiler.replace('gcc', 'g++').replace('clang', 'clang++')
    script = '''set -u; . "$here/recipes.sh"; S=$C/src B=$C/bin I=$C/inputs W=$C/work D=$here/drivers cfg=annotated asm=$T
cc() { "$relive" cc -- %s "$@" %s -w; }; cxx() { "$relive" cc -- %s "$@" %s -w; }
cd "$S/$prog/$v" && build_$prog''' % (compiler, ' '.join(flags), plus, ' '.join(flags))
    call('bash', '-c', script, env=dict(os.environ, here=here, C=corpus, T=scratch, relive=relive, prog=program,
                                        v=version(program), out=out))


def instrument(binary, out):
    """Functions left as they are, and counters."""
    text = call(relive, 'instrument', binary, '-o', out)
    left = text.split('left as they are:')[1] if 'left as they are:' in text else ''
    left = sum(int(line.split()[0].replace(',', '')) for line in left.splitlines() if re.match(r' +[\d,]+ ', line))
    return left, int(re.search(r'^counters +([\d,]+)', text, re.M).group(1).replace(',', ''))


def timed(program, binary, profile):
    """Seconds that the workload takes with that file in the program's place, or instructions, and what it prints."""
    stage, times = '%s/stage/%s' % (scratch, program), scratch + '/times'
    os.makedirs(os.path.dirname(stage), exist_ok=True)
    shutil.copy(binary, stage)
    for old in (times, profile):
        if os.path.exists(old):
            os.remove(old)
    script = '%s/workloads/%s.sh' % (here, program)
    work = ['bash', script, 'train']
    if program == 'hard':
        work = [sys.executable, runner, times, stage]
    ran = subprocess.run(work, cwd=scratch, stdin=subprocess.DEVNULL,
                         capture_output=True, env=dict(os.environ, CORPUS_DIR=corpus, BIN=stage, TMPDIR=scratch, RELIVE_PROFILE=profile,
                                                       RUNNER='%s %s %s' % (sys.executable, runner, times), **heap))
    return sum(map(float, open(times))), (ran.returncode, ran.stdout)


def ratio(best, name):
    """Times too short to tell anything are none."""
    if options.instructions:
        return '%.4f' % (best[name] / best['native'])
    return '%.2f' % (best[name] / best['native']) if best['native'] > 0.05 else '-'


def counts(profile):
    """Of each block that is counted, by address."""
    header, *rows = call(relive, 'dump', '--blocks', profile).splitlines()
    names = header.split('\t')
    at, count = names.index('address'), names.index('count')
    rows = (row.split('\t') for row in rows)
    return {row[at]: row[count] for row in rows if row[count] != '-'}


print('program\tfile\tleft without\twith\tcounters without\twith\tslowdown without\twith\tblocks\tvary\tdiffer', flush=True)
wrong = 0
for program in options.programs:
    built = '%s/%s' % (options.keep or scratch, program)
    if not os.path.exists(built):
        os.makedirs(os.path.dirname(built), exist_ok=True)
        build(program, built)
    if not options.runs:
        continue
    for kind, strip in (('symbols', []), ('stripped', ['-s']))[:1 if options.instructions else 2]:
        files = {name: '%s/%s.%s' % (scratch, kind, name) for name in ('native', 'without', 'with')}
        subprocess.run(['strip', *(strip or ['--strip-debug']), '-o', scratch + '/with', built], check=True)
        subprocess.run(['objcopy', '-R', '.annotate', scratch + '/with', files['native']], check=True)
        left = {'without': instrument(files['native'], files['without']), 'with': instrument(scratch + '/with', files['with'])}
        best, shown, seen = {}, {}, {'without': {}, 'with': {}}
        # One name: the stack lies where it does for what is in the environment, and lua hashes where a text lies.
        profile = scratch + '/counts.rprof'
        for _ in range(options.runs):
            for name, file in files.items():
                seconds, output = timed(program, file, profile)
                best[name] = min(seconds, best.get(name, seconds))
                for at, count in counts(profile).items() if name in seen else ():
                    seen[name].setdefault(at, set()).add(count)
                if shown.setdefault(program, output) != output:
                    print('%s %s: another output' % (program, name), file=sys.stderr)
                    wrong += 1
        both = seen['without'].keys() & seen['with'].keys()
        # Where things lie in memory is part of what some programs compute with.
        steady = [at for at in both if all(len(seen[name][at]) == 1 for name in seen)]
        differ = sum(seen['without'][at] != seen['with'][at] for at in steady)
        wrong += differ + (left['with'][0] > left['without'][0]) + (left['with'][1] > left['without'][1] and left['with'][0] == left['without'][0])
        print('%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%d\t%d\t%d' % (
            program, kind, left['without'][0], left['with'][0], left['without'][1], left['with'][1],
            ratio(best, 'without'), ratio(best, 'with'), len(both), len(both) - len(steady), differ), flush=True)
shutil.rmtree(scratch)
sys.exit(1 if wrong else 0)
