// One function: its graph, source, disassembly, calls and loops.

const TABS = [['graph', 'Graph'], ['source', 'Source'], ['assembly', 'Disassembly'], ['calls', 'Calls'], ['loops', 'Loops']];

async function functionView(main, part, options) {
  const row = Number(part);
  shell.up = link('functions');
  if (!(row in rows.name)) {
    put(main, el('h1', {}, 'No such function'), note('The address of this page names a function that is not here.'));
    return;
  }
  const tab = TABS.some(([name]) => name === options.tab) ? options.tab : 'graph';
  const panel = el('div', { class: 'panel', id: 'panel', role: 'tabpanel', 'aria-labelledby': `tab-${tab}` });
  put(main, functionHead(row), el('div', { class: 'tabs', role: 'tablist', 'aria-label': 'What to show' }, TABS.map(([name, title]) => el('a', {
    role: 'tab', id: `tab-${name}`, href: functionLink(row, name), 'aria-selected': String(name === tab), 'aria-controls': 'panel', tabindex: name === tab ? '0' : '-1', onkeydown: tabKeys,
  }, title))), panel);
  if (tab === 'calls') return callsPanel(panel, row);
  if (tab === 'loops') return loopsPanel(panel, row);
  if (!rows.place[row]) {
    put(panel, note(ran(row)
      ? `Its code is not in this page, which would have become larger than ${data.limits.size} MiB (--html-size). Try: relive report ${data.profile} --annotate ${hex(rows.address[row])}`
      : 'It did not run.'));
    return null;
  }
  put(panel, note('Unpacking …'));
  try {
    const detail = await unpack(rows.place[row]);
    if (!panel.isConnected) return null;
    panel.replaceChildren();
    await { graph: graphPanel, source: sourcePanel, assembly: assemblyPanel }[tab](panel, row, detail, options);
  } catch (error) {
    panel.replaceChildren(note(`This cannot be shown: ${error.message}`));
  }
  return null;
}

function tabKeys(event) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  const all = [...event.currentTarget.parentElement.children];
  const next = all[(all.indexOf(event.currentTarget) + by + all.length) % all.length];
  location.hash = next.getAttribute('href');
  requestAnimationFrame(() => { const tab = byId(next.id); if (tab) tab.focus(); });
}

function functionHead(row) {
  const module = data.modules[rows.module[row]];
  const noted = noteOf.get(row);
  const origins = data.carried && rows.origins[row];
  return el('div', { class: 'head' },
    el('p', { class: 'crumbs' }, el('a', { href: link('functions') }, 'Functions'), ` › ${module.label} › ${hex(rows.address[row])}`),
    el('h1', { class: 'code' }, rows.name[row]),
    tiles(
      tile('Share of instructions', shareOfAll(row), short(rows.instructions[row])),
      tile('Entered', short(rows.entries[row]), value(rows.entries[row]) === 1 ? 'time' : 'times', grouped(rows.entries[row])),
      tile('Blocks that ran', rows.blocks[row] ? grouped(rows.executed[row]) : '–', `of ${grouped(rows.blocks[row])}`),
      tile('Code', grouped(rows.size[row]), 'bytes'),
      data.carried && tile('Sure', rows.confidence[row] === null ? '–' : `${rows.confidence[row]} %`)),
    origins && origins.length > 0 && shares(origins.map(([name, amount]) => ({ name, amount, shade: originShade(name) })), 'Block executions'),
    noted && noted.reason && note(el('strong', {}, noted.state === 'not-measured' ? 'Not measured: ' : 'Only entries counted: '), noted.reason),
    noted && noted.approximate && note(el('strong', {}, 'Counts may be off: '), noted.approximate));
}

const mostOf = detail => Math.max(0, ...detail.blocks.map(block => value(block[3])));

