// What was found in a trace: charts and tables for each question.

const { question, answer } = data;

/** A place in words, as much as is known of it. */
function placeOf(at) {
  const parts = [];
  if (at.file && at.line) parts.push(`${fileName(at.file)}:${at.line}`);
  parts.push(at.function ?? (at.address !== undefined ? hex(at.address) : '?'));
  if (at.module) parts.push(`[${fileName(at.module).replace(/^\[|\]$/g, '')}]`);
  return parts.join(' ');
}
const placeTitle = at => [at.function, at.file && `${at.file}:${at.line}`, at.module, at.address !== undefined && hex(at.address)].filter(Boolean).join('\n');

const wherecolumn = list => ({ name: 'where', title: 'where', wide: true, cell: i => el('span', { title: placeTitle(list[i]) }, placeOf(list[i])), sort: i => placeOf(list[i]).toLowerCase() });

/** A column of numbers. */
const numbers = (name, title, list, amount, more) => ({ name, title, number: true, cell: i => grouped(amount(list[i])), sort: i => value(amount(list[i])), ...more });

/** A column of numbers with a bar each. */
function barred(name, title, list, amount, more) {
  const most = Math.max(1, ...list.map(each => value(amount(each))));
  return { ...numbers(name, title, list, amount, more), cell: i => [bar(Math.max(0, value(amount(list[i]))) / most), grouped(amount(list[i]))] };
}

/** A view that is a table of places. */
function addTable(name, title, list, columns, order, intro) {
  if (!list || !list.length) return;
  addView(name, title, (main, part, options) => put(main, el('h1', {}, title), intro && note(intro),
    tableView({ label: title, columns: [...columns, wherecolumn(list)], count: list.length, text: i => `${placeOf(list[i])} ${list[i].module || ''}`, order, state: options }, 'Filter by function, file or module (/)').whole));
}

function lead() {
  return el('p', { class: 'lead' }, el('code', {}, data.trace), (answer.builds || []).slice(0, 4).map(build => ` · ${fileName(build.path)}`));
}

// ---- cache ----

function cachePage() {
  const { caches, total, functions, lines } = answer;
  const words = cache => `${bytes(cache.size)}, ${several(cache.ways, 'way')}, lines of ${cache.line} bytes`;
  const hasSecond = caches.l2 !== null && caches.l2 !== undefined;
  const kinds = [['code', 'code'], ['reads', 'reads'], ['writes', 'writes']];
  addView('overview', 'Overview', main => put(main,
    el('h1', {}, 'Cache misses'), lead(),
    tiles(
      tile('Instructions', short(total.code.accesses), `${percent(total.code.l1_misses, total.code.accesses)} miss L1`),
      tile('Reads', short(total.reads.accesses), `${percent(total.reads.l1_misses, total.reads.accesses)} miss L1`),
      tile('Writes', short(total.writes.accesses), `${percent(total.writes.l1_misses, total.writes.accesses)} miss L1`),
      tile('Last level', short(Number(total.code.ll_misses) + Number(total.reads.ll_misses) + Number(total.writes.ll_misses)), 'misses')),
    el('div', { class: 'columns' },
      card('Misses by level', columnChart({
        label: 'Misses by level and kind of access', format: short,
        columns: [['L1', 'l1_misses'], ...(hasSecond ? [['L2', 'l2_misses']] : []), ['last', 'll_misses']].map(([name, key]) => ({
          name, parts: kinds.map(([kind, what], shade) => ({ amount: total[kind][key], shade: [0, 2, 4][shade], name: what })) })),
      }), el('ul', { class: 'keys' }, kinds.map(([, what], i) => el('li', {}, el('span', { class: `swatch shade-${[0, 2, 4][i]}`, 'aria-hidden': 'true' }), what)))),
      card('Altogether', plainTable('Altogether', [['what'], ['accesses', true], ['L1 misses', true], ...(hasSecond ? [['L2 misses', true]] : []), ['last-level misses', true]],
        kinds.map(([kind, what]) => [what, grouped(total[kind].accesses), grouped(total[kind].l1_misses), ...(hasSecond ? [grouped(total[kind].l2_misses)] : []), grouped(total[kind].ll_misses)])),
      note(`Code ${words(caches.l1i)}; data ${words(caches.l1d)}; ${hasSecond ? `second level ${words(caches.l2)}; ` : ''}last level ${words(caches.ll)}.`))),
    card('Functions that miss most', bars([...functions].sort((a, b) => dataMisses(b) - dataMisses(a)).slice(0, 15).map(each => ({ name: placeOf(each), amount: dataMisses(each), text: grouped(dataMisses(each)), title: placeTitle(each) })), 'Functions that miss most'), note('First-level misses of code and data together.'))));
  const columns = list => [
    barred('l1d', 'L1d misses', list, each => Number(each.reads.l1_misses) + Number(each.writes.l1_misses)),
    numbers('lld', 'LLd misses', list, each => Number(each.reads.ll_misses) + Number(each.writes.ll_misses), { minor: 1 }),
    numbers('l1i', 'L1i misses', list, each => each.code.l1_misses, { minor: 1 }),
    numbers('lli', 'LLi misses', list, each => each.code.ll_misses, { minor: 2 }),
    numbers('insns', 'instructions', list, each => each.code.accesses, { minor: 2 }),
  ];
  addTable('functions', 'By function', functions, columns(functions), ['l1d', true]);
  addTable('lines', 'By line', lines, columns(lines), ['l1d', true]);
}
const dataMisses = each => Number(each.code.l1_misses) + Number(each.reads.l1_misses) + Number(each.writes.l1_misses);

