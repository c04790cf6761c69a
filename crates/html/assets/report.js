// A profile: overview, functions, calls, loops, coverage, and where numbers come from.

const rows = data.functions;
const noteOf = new Map((rows.notes || []).map(each => [each.row, each]));
const several_modules = data.modules.length > 1;
const moduleLabel = row => data.modules[rows.module[row]].label.replace(/^\[|\]$/g, '');
const functionLink = (row, tab) => link('function', row, { tab });
const ran = row => value(rows.entries[row]) > 0 || value(rows.instructions[row]) > 0;
const shareOfAll = row => (rows.instructions[row] === null ? '–' : percent(rows.instructions[row], data.instructions));
const callsFrom = new Map();
const callsTo = new Map();
data.calls.forEach((call, i) => {
  const [from, to] = call;
  if (!callsFrom.has(from)) callsFrom.set(from, []);
  callsFrom.get(from).push(i);
  if (to === null) return;
  if (!callsTo.has(to)) callsTo.set(to, []);
  callsTo.get(to).push(i);
});

function functionName(row, tab) {
  return el('a', { href: functionLink(row, tab), title: rows.name[row] }, rows.name[row]);
}

// ---- overview ----

function overview(main) {
  const executed = data.modules.reduce((sum, module) => sum + module.functions.executed, 0);
  const measured = data.modules.reduce((sum, module) => sum + module.functions.measured, 0);
  const blocks = data.modules.reduce((sum, module) => [sum[0] + module.blocks.executed, sum[1] + module.blocks.measured], [0, 0]);
  const hottest = hottestRows(12);
  put(main, el('h1', {}, fileName(data.profile)),
    el('p', { class: 'lead' }, data.modules.slice(0, 1).map(module => [
      el('code', {}, module.path), ` · ${several(module.runs, 'run')} · ${module.mode} counted`, measuredAt(module)]).flat(),
    several_modules && ` · and ${several(data.modules.length - 1, 'other module')}`),
    tiles(
      tile('Instructions', short(data.instructions), grouped(data.instructions)),
      tile('Functions that ran', grouped(executed), `${percent(executed, measured)} of ${grouped(measured)}`),
      tile('Blocks that ran', grouped(blocks[0]), `${percent(blocks[0], blocks[1])} of ${grouped(blocks[1])}`),
      tile('Loops that ran', grouped(data.loops.length)),
      tile('Calls between functions', grouped(data.calls.length), 'pairs')),
    data.carried && originsCard(true),
    el('div', { class: 'columns' },
      card('Hottest functions',
        bars(hottest.map(row => ({ name: rows.name[row], href: functionLink(row), amount: value(rows.instructions[row]), text: shareOfAll(row), title: rows.name[row] })), 'Hottest functions'),
        el('p', {}, el('a', { href: link('functions') }, 'All functions'))),
      card('Hottest loops',
        data.loops.length ? bars(data.loops.slice(0, 12).map(([row, header, address, place, , , iterations, trips, instructions]) => ({
          name: rows.name[row], where: place ? fileName(place) : hex(address), href: functionLink(row, 'loops'), amount: value(instructions),
          text: trips === null ? '–' : `${trips.toFixed(1)} trips`, title: `${rows.name[row]}: ${grouped(iterations)} iterations`,
        })), 'Hottest loops') : note('No loop ran.'),
        el('p', {}, el('a', { href: link('loops') }, 'All loops')))),
    data.hot.rows.length > 1 && card('Who calls whom, the hottest functions', hotGraph(), el('p', {}, el('a', { href: link('calls') }, 'All calls'))),
    doubts());
}

function measuredAt({ first_run: first, last_run: last }) {
  const day = seconds => new Date(seconds * 1000).toISOString().slice(0, 16).replace('T', ' ');
  if (!first) return '';
  return first === last ? ` · ${day(first)} UTC` : ` · ${day(first)} to ${day(last)} UTC`;
}

/** Rows are in the order of instructions. */
function hottestRows(count) {
  const found = [];
  for (let row = 0; row < rows.name.length && found.length < count; row += 1) if (ran(row)) found.push(row);
  return found;
}

function hotGraph() {
  const { rows: hot, texts, graph } = data.hot;
  const most = Math.max(...hot.map(row => value(rows.instructions[row])));
  const count = new Map(data.calls.map(([from, to, , times]) => [`${from}>${to}`, times]));
  const often = Math.max(1, ...graph.arrows.map(([from, to]) => value(count.get(`${hot[from]}>${hot[to]}`))));
  return drawGraph({
    laid: graph, label: 'Graph of calls between the hottest functions',
    node: i => ({ heading: texts[i][0], lines: texts[i][1], heat: Math.sqrt(Math.max(0, value(rows.instructions[hot[i]])) / (most || 1)), href: functionLink(hot[i]), title: rows.name[hot[i]] }),
    arrow: (from, to) => {
      const times = count.get(`${hot[from]}>${hot[to]}`);
      return { label: short(times).replace(' ', ''), weight: heat(times, often), title: `${rows.name[hot[from]]} → ${rows.name[hot[to]]}: ${several(times, 'call')}` };
    },
  });
}

