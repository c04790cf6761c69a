// Two builds side by side: what belongs together, and how that was found.

const { summary, rows } = data;
const NAME_OLD = 0, NAME_NEW = 1, AT_OLD = 2, AT_NEW = 3, HOW = 4, BLOCKS_OLD = 5, BLOCKS_NEW = 6, MATCHED = 7, SAME = 8, PARTIAL = 9, PLACE = 10;

const LEVELS = {
  0: ['same bytes', 1], 1: ['same but for registers of a class and the stack frame', 1], s: ['similar, and so is what is around it', 0], 2: ['the same, elsewhere in the function', 0],
  3: ['the same operations on the same functions', 2], 4: ['same operations on the same kinds of operands', 3], '1a': ['as 1, last instruction only', 3], '3a': ['as 3, last instruction only', 4],
  5: ['same groups of operations', 4], cf: ['only the control flow around it', 4], partial: ['shares the old block with others, by control flow', 5],
};
const levelWords = name => (LEVELS[name] || [name, 7])[0];
const levelShade = name => (LEVELS[name] || [name, 7])[1];

const stateOf = row => (row[AT_NEW] === null ? 'gone' : row[AT_OLD] === null ? 'new'
  : row[SAME] === row[BLOCKS_NEW] && row[BLOCKS_OLD] === row[BLOCKS_NEW] ? 'same' : 'changed');
const nameOf = row => row[NAME_NEW] ?? row[NAME_OLD];
const unmatched = row => (row[AT_NEW] === null ? row[BLOCKS_OLD] : row[BLOCKS_NEW] - (row[MATCHED] || 0) - (row[PARTIAL] || 0));
const pairLink = (i, block) => link('pair', i, { block });

function chip(level) {
  return el('span', { class: `chip shade-${levelShade(level)}`, title: levelWords(level) }, level);
}

// ---- overview ----

function matchOverview(main) {
  const states = { same: 0, changed: 0, new: 0, gone: 0 };
  rows.forEach(row => { states[stateOf(row)] += 1; });
  const levels = Object.entries(summary.blocks.levels).sort((a, b) => b[1] - a[1]);
  const share = part => percent(part.matched, part.new);
  const most = rows.map((row, i) => [unmatched(row), i]).filter(([blocks, i]) => blocks > 0 && rows[i][AT_NEW] !== null).sort((a, b) => b[0] - a[0]).slice(0, 15);
  const stages = (name, of) => plainTable(name, [[`after`], ['matched', true], ['of new', true]], of.stages.map(stage => [stage.after, grouped(stage.matched), percent(stage.matched, of.new)]));
  put(main,
    el('h1', {}, 'Two builds side by side'),
    el('p', { class: 'lead' }, 'old ', el('code', {}, summary.old.path), ' · new ', el('code', {}, summary.new.path)),
    tiles(
      tile('Procedures with a partner', share(summary.procedures), `${grouped(summary.procedures.matched)} of ${grouped(summary.procedures.new)}`),
      tile('Blocks with a partner', share(summary.blocks), `${grouped(summary.blocks.matched)} of ${grouped(summary.blocks.new)}`),
      tile('Data with a partner', share(summary.data), `${grouped(summary.data.matched)} of ${grouped(summary.data.new)}`),
      tile('Changed', grouped(states.changed), `${grouped(states.same)} the same`),
      tile('New, gone', `${grouped(states.new)}, ${grouped(states.gone)}`)),
    card('Blocks, by how they were found', shares(levels.map(([name, amount]) => ({ name: `${name}: ${levelWords(name)}`, amount, shade: levelShade(name) })), 'Pairs of blocks')),
    el('div', { class: 'columns' },
      card('Most blocks without a partner', most.length ? bars(most.map(([blocks, i]) => ({ name: nameOf(rows[i]), href: pairLink(i), amount: blocks, text: grouped(blocks), title: nameOf(rows[i]) })), 'Most blocks without a partner') : note('Every block of the new build has one.'),
        el('p', {}, el('a', { href: link('functions') }, 'All functions'))),
      el('div', {}, card('Procedures, step by step', stages('Procedures, step by step', summary.procedures)), card('Blocks, step by step', stages('Blocks, step by step', summary.blocks)))),
    (summary.blocks.across.inlined > 0 || summary.blocks.across.outlined > 0 || summary.procedures.clones > 0)
      && card('Across procedures', plainTable('Across procedures', [['what'], ['how many', true]], [
        ['blocks that are now where they were called', grouped(summary.blocks.across.inlined)], ['blocks that are now called', grouped(summary.blocks.across.outlined)], ['further copies of procedures', grouped(summary.procedures.clones)]])));
}

