// Tables that can be sorted and filtered, of any length: only the rows that can be seen are in the page.

const ROW = 30;

/**
 * columns: [{ name, title, cell(row) → node or text, sort(row) → number or text, number, minor, wide, help }]
 * options: { label, columns, count, text(row) for the filter, keep(row), order: [column, descending], href(row), state }
 * `state` holds `q` and `sort` of the address; changes are written back to it.
 */
function makeTable({ label, columns, count, text, order, state, remembered = true }) {
  const [column, direction] = ((state && state.sort) || `${order[0]},${order[1] ? 'down' : 'up'}`).split(',');
  const table = {
    rows: [], first: 0, shown: -1, at: -1, keep: () => true,
    sort: columns.find(each => each.name === column && each.sort) || columns.find(each => each.name === order[0]),
    down: direction === 'down', query: (state && state.q) || '',
  };
  const body = el('tbody');
  const heads = columns.map(each => el('th', { scope: 'col', class: classes(each), title: each.help },
    each.sort ? el('button', { type: 'button', onclick: () => sortBy(each) }, each.title) : each.title));
  const grid = el('table', { 'aria-label': label, 'aria-rowcount': '-1' }, el('thead', {}, el('tr', {}, heads)), body);
  const box = el('div', { class: 'scroll', tabindex: '-1', onscroll: () => draw(false) }, grid);
  const found = el('p', { class: 'found', role: 'status' });

  function classes(each) {
    return [each.number && 'number', each.minor && `minor-${each.minor}`, each.wide && 'wide'].filter(Boolean).join(' ') || null;
  }

  function sortBy(chosen) {
    table.down = table.sort === chosen ? !table.down : Boolean(chosen.number);
    table.sort = chosen;
    if (remembered) remember({ sort: `${chosen.name},${table.down ? 'down' : 'up'}` });
    refresh();
    say(`sorted by ${chosen.title}, ${table.down ? 'largest' : 'smallest'} first`);
  }

  /** Words that must be there, and, with a minus before them, words that must not. */
  function matcher() {
    const words = table.query.toLowerCase().split(/\s+/).filter(word => word && word !== '-');
    const wanted = words.filter(word => word[0] !== '-');
    const unwanted = words.filter(word => word[0] === '-').map(word => word.slice(1));
    return row => {
      if (!table.keep(row)) return false;
      if (!words.length) return true;
      const name = text(row).toLowerCase();
      return wanted.every(word => name.includes(word)) && !unwanted.some(word => name.includes(word));
    };
  }

  function refresh() {
    const matches = matcher();
    const rows = [];
    for (let row = 0; row < count; row += 1) if (matches(row)) rows.push(row);
    const keys = new Map(rows.map(row => [row, table.sort.sort(row)]));
    const turn = table.down ? -1 : 1;
    rows.sort((a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      return (x < y ? -turn : x > y ? turn : a - b);
    });
    Object.assign(table, { rows, at: -1, shown: -1 });
    columns.forEach((each, i) => {
      if (each.sort) heads[i].setAttribute('aria-sort', each === table.sort ? (table.down ? 'descending' : 'ascending') : 'none');
    });
    grid.setAttribute('aria-rowcount', rows.length + 1);
    found.textContent = rows.length === count ? several(count, 'row') : `${grouped(rows.length)} of ${several(count, 'row')}`;
    box.scrollTop = 0;
    box.classList.toggle('long', rows.length > 40);
    draw(true);
  }

  function draw(anew) {
    const height = box.classList.contains('long') ? box.clientHeight || 800 : table.rows.length * ROW;
    const first = Math.max(0, Math.floor(box.scrollTop / ROW) - 10);
    if (!anew && Math.abs(first - table.first) < 5 && table.shown >= 0) return;
    const last = Math.min(table.rows.length, first + Math.ceil(height / ROW) + 20);
    Object.assign(table, { first, shown: last });
    // One cell, not one for each column: some columns are hidden on small screens.
    const space = rows => rows > 0 && el('tr', { class: 'space', 'aria-hidden': 'true', '--height': `${rows * ROW}px` }, el('td'));
    const focused = body.contains(document.activeElement);
    const lines = table.rows.slice(first, last).map((row, i) => el('tr',
      { 'aria-rowindex': first + i + 2, class: first + i === table.at ? 'at' : null },
      columns.map(each => el(each.wide ? 'th' : 'td', { class: classes(each), scope: each.wide ? 'row' : null }, each.cell(row)))));
    body.replaceChildren(...[space(first), ...lines, space(table.rows.length - last)].filter(Boolean));
    if (!table.rows.length) body.replaceChildren(el('tr', {}, el('td', { class: 'nothing' }, 'Nothing fits the filter.')));
    if (focused) focusRow();
  }

  function focusRow() {
    const target = body.querySelector('tr.at a, tr.at button');
    if (target) target.focus({ preventScroll: true });
  }

  /** Goes some rows on. */
  function step(by) {
    if (!table.rows.length) return false;
    table.at = Math.max(0, Math.min(table.rows.length - 1, table.at + by));
    const top = table.at * ROW;
    if (box.classList.contains('long')) {
      const seen = box.clientHeight - 2 * ROW;
      if (top < box.scrollTop) box.scrollTop = top;
      else if (top > box.scrollTop + seen) box.scrollTop = top - seen;
    }
    draw(true);
    const line = body.querySelector('tr.at');
    if (line && !box.classList.contains('long')) line.scrollIntoView({ block: 'nearest' });
    focusRow();
    return true;
  }

  function search(placeholder) {
    const input = el('input', {
      type: 'search', placeholder, 'aria-label': `Filter ${label}`, value: table.query, autocomplete: 'off', spellcheck: 'false',
      oninput: event => {
        table.query = event.target.value;
        if (remembered) remember({ q: table.query });
        refresh();
      },
    });
    shell.filter = input;
    return input;
  }

  shell.step = step;
  addEventListener('resize', () => box.isConnected && draw(true));
  addEventListener('beforeprint', () => box.isConnected && (box.scrollTop = 0));
  return { box, found, search, refresh, step, setKeep(keep) { table.keep = keep; refresh(); }, preset(keep) { table.keep = keep; } };
}

/** A list to choose from. `choices`: [[value, text], …] */
function choose(label, choices, chosen, then) {
  return el('label', { class: 'choose' }, el('span', { class: 'unseen' }, label),
    el('select', { 'aria-label': label, onchange: event => then(event.target.value) },
      choices.map(([name, text]) => el('option', { value: name, selected: name === chosen }, text))));
}

/** A whole table with its filter, for views that are nothing else. */
function tableView(options, placeholder, ...controls) {
  const table = makeTable(options);
  const bar = el('div', { class: 'controls' }, table.search(placeholder), controls, table.found);
  const whole = el('div', { class: 'table' }, bar, table.box);
  queueMicrotask(table.refresh);
  return { table, whole };
}

/** A short table that is sorted already. */
function plainTable(label, heads, rows) {
  const kind = i => (heads[i][1] ? 'number' : null);
  return el('div', { class: 'scroll plain' }, el('table', { 'aria-label': label },
    el('thead', {}, el('tr', {}, heads.map(([title], i) => el('th', { scope: 'col', class: kind(i) }, title)))),
    el('tbody', {}, rows.map(cells => el('tr', {}, cells.map((cell, i) => el('td', { class: kind(i) }, cell)))))));
}