/** What is missing or uncertain, and why. */
function doubts() {
  const lists = [];
  for (const module of data.modules) {
    const place = several_modules ? ` in ${module.label}` : '';
    for (const [name, what] of [['not_measured', 'Not measured'], ['entry_only', 'Only entries counted'], ['approximate', 'Counts may be off']]) {
      for (const reason of module[name]) {
        lists.push([`${what}${place}`, grouped(reason.functions), grouped(reason.bytes), reason.reason]);
      }
    }
    if (module.lost.shared) lists.push([`Counts may be too low${place}`, '–', '–', 'threads had to share counters']);
    if (module.lost.targets) lists.push([`Targets of calls are missing${place}`, '–', '–', 'some targets of indirect calls were not recorded']);
    if (module.inconsistent.length) lists.push([`Counts do not add up${place}`, grouped(module.inconsistent.length), '–', module.inconsistent.slice(0, 3).join(', ')]);
  }
  if (!lists.length) return null;
  return card('What is missing or uncertain', plainTable('What is missing or uncertain', [['what'], ['functions', true], ['bytes', true], ['because']], lists));
}

// ---- functions ----

const STATES = [['ran', 'that ran'], ['all', 'all'], ['idle', 'that did not run'], ['notes', 'with a note']];

function functionsView(main, part, options) {
  const hottest = Math.max(1, value(rows.instructions[0]));
  const chosen = { state: options.show || 'ran', module: options.module || '' };
  const columns = [
    { name: 'share', title: 'share', number: true, cell: row => [bar(value(rows.instructions[row]) / hottest), shareOfAll(row)], sort: row => value(rows.instructions[row]) },
    { name: 'instructions', title: 'instructions', number: true, minor: 1, cell: row => grouped(rows.instructions[row]), sort: row => value(rows.instructions[row]), help: 'executed in it, without what it called' },
    { name: 'entries', title: 'entries', number: true, cell: row => grouped(rows.entries[row]), sort: row => value(rows.entries[row]), help: 'how often it was entered' },
    { name: 'blocks', title: 'blocks', number: true, minor: 2, cell: row => (rows.blocks[row] ? `${grouped(rows.executed[row])} of ${grouped(rows.blocks[row])}` : '–'), sort: row => rows.blocks[row], help: 'how many of its blocks ran' },
    { name: 'size', title: 'bytes', number: true, minor: 2, cell: row => grouped(rows.size[row]), sort: row => value(rows.size[row]) },
    data.carried && { name: 'sure', title: 'sure', number: true, cell: row => (rows.confidence[row] === null ? '–' : `${rows.confidence[row]} %`), sort: row => value(rows.confidence[row]), help: 'how likely its counts are right' },
    { name: 'name', title: 'function', wide: true, cell: row => [functionName(row), noteOf.has(row) && el('span', { class: 'flag', title: noteOf.get(row).reason || noteOf.get(row).approximate }, '!')], sort: row => rows.name[row].toLowerCase() },
    several_modules && { name: 'module', title: 'module', minor: 1, cell: row => moduleLabel(row), sort: row => moduleLabel(row) },
  ].filter(Boolean);
  const keep = row => (chosen.module === '' || rows.module[row] === Number(chosen.module))
    && (chosen.state === 'all' || (chosen.state === 'notes' ? noteOf.has(row) : (chosen.state === 'ran') === ran(row)));
  const { table, whole } = tableView({
    label: 'Functions', columns, count: rows.name.length, text: row => `${rows.name[row]} ${several_modules ? moduleLabel(row) : ''}`, order: ['share', true], state: options,
  }, 'Filter by name (/)',
  choose('Which functions', STATES, chosen.state, state => { chosen.state = state; remember({ show: state === 'ran' ? '' : state }); table.refresh(); }),
  several_modules && choose('Module', [['', 'all modules'], ...data.modules.map((module, i) => [String(i), module.label])], chosen.module,
    module => { chosen.module = module; remember({ module }); table.refresh(); }));
  table.preset(keep);
  put(main, el('h1', {}, 'Functions'), whole);
}

// ---- loops ----