// ---- reuse ----

function reusePage() {
  const { block, total, functions, lines, instructions } = answer;
  let left = Number(total.touches) - Number(total.first);
  const missed = total.distances.map(distance => { left -= Number(distance.touches); return [Number(distance.below) * block, Number(total.first) + left]; });
  addView('overview', 'Overview', main => put(main,
    el('h1', {}, 'Reuse distances'), lead(),
    tiles(tile('Touches', short(total.touches), `of blocks of ${several(block, 'byte')}`), tile('First touches', short(total.first), percent(total.first, total.touches)),
      tile('Distinct memory', bytes(Number(total.first) * block))),
    card('How much else is touched before the same block is touched again', columnChart({
      label: 'Touches by distance', format: short, axisLabel: 'bytes touched in between, below',
      columns: total.distances.map(distance => ({ name: bytes(Number(distance.below) * block), parts: [{ amount: distance.touches, shade: 0, text: `${grouped(distance.touches)} touches, ${percent(distance.touches, total.touches)}` }] })),
    })),
    card('What a cache of that size would not have', columnChart({
      label: 'Share of touches that a fully associative cache would miss, by its size', format: at => `${at.toFixed(0)} %`, axisLabel: 'size of a cache that keeps what was touched last',
      columns: missed.map(([size, misses]) => ({ name: bytes(size), parts: [{ amount: 100 * misses / (Number(total.touches) || 1), shade: 4, text: percent(misses, total.touches) }] })),
    }))));
  const columns = list => [barred('touches', 'touches', list, each => each.touches), numbers('first', 'first', list, each => each.first, { minor: 1 }),
    numbers('far', 'far', list, each => farTouches(each, block), { help: 'touches that a cache of 32 KiB would not have' })];
  addTable('functions', 'By function', functions, columns(functions), ['touches', true], 'far: touches that a cache of 32 KiB would not have.');
  addTable('lines', 'By line', lines, columns(lines), ['touches', true]);
  addTable('instructions', 'By instruction', instructions, columns(instructions), ['touches', true]);
}
const farTouches = (each, block) => Number(each.first) + each.distances.filter(distance => Number(distance.below) * block > 32768).reduce((sum, distance) => sum + Number(distance.touches), 0);

// ---- working set ----