// ---- the table ----

const STATES = [['different', 'that differ'], ['all', 'all'], ['changed', 'changed'], ['new', 'new'], ['gone', 'gone'], ['same', 'the same']];

function pairsView(main, part, options) {
  let chosen = options.show || 'different';
  const columns = [
    { name: 'state', title: 'state', cell: i => el('span', { class: `state ${stateOf(rows[i])}` }, stateOf(rows[i])), sort: i => stateOf(rows[i]) },
    { name: 'without', title: 'without partner', number: true, cell: i => grouped(unmatched(rows[i])), sort: i => unmatched(rows[i]), help: 'blocks' },
    { name: 'blocks', title: 'blocks', number: true, minor: 1, cell: i => (rows[i][AT_NEW] === null ? grouped(rows[i][BLOCKS_OLD]) : grouped(rows[i][BLOCKS_NEW])), sort: i => rows[i][BLOCKS_NEW] ?? rows[i][BLOCKS_OLD] },
    { name: 'same', title: 'same', number: true, minor: 1, cell: i => grouped(rows[i][SAME]), sort: i => value(rows[i][SAME]), help: 'blocks that are the same but for registers of a class and the stack frame' },
    { name: 'how', title: 'found by', minor: 2, cell: i => rows[i][HOW] || '–', sort: i => rows[i][HOW] || '' },
    { name: 'name', title: 'function', wide: true, cell: i => [el('a', { href: pairLink(i), title: nameOf(rows[i]) }, nameOf(rows[i])), rows[i][NAME_OLD] !== null && rows[i][NAME_NEW] !== null && rows[i][NAME_OLD] !== rows[i][NAME_NEW] && el('span', { class: 'outside' }, ` was ${rows[i][NAME_OLD]}`)], sort: i => nameOf(rows[i]).toLowerCase() },
  ];
  const { table, whole } = tableView({
    label: 'Functions', columns, count: rows.length, text: i => `${rows[i][NAME_NEW] ?? ''} ${rows[i][NAME_OLD] ?? ''}`, order: ['without', true], state: options,
  }, 'Filter by name (/)', choose('Which functions', STATES, chosen, state => { chosen = state; remember({ show: state === 'different' ? '' : state }); table.refresh(); }));
  table.preset(i => chosen === 'all' || (chosen === 'different' ? stateOf(rows[i]) !== 'same' : stateOf(rows[i]) === chosen));
  put(main, el('h1', {}, 'Functions'), whole);
}

// ---- a pair ----

async function pairView(main, part, options) {
  const i = Number(part);
  shell.up = link('functions');
  const row = rows[i];
  if (!row) { put(main, el('h1', {}, 'No such function'), note('The address of this page names a function that is not here.')); return; }
  const panel = el('div', { class: 'panel' }, note('Unpacking …'));
  put(main,
    el('p', { class: 'crumbs' }, el('a', { href: link('functions') }, 'Functions'), ` › ${stateOf(row)}${row[HOW] ? `, found by ${row[HOW]}` : ''}`),
    el('h1', { class: 'code' }, nameOf(row)), panel);
  if (!row[PLACE]) {
    panel.replaceChildren(note(`Its code is not in this page, which would have become larger than ${data.limits.size} MiB (--html-size). Try: relive match ${summary.old.path} ${summary.new.path} --function ${hex(row[AT_NEW] ?? row[AT_OLD])}`));
    return;
  }
  try {
    const detail = await unpack(row[PLACE]);
    if (panel.isConnected) drawPair(panel, row, detail, options.block);
  } catch (error) {
    panel.replaceChildren(note(`This cannot be shown: ${error.message}`));
  }
}