function loopsView(main, part, options) {
  const { loops } = data;
  const columns = [
    { name: 'instructions', title: 'instructions', number: true, cell: i => grouped(loops[i][8]), sort: i => value(loops[i][8]), help: 'executed in it and in no loop inside' },
    { name: 'trips', title: 'trips', number: true, cell: i => (loops[i][7] === null ? '–' : loops[i][7].toFixed(1)), sort: i => value(loops[i][7]), help: 'iterations each time it is entered' },
    { name: 'entries', title: 'entries', number: true, minor: 1, cell: i => grouped(loops[i][5]), sort: i => value(loops[i][5]) },
    { name: 'iterations', title: 'iterations', number: true, minor: 1, cell: i => grouped(loops[i][6]), sort: i => value(loops[i][6]), help: 'how often its header ran' },
    { name: 'depth', title: 'depth', number: true, minor: 2, cell: i => String(loops[i][4]), sort: i => loops[i][4], help: 'how many loops are around it' },
    { name: 'function', title: 'function', wide: true, cell: i => functionName(loops[i][0], 'loops'), sort: i => rows.name[loops[i][0]].toLowerCase() },
    { name: 'place', title: 'begins at', minor: 1, cell: i => el('span', { title: loops[i][3] }, loops[i][3] ? fileName(loops[i][3]) : hex(loops[i][2])), sort: i => loops[i][3] || hex(loops[i][2]) },
  ];
  put(main, el('h1', {}, 'Loops'), tableView({
    label: 'Loops', columns, count: loops.length, text: i => `${rows.name[loops[i][0]]} ${loops[i][3] || ''}`, order: ['instructions', true], state: options,
  }, 'Filter by function or file (/)').whole);
}

// ---- calls ----

function callsView(main, part, options) {
  const name = ([, to, text]) => (to === null ? text : rows.name[to]);
  const { calls } = data;
  const columns = [
    { name: 'count', title: 'calls', number: true, cell: i => grouped(calls[i][3]), sort: i => value(calls[i][3]) },
    { name: 'caller', title: 'caller', wide: true, cell: i => functionName(calls[i][0], 'calls'), sort: i => rows.name[calls[i][0]].toLowerCase() },
    { name: 'callee', title: 'callee', wide: true, cell: i => (calls[i][1] === null ? el('span', { class: 'outside' }, calls[i][2]) : functionName(calls[i][1], 'calls')), sort: i => name(calls[i]).toLowerCase() },
  ];
  put(main, el('h1', {}, 'Calls'),
    data.hot.rows.length > 1 && section('The hottest functions', hotGraph()),
    section('All calls', tableView({
      label: 'Calls', columns, count: calls.length, text: i => `${rows.name[calls[i][0]]} ${name(calls[i])}`, order: ['count', true], state: options,
    }, 'Filter by caller or callee (/)').whole));
}

// ---- coverage ----

function coverageView(main) {
  const share = ({ executed, measured }) => el('span', { class: 'covered' }, bar(measured ? executed / measured : 0), measured ? percent(executed, measured) : '–');
  put(main, el('h1', {}, 'Coverage'),
    note('Of what was measured, how much ran. Where only functions that ran are described, blocks of others do not count.'),
    plainTable('Coverage', [['module'], ['functions', true], ['ran', true], ['share', true], ['blocks', true], ['ran', true], ['share', true]],
      data.modules.map((module, i) => [
        el('a', { href: link('functions', null, { module: several_modules ? i : '', show: 'all' }), title: module.path }, module.label),
        grouped(module.functions.measured), grouped(module.functions.executed), share(module.functions),
        `${grouped(module.blocks.measured)}${module.only_executed ? '*' : ''}`, grouped(module.blocks.executed), share(module.blocks)])),
    data.modules.some(module => module.only_executed) && note('* only of functions that ran'),
    partly());
}

/** Functions that ran and have blocks that did not, the largest gaps first. */
function partly() {
  const gaps = [];
  for (let row = 0; row < rows.name.length; row += 1) {
    if (ran(row) && rows.executed[row] < rows.blocks[row]) gaps.push(row);
  }
  if (!gaps.length) return null;
  const missing = i => rows.blocks[gaps[i]] - rows.executed[gaps[i]];
  const columns = [
    { name: 'missing', title: 'did not run', number: true, cell: i => grouped(missing(i)), sort: missing },
    { name: 'blocks', title: 'blocks', number: true, minor: 1, cell: i => grouped(rows.blocks[gaps[i]]), sort: i => rows.blocks[gaps[i]] },
    { name: 'share', title: 'ran', number: true, cell: i => [bar(rows.executed[gaps[i]] / rows.blocks[gaps[i]]), percent(rows.executed[gaps[i]], rows.blocks[gaps[i]])], sort: i => rows.executed[gaps[i]] / rows.blocks[gaps[i]] },
    { name: 'name', title: 'function', wide: true, cell: i => functionName(gaps[i]), sort: i => rows.name[gaps[i]].toLowerCase() },
  ];
  return section('Functions of which a part ran', tableView({ label: 'Functions of which a part ran', columns, count: gaps.length, text: i => rows.name[gaps[i]], order: ['missing', true], remembered: false }, 'Filter by name (/)').whole);
}