function workingSetPage() {
  const { line, window: length, processes, threads } = answer;
  addView('overview', 'Overview', main => put(main,
    el('h1', {}, 'Working set'), lead(), note(`Lines of ${several(line, 'byte')}, windows of ${several(length, 'instruction')}.`),
    card('Altogether', plainTable('Altogether', [['process'], ['data', true], ['lines', true], ['pages', true], ['code', true], ['lines', true], ['pages', true]],
      processes.map(each => [String(each.process), bytes(each.data.lines * line), grouped(each.data.lines), grouped(each.data.pages), bytes(each.code.lines * line), grouped(each.code.lines), grouped(each.code.pages)]))),
    threads.slice(0, 24).map(thread => card(`Thread ${thread.thread} of process ${thread.process}`, lineChart({
      label: `Memory in use over time, thread ${thread.thread}`, formatX: short, formatY: bytes, binary: true, axisLabel: 'instructions',
      series: [['data', 0], ['code', 4]].map(([name, shade]) => ({ name, shade, points: pointsOf(thread.windows, name, line) })),
    }))),
    threads.length > 24 && note(`${several(threads.length - 24, 'thread')} more in the table.`)));
  const windows = threads.flatMap(thread => thread.windows.map(each => ({ ...each, thread: thread.thread, process: thread.process })));
  const columns = [
    numbers('from', 'from instruction', windows, each => each.instruction), barred('data', 'data, bytes', windows, each => each.data.lines * line), numbers('datapages', 'data, pages', windows, each => each.data.pages, { minor: 1 }),
    barred('code', 'code, bytes', windows, each => each.code.lines * line), numbers('codepages', 'code, pages', windows, each => each.code.pages, { minor: 2 }),
    { name: 'thread', title: 'thread', wide: true, cell: i => `${windows[i].thread} of process ${windows[i].process}`, sort: i => windows[i].thread },
  ];
  addView('windows', 'Windows', (main, part, options) => put(main, el('h1', {}, 'Windows'),
    tableView({ label: 'Windows', columns, count: windows.length, text: i => `thread ${windows[i].thread} process ${windows[i].process}`, order: ['from', false], state: options }, 'Filter by thread (/)').whole));
}

/** The last window holds up to its end. */
function pointsOf(windows, name, line) {
  const points = windows.map(each => [Number(each.instruction), each[name].lines * line]);
  const last = windows[windows.length - 1];
  return last ? [...points, [Number(last.instruction) + Number(last.instructions), last[name].lines * line]] : points;
}

// ---- races ----

function racesPage() {
  const { races, is_hurried: hurried, forgotten_pages: forgotten } = answer;
  const frame = (at, words) => el('li', {}, words && el('small', {}, `${words} `), el('code', { title: placeTitle(at) }, at.function ?? '?'), at.file && el('span', { class: 'where' }, ` ${at.file}:${at.line}`),
    el('small', {}, ` ${at.module ? fileName(at.module) : ''} ${at.address !== undefined ? hex(at.address) : ''}`));
  addView('overview', 'Races', (main, part, options) => {
    put(main, el('h1', {}, several(races.length, 'race')), lead(),
      !races.length && note('No two accesses of different threads were found that nothing brings in order.'),
      hurried && note(el('strong', {}, 'Threads were so far apart that their order may be wrong.')),
      forgotten > 0 && note(el('strong', {}, `There was so much memory that the past of ${several(forgotten, 'page')} had to be forgotten: races may be missing.`)));
    const filter = el('input', { type: 'search', 'aria-label': 'Filter races', placeholder: 'Filter by variable, function or file (/)', value: options.q || '', oninput: () => { remember({ q: filter.value }); draw(); } });
    const list = el('div');
    const all = races.map(race => [race, JSON.stringify(race).toLowerCase()]);
    function draw() {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      const found = all.filter(([, text]) => words.every(word => text.includes(word))).map(([race]) => race);
      list.replaceChildren(...found.slice(0, 500).map(race => el('section', { class: 'card race' },
        el('h2', { class: 'code' }, race.variable ?? hex(race.address), el('small', {}, ` ${several(race.times, 'time')}, at ${hex(race.address)} of process ${race.process}`)),
        el('div', { class: 'columns' }, race.sides.map(side => el('div', { class: 'access' },
          el('h3', {}, el('span', { class: `chip shade-${side.access === 'write' ? 5 : 0}` }, side.access === 'write' ? 'write' : 'read'), ` thread ${side.thread}`),
          el('ol', { class: 'frames' }, frame(side), (side.stack.length ? side.stack : side.caller ? [side.caller] : []).map(caller => frame(caller, 'called from')))))))));
      if (found.length > 500) put(list, note(`The first 500 of ${grouped(found.length)} are shown; filter to see others.`));
    }
    if (races.length) put(main, el('div', { class: 'controls' }, filter), list);
    shell.filter = races.length ? filter : null;
    draw();
  });
}

