// Source and disassembly with counts in the margin.

async function sourcePanel(panel, row, detail) {
  if (!detail.source.length) {
    const why = data.modules[rows.module[row]].program;
    put(panel, note(why ? `Source lines are told by the program. ${why}` : 'The program has no debug information for it, so there are no lines of source.'));
    return;
  }
  let gone = 0;
  for (const { file, own, lines } of detail.source) {
    const [path, place] = data.files[file];
    if (!place) { gone += 1; if (!own) continue; }
    const text = place ? new Map(await unpack(place)) : new Map();
    if (!panel.isConnected) return;
    put(panel, el('h2', { class: 'code' }, path, own ? null : el('small', {}, ' inlined')),
      place ? sourceTable(text, lines, own, path) : note('This file is not there any more; the lines that ran are ', lines.filter(each => value(each[1]) > 0).map(each => each[0]).join(', ') || 'none', '.'));
  }
  if (gone) put(panel, note(`${several(gone, 'file')} of source ${gone === 1 ? 'was' : 'were'} not found.`));
}

function sourceTable(text, lines, own, path) {
  const most = Math.max(1, ...lines.map(each => value(each[1])));
  const known = new Map(lines.map(([line, times, insns]) => [line, [times, insns]]));
  const shown = [];
  lines.forEach(([line], i) => {
    const before = i ? lines[i - 1][0] : Math.max(0, line - 4);
    if (own && line - before <= 10) for (let between = before + 1; between < line; between += 1) shown.push(between);
    else if (own) for (let between = line - 3; between < line; between += 1) shown.push(between);
    shown.push(line);
  });
  if (own && lines.length) shown.push(lines[lines.length - 1][0] + 1);
  let before = 0;
  return codeTable(`Source of ${path}`, ['times', 'instructions', 'line', 'source'], shown.filter(line => text.has(line)).flatMap(line => {
    const [times, insns] = known.get(line) || [null, null];
    const has = known.has(line);
    const gap = before > 0 && line > before + 1;
    before = line;
    return [gap && el('tr', { class: 'gap' }, el('td', { colspan: 4 }, '⋯')), el('tr', { class: has && value(times) === 0 ? 'idle' : null, '--heat': shareOf(has ? heat(times, most) : 0) },
      el('td', { class: 'number' }, has ? (times === null ? '?' : grouped(times)) : ''), el('td', { class: 'number minor-1' }, has && insns !== null ? grouped(insns) : ''),
      el('td', { class: 'line' }, String(line)), el('td', { class: 'text' }, text.get(line)))];
  }));
}

function codeTable(label, heads, body) {
  const listing = el('div', { class: 'listing', tabindex: '0', role: 'region', 'aria-label': label }, el('table', { class: 'code', 'aria-label': label },
    el('thead', {}, el('tr', {}, heads.map((title, i) => el('th', { scope: 'col', class: i < heads.length - 1 ? `number${title === 'instructions' ? ' minor-1' : ''}` : null }, title)))), el('tbody', {}, body)));
  const hottest = () => {
    const heatOf = line => parseFloat(line.style.getPropertyValue('--heat')) || 0;
    const line = [...listing.querySelectorAll('tbody tr')].reduce((most, each) => (heatOf(each) > heatOf(most) ? each : most));
    for (const each of listing.querySelectorAll('tr.at')) each.classList.remove('at');
    line.classList.add('at');
    line.scrollIntoView({ block: 'center' });
  };
  return [el('p', {}, el('button', { type: 'button', onclick: hottest }, 'To the hottest line')), listing];
}

const EDGES = ['enter', 'fall-through', 'taken', 'jump', 'case', 'call-return', 'landing-pad', 'tail-call', 'return', 'no-return'];

function assemblyPanel(panel, row, detail, options) {
  const { blocks, code } = detail;
  const most = mostOf(detail);
  const why = data.modules[rows.module[row]].program;
  if (!code.length) put(panel, note(`The profile has not kept its code. ${why || 'The program at its place has other code there.'}`));
  const calls = new Map();
  for (const [address, to, name, count] of detail.calls) {
    if (!calls.has(String(address))) calls.set(String(address), []);
    calls.get(String(address)).push([to, name, count]);
  }
  const leaving = new Map();
  for (const edge of detail.edges) if (edge[0] !== null) leaving.set(edge[0], [...(leaving.get(edge[0]) || []), edge]);
  const body = [];
  blocks.forEach(([address, size, insns, count, place, , origin], i) => {
    const own = code[i] || [];
    const lines = own.length ? own : [[0, `${several(size, 'byte')}, ${several(insns, 'instruction')}`]];
    lines.forEach(([offset, text], at) => {
      const from = typeof address === 'string' ? (BigInt(address) + BigInt(offset)).toString() : address + offset;
      const called = calls.get(String(from)) || [];
      body.push(el('tr', { id: at === 0 ? `block-${i}` : null, class: [at === 0 && 'first', value(count) === 0 && 'idle'].filter(Boolean).join(' ') || null, '--heat': shareOf(heat(count, most)) },
        el('td', { class: 'number', title: origin ? `${originWords(origin[0])}; ${origin[1]} % sure` : null }, at === 0 ? [grouped(count), origin && el('small', { class: 'sure' }, `${origin[1]} %`)] : ''),
        el('td', { class: 'line' }, hex(from).slice(2)),
        el('td', { class: 'text' }, text, called.map(([to, name, times]) => el('span', { class: 'callee' }, '→ ', to === null ? name : functionName(to, 'assembly'), called.length > 1 ? ` ${short(times)}×` : '')),
          at === 0 && place && el('span', { class: 'place', title: place }, fileName(place)))));
    });
    const ways = leaving.get(i) || [];
    if (ways.length > 1) {
      body.push(el('tr', { class: 'ways' }, el('td', {}), el('td', {}), el('td', { class: 'text' }, ways.map(([, to, kind, times]) => el('span', { class: 'way' },
        `${grouped(times)}× `, to !== null && to >= 0 && blocks[to] ? el('a', { href: `${functionLink(row, 'assembly')}&block=${to}` }, hex(blocks[to][0]).slice(2)) : to !== null ? 'one of several' : '', ` ${EDGES[kind]}`)))));
    }
  });
  put(panel, codeTable(`Disassembly of ${rows.name[row]}`, ['times', 'address', 'instruction'], body));
  const at = options.block !== undefined && byId(`block-${options.block}`);
  if (at) {
    at.classList.add('at');
    at.scrollIntoView({ block: 'center' });
  }
}