// ---- where numbers come from ----

const ORIGINS = {
  measured: 'counted in this build', derived: 'follows from what was counted', 'control-flow': 'only the control flow around it matched', sampled: 'another tool watched some of what happened', inferred: 'nobody measured it: what fits best',
};
const LEVELS = {
  0: 'same bytes', 1: 'same but for registers of a class and the stack frame', 2: 'the same, elsewhere in the function', 3: 'the same operations and functions', '1a': 'as 1, last instruction only',
  4: 'same operations on the same kinds', '3a': 'as 3, last instruction only', 5: 'same groups of operations', s: 'similar',
};
const originWords = name => ORIGINS[name] || (name.startsWith('matched-') ? `another build was measured, and the block matched: ${LEVELS[name.slice(8)] || name.slice(8)}` : name);
const originShade = name => ({ measured: 0, derived: 0, 'matched-0': 1, 'matched-1': 1, 'matched-s': 2, 'matched-2': 2, 'matched-3': 2, 'control-flow': 4, inferred: 5 })[name] ?? 3;

/** The surest first. */
const RANKS = ['measured', 'derived', 'sampled', 'matched-0', 'matched-1', 'matched-s', 'matched-2', 'matched-3', 'matched-4', 'matched-1a', 'matched-3a', 'matched-5', 'control-flow', 'inferred'];
const originRank = name => (RANKS.includes(name) ? RANKS.indexOf(name) : RANKS.length);

function originsCard(brief) {
  const sums = new Map();
  for (const module of data.modules) for (const [name, count] of Object.entries(module.origins)) sums.set(name, (sums.get(name) || 0) + Number(count));
  const parts = [...sums].sort(([a], [b]) => originRank(a) - originRank(b)).map(([name, amount]) => ({ name, amount, shade: originShade(name) }));
  return card(brief ? 'Where the numbers come from' : 'Block executions',
    data.modules.flatMap(module => module.carried.map(source => el('p', {}, 'Carried over from ', el('code', {}, source.path), `, ${several(source.steps, 'build')} away: ${several(source.runs, 'run')}, build-id `, el('code', {}, source.build_id)))),
    shares(parts, 'Block executions'),
    brief && el('p', {}, el('a', { href: link('origins') }, 'Function by function')));
}

function originsView(main, part, options) {
  const carried = [];
  for (let row = 0; row < rows.name.length; row += 1) if (rows.confidence[row] !== null) carried.push(row);
  const least = i => rows.origins[carried[i]].reduce((most, each) => (Number(each[1]) > Number(most[1]) ? each : most))[0];
  const columns = [
    { name: 'sure', title: 'sure', number: true, cell: i => [bar(rows.confidence[carried[i]] / 100), `${rows.confidence[carried[i]]} %`], sort: i => rows.confidence[carried[i]], help: 'the mean over its blocks, each as often as it ran' },
    { name: 'instructions', title: 'instructions', number: true, minor: 1, cell: i => grouped(rows.instructions[carried[i]]), sort: i => value(rows.instructions[carried[i]]) },
    { name: 'origin', title: 'mostly', cell: i => el('span', { title: originWords(least(i)) }, least(i)), sort: least, minor: 1 },
    { name: 'name', title: 'function', wide: true, cell: i => functionName(carried[i], 'assembly'), sort: i => rows.name[carried[i]].toLowerCase() },
  ];
  const known = new Set(data.modules.flatMap(module => Object.keys(module.origins)));
  put(main, el('h1', {}, 'Where the numbers come from'), originsCard(false),
    card('What that means', el('dl', { class: 'words' }, [...known].sort((a, b) => originRank(a) - originRank(b)).flatMap(name => [el('dt', {}, name), el('dd', {}, originWords(name))]))),
    section('Function by function', tableView({ label: 'Confidence', columns, count: carried.length, text: i => `${rows.name[carried[i]]} ${least(i)}`, order: ['instructions', true], state: options }, 'Filter by name or origin (/)').whole));
}

function start() {
  addView('overview', 'Overview', overview);
  addView('functions', 'Functions', functionsView);
  addView('calls', 'Calls', callsView);
  addView('loops', 'Loops', loopsView);
  addView('coverage', 'Coverage', coverageView);
  if (data.carried) addView('origins', 'Origins', originsView);
  addView('function', null, functionView);
  openShell(fileName(data.profile), `${data.profile} – relive ${data.version}`);
}