function disciplinePage() {
  const { checked, accesses } = answer;
  addView('overview', 'Overview', main => put(main, el('h1', {}, 'Accesses without their lock'), lead(),
    tiles(tile('Accesses to guarded data', short(checked), grouped(checked)), tile('Places without a lock', grouped(accesses.length)))));
  addTable('accesses', 'Accesses', accesses, [numbers('times', 'times', accesses, each => each.times),
    { name: 'what', title: 'what', cell: i => (accesses[i].is_write ? 'write' : 'read'), sort: i => Number(accesses[i].is_write) },
    { name: 'guard', title: 'guard', cell: i => (answer.guards || [])[accesses[i].guard] ?? String(accesses[i].guard), sort: i => accesses[i].guard },
    { name: 'threads', title: 'threads', minor: 1, cell: i => accesses[i].threads.join(', '), sort: i => accesses[i].threads.length },
    { name: 'caller', title: 'called from', minor: 2, cell: i => (accesses[i].caller ? placeOf(accesses[i].caller) : '–'), sort: i => (accesses[i].caller ? placeOf(accesses[i].caller) : '') }], ['times', true]);
}

// ---- mix, strides, hot paths ----

function mixPage() {
  const { total, categories, mnemonics, modules, functions } = answer;
  const sorts = (title, list) => card(title, bars(list.slice(0, 24).map(each => ({ name: each.name, amount: value(each.instructions), text: percent(each.instructions, total.instructions), title: grouped(each.instructions) })), title));
  addView('overview', 'Overview', main => put(main, el('h1', {}, 'Instructions'), lead(),
    tiles(tile('Instructions', short(total.instructions), grouped(total.instructions)), tile('Loads', short(total.loads)), tile('Stores', short(total.stores)), tile('Branches', short(total.branches)), tile('Calls', short(total.calls))),
    el('div', { class: 'columns' }, sorts('By sort', categories), sorts('By name', mnemonics))));
  const columns = list => [barred('instructions', 'instructions', list, each => each.instructions),
    ...['loads', 'stores', 'branches', 'calls'].map((name, i) => numbers(name, name, list, each => each[name], { minor: i < 2 ? 1 : 2 }))];
  addTable('modules', 'By module', modules, columns(modules), ['instructions', true]);
  addTable('functions', 'By function', functions, columns(functions), ['instructions', true]);
}

function stridesPage() {
  const { patterns, accesses } = answer;
  const parts = Object.entries(patterns).map(([name, sum]) => ({ name, amount: sum.times }));
  addView('overview', 'Overview', main => put(main, el('h1', {}, 'Strides'), lead(),
    tiles(tile('Accesses', short(parts.reduce((sum, part) => sum + Number(part.amount), 0))), tile('Places in the code', grouped(accesses.length))),
    card('By pattern', shares(parts, 'Accesses by pattern')),
    card('Loads and stores that happen most', bars(accesses.slice(0, 15).map(each => ({ name: placeOf(each), amount: Number(each.loads) + Number(each.stores), text: each.pattern, title: placeTitle(each) })), 'Loads and stores that happen most'))));
  addTable('accesses', 'Accesses', accesses, [barred('times', 'times', accesses, each => Number(each.loads) + Number(each.stores)),
    { name: 'what', title: 'what', minor: 1, cell: i => (Number(accesses[i].stores) ? 'store' : 'load'), sort: i => Number(accesses[i].stores) },
    { name: 'pattern', title: 'pattern', cell: i => accesses[i].pattern, sort: i => accesses[i].pattern },
    { name: 'strides', title: 'strides', minor: 1, cell: i => accesses[i].strides.slice(0, 3).map(each => `${Number(each.bytes) > 0 ? '+' : ''}${each.bytes}`).join(', '), sort: i => (accesses[i].strides.length ? Number(accesses[i].strides[0].bytes) : 0) }], ['times', true]);
}

function pathsPage() {
  const { instructions, paths } = answer;
  addView('overview', 'Paths', main => put(main, el('h1', {}, 'Hot paths'), lead(), tiles(tile('Instructions', short(instructions), grouped(instructions)), tile('Paths', grouped(paths.length))),
    paths.slice(0, 100).map(path => card(`${percent(path.instructions, instructions)}: a ${path.is_loop ? 'loop' : 'path'}, ${several(path.times, 'time')}`,
      el('ol', { class: 'path' }, path.units.map(unit => el('li', {}, el('span', { class: 'amount' }, several(unit.instructions, 'instruction')), ' ', el('code', { title: placeTitle(unit) }, placeOf(unit)))))))));
}

function start() {
  const pages = { cache: cachePage, reuse: reusePage, 'working-set': workingSetPage, races: racesPage, discipline: disciplinePage, mix: mixPage, strides: stridesPage, 'hot-paths': pathsPage };
  pages[question]();
  openShell(`${question} of ${fileName(data.trace)}`, `${data.trace} – relive ${data.version}`);
}