function drawPair(panel, row, detail, wanted) {
  const partner = { old: new Map(), new: new Map() };
  for (const [a, b, level, fit] of detail.pairs) {
    partner.old.set(a, { side: 'new', block: b, level, fit });
    partner.new.set(b, { side: 'old', block: a, level, fit });
  }
  for (const [b, a] of detail.partial) partner.new.set(b, { side: 'old', block: a, level: 'partial' });
  for (const [isNew, block, kind, other, otherBlock] of detail.moved) {
    const side = isNew ? 'new' : 'old';
    if (!partner[side].has(block)) partner[side].set(block, { kind, other, block: otherBlock, level: kind });
  }
  const elements = { old: [], new: [] };
  const select = (side, block) => {
    for (const marked of panel.querySelectorAll('.block.at')) { marked.classList.remove('at'); marked.setAttribute('aria-pressed', 'false'); }
    const own = elements[side][block];
    if (!own) return;
    const found = partner[side].get(block);
    const other = found && found.side && elements[found.side][found.block];
    for (const each of [own, other].filter(Boolean)) { each.classList.add('at'); each.setAttribute('aria-pressed', 'true'); }
    [[own, other], [other, own]].forEach(([each, to]) => each && reveal(each, to, each === own));
    remember({ block: `${side}${block}` });
    say(other ? `its partner is the block at ${hex(detail[found.side][found.block][0])}, found by level ${found.level}` : 'it has no partner here');
  };
  // The partner comes to the height of what was chosen.
  function reveal(each, beside, chosen) {
    const pane = each.closest('.pane');
    const top = each.offsetTop;
    if (chosen) {
      if (top < pane.scrollTop || top + Math.min(each.offsetHeight, 80) > pane.scrollTop + pane.clientHeight) pane.scrollTop = top - 60;
    } else {
      const other = beside.closest('.pane');
      pane.scrollTop = top - Math.max(8, beside.offsetTop - other.scrollTop);
    }
  }
  const pane = (side, title) => el('section', { class: 'side' },
    el('h2', {}, title, el('small', {}, ` ${several(detail[side].length, 'block')}`)),
    el('div', { class: 'pane', role: 'group', 'aria-label': title }, detail[side].map(([address, lines], block) => {
      const found = partner[side].get(block);
      const level = found ? found.level : null;
      const button = el('button', {
        type: 'button', id: `${side}${block}`, class: `block ${found ? `shade-${levelShade(level)}` : 'alone'}`, 'aria-pressed': 'false', onclick: () => select(side, block),
      },
      el('span', { class: 'top' }, el('b', {}, hex(address).slice(2)), found ? chip(level) : el('span', { class: 'chip none' }, side === 'new' ? 'new' : 'gone'), found && found.fit !== undefined && el('small', {}, `fits ${found.fit} %`)),
      el('span', { class: 'lines' }, lines.map(([, text]) => `${text}\n`).join('')));
      elements[side].push(button);
      if (!found || found.other === undefined) return button;
      return [button, el('p', { class: 'elsewhere' }, `${found.kind}: `, el('a', { href: pairLink(found.other, `${side === 'new' ? 'old' : 'new'}${found.block}`) }, nameOf(rows[found.other])))];
    })));
  const title = (side, name, at) => (at === null ? `not in the ${side} build` : `${side}: ${name} at ${hex(at)}`);
  panel.replaceChildren(
    el('p', { class: 'legend' }, [...new Set(detail.pairs.map(pair => pair[2]).concat(detail.partial.length ? ['partial'] : []))].sort().map(level => el('span', {}, chip(level), ` ${levelWords(level)}`)), el('span', {}, el('span', { class: 'chip none' }, 'new'), ' no partner')),
    note('Click on a block, or press j and k, to see its partner.'),
    el('div', { class: 'sides' }, pane('old', title('old', row[NAME_OLD], row[AT_OLD])), pane('new', title('new', row[NAME_NEW], row[AT_NEW]))));
  let at = -1;
  const main = detail.new.length ? 'new' : 'old';
  shell.step = by => {
    at = Math.max(0, Math.min(detail[main].length - 1, at + by));
    select(main, at);
    elements[main][at].focus({ preventScroll: true });
    return true;
  };
  const found = /^(old|new)(\d+)$/.exec(wanted || '');
  if (found) select(found[1], Number(found[2]));
}

function start() {
  addView('overview', 'Overview', matchOverview);
  addView('functions', 'Functions', pairsView);
  addView('pair', null, pairView);
  openShell(`${fileName(summary.old.path)} → ${fileName(summary.new.path)}`, `${summary.old.path} → ${summary.new.path} – relive ${data.version}`);
}