function graphPanel(panel, row, detail) {
  const { graph, blocks } = detail;
  if (!graph) {
    put(panel, note(blocks.length ? `A graph of ${grouped(blocks.length)} blocks is too large to draw; the disassembly has them all.` : 'Nothing is known of its blocks.'));
    return;
  }
  const most = mostOf(detail);
  const kindOf = [null, 0, 1, 2, 3, 4, 6, 5, null, null];
  const nodeOf = new Map(graph.nodes.map((block, node) => [block, node]));
  const hubs = new Map(graph.hubs);
  const tails = new Map(graph.tail_calls);
  const counts = new Map();
  detail.edges.forEach(([from, to, kind, count], i) => {
    const end = at => (at === null ? tails.get(i) : at < 0 ? hubs.get(-1 - at) : nodeOf.get(at));
    const key = `${end(from)}>${end(to)}>${kindOf[kind]}`;
    counts.set(key, [...(counts.get(key) || []), count]);
  });
  const kinds = new Set(graph.laid_out.arrows.map(each => each[2] % 8));
  const hidden = blocks.length - graph.nodes.filter(block => block >= 0).length;
  put(panel, graphLegend(kinds, true),
    hidden > 0 && note(`${several(hidden, 'block')} that did not run ${hidden === 1 ? 'is' : 'are'} left out; the disassembly has all.`),
    drawGraph({
      laid: graph.laid_out, label: `Control flow of ${rows.name[row]}`,
      node: i => {
        const at = graph.nodes[i];
        if (at < 0) return { heading: graph.others[-at - 1], lines: [], tone: 'outside' };
        const [address, size, insns, count, place, flags, origin] = blocks[at];
        const code = detail.code[at] || [];
        const shown = count === null || value(count) > 0 ? code : [];
        const lines = shown.length > data.limits.lines ? [...shown.slice(0, data.limits.lines - 1).map(each => each[1]), `… ${shown.length - data.limits.lines + 1} more`] : shown.map(each => each[1]);
        const times = count === null ? '' : `  ${grouped(count)}×`;
        return {
          heading: `${hex(address).slice(2)}${times}`, lines, heat: heat(count, most), tone: flags & 1 ? 'entry' : value(count) === 0 ? 'idle' : 'plain',
          href: functionLink(row, 'assembly').concat(`&block=${at}`),
          title: [`${hex(address)}, ${several(insns, 'instruction')}, ${several(size, 'byte')}`, place, count === null ? 'count not known' : `ran ${several(count, 'time')}`, origin && `${origin[0]}, ${origin[1]} % sure`].filter(Boolean).join('\n'),
        };
      },
      arrow: (from, to, kind) => {
        const all = counts.get(`${from}>${to}>${kind}`) || [];
        const known = all.filter(count => count !== null);
        const sum = known.reduce((total, count) => total + Number(count), 0);
        return { label: known.length ? short(sum).replace(' ', '') : '', weight: known.length ? heat(sum, most) : 0.4, title: `${ARROWS[kind][1]}${known.length ? `: ${several(sum, 'time')}` : ''}` };
      },
    }));
}

function callsPanel(panel, row) {
  const list = (title, indices, cell) => card(title, indices.length
    ? bars(indices.map(i => ({ ...cell(data.calls[i]), amount: value(data.calls[i][3]), text: grouped(data.calls[i][3]) })), title)
    : note('None that were recorded.'));
  put(panel, el('div', { class: 'columns' },
    list('Called by', callsTo.get(row) || [], ([from]) => ({ name: rows.name[from], href: functionLink(from, 'calls'), title: rows.name[from] })),
    list('Calls', callsFrom.get(row) || [], ([, to, name]) => ({ name: to === null ? name : rows.name[to], href: to === null ? null : functionLink(to, 'calls'), title: to === null ? name : rows.name[to] }))));
}

function loopsPanel(panel, row) {
  const own = data.loops.filter(each => each[0] === row);
  if (!own.length) { put(panel, note('No loop of it ran.')); return; }
  put(panel, plainTable('Loops', [['begins at'], ['depth', true], ['entries', true], ['iterations', true], ['trips', true], ['instructions', true]],
    own.map(([, header, address, place, depth, entries, iterations, trips, instructions]) => [
      el('a', { href: `${functionLink(row, 'assembly')}&block=${header}`, title: place }, place ? fileName(place) : hex(address)),
      String(depth), grouped(entries), grouped(iterations), trips === null ? '–' : trips.toFixed(1), grouped(instructions)])),
  note('Trips: how often the header ran each time the loop was entered. Instructions: without loops inside.'));
}
