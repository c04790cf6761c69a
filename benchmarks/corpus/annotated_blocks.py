#!/usr/bin/env python3
"""Sets the blocks that section .annotate describes against those of clang's own map (-fbasic-block-address-map).
Reads the section by docs/annotate-format.md, the map by llvm-readobj; shares no code with relive.
usage: annotated_blocks.py BINARY
Prints: blocks in the map, and how many of them are described otherwise or not at all. Exit status: 1 if any is.
Blocks of the map need not be entered at their start only and left at their end only. So one that ends with a branch and a jump
is two, one with branches of a programmer's own (asm) more, one that nothing but the block before it leads to is part of that, and an empty one is none."""
import bisect, json, struct, subprocess, sys


def number(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def records(data, at, end):
    while at < end:
        kind, (size, at) = data[at], number(data, at + 1)
        yield kind, data[at:at + size]
        at += size


def described(data):
    """Start and end of each block."""
    at, blocks = 0, set()
    while at < len(data):
        if data[at] == 0:
            at += 1
            continue
        assert data[at:at + 2] == b'An' and data[at + 2] == 1, 'no chunk at %#x' % at
        size, at = number(data, at + 3)
        code, end = int.from_bytes(data[at:at + 8], 'little'), at + size
        pieces, place = [], code  # start, end, record of blocks
        for kind, payload in records(data, at + 8, end):
            i = 0
            while kind == 2 and i < len(payload):
                away, i = number(payload, i)
                length, i = number(payload, i)
                pieces.append([place + away, place + away + length, b''])
                place, i = place + away + length, i + 4
            if kind == 3:
                pieces[-1][2] = payload
        for start, behind, payload in pieces:
            i = 0
            while i < len(payload):
                length, i = number(payload, i)
                gap, i = number(payload, i) if length & 1 else (0, i)
                if length >> 1:
                    blocks.add((start, start + (length >> 1)))
                start += (length >> 1) + gap
            if start < behind:
                blocks.add((start, behind))
        at = end
    return blocks


def mapped(binary):
    """Start and end of each block that is not empty."""
    run = ['llvm-readobj-19', '--bb-addr-map', '--elf-output-style=JSON', binary]
    text = subprocess.run(run, check=True, capture_output=True, text=True).stdout
    ranges = [r for f in json.loads(text)[0]['BBAddrMap'] for r in f['Function']['BB Ranges']]
    starts = [(r['Base Address'] + e['Offset'], e['Size']) for r in ranges for e in r['BB Entries']]
    return {(at, at + size) for at, size in starts if size}


def section(binary):
    """The bytes of .annotate. Tools that copy sections mind that it is linked to others."""
    file = open(binary, 'rb').read()
    at, (size, count, names) = int.from_bytes(file[0x28:0x30], 'little'), struct.unpack_from('<3H', file, 0x3a)
    headers = [struct.unpack_from('<2I4Q2I2Q', file, at + i * size) for i in range(count)]
    for name, _, _, _, start, length, *_ in headers:
        if file[headers[names][4] + name:].startswith(b'.annotate\0'):
            return file[start:start + length]
    sys.exit(binary + ': no section .annotate')


def instructions(binary):
    """Where each begins and which comes before it; what jumps, branches, calls and ends are; where they lead."""
    before, leaves, calls, targets, last = {}, set(), set(), set(), None
    text = subprocess.run(['objdump', '-d', '--no-show-raw-insn', binary], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        place, tab, rest = line.partition(':\t')
        if not tab:
            last = None
            continue
        words = rest.split('#')[0].split()
        while words and words[0] in ('bnd', 'notrack', 'data16', 'rep', 'repz', 'cs'):
            words.pop(0)
        at = int(place, 16)
        before[at], last = last, at
        if words and (words[0][0] == 'j' or words[0].startswith(('ret', 'call', 'ud', 'loop', 'hlt', 'int3'))):
            leaves.add(at)
            if words[0].startswith('call'):
                calls.add(at)
            elif len(words) > 1:
                try:
                    targets.add(int(words[1], 16))
                except ValueError:
                    pass
    return before, leaves, calls, targets


binary = sys.argv[1]
truth, said = mapped(binary), described(section(binary))
before, leaves, calls, targets = instructions(binary)
ends, ours = leaves - calls, sorted(said)
wrong = []
for at, end in sorted(truth):
    # What is described of it: from the block that holds its first byte on.
    first = bisect.bisect_right(ours, (at, 1 << 64)) - 1
    parts = [block for block in ours[max(first, 0):first + 1 + end - at] if block[0] < end and at < block[1]]
    covered = parts and parts[0][0] <= at and parts[-1][1] >= end and all(a[1] == b[0] for a, b in zip(parts, parts[1:]))
    # More than one where control may leave it half-way or come in, as it does in assembler that somebody wrote into it; one with the
    # block before where it only goes on.
    split = all(before.get(start) in leaves or start in targets for start, _ in parts[1:])
    joined = parts and (parts[0][0] == at or at not in targets and before.get(at) not in ends)
    if not (covered and split and joined):
        wrong.append(('%#x-%#x' % (at, end), ' '.join('%#x-%#x' % block for block in parts) or 'nothing'))
for block, described in wrong[:5]:
    print('  %s in the map; described: %s' % (block, described), file=sys.stderr)
print('%d\t%d' % (len(truth), len(wrong)))
sys.exit(1 if wrong else 0)
