// Charts: bars, a bar of shares, columns and lines. Each says in words what it shows; tables beside them have the numbers.

/** Rows of bars. rows: [{ name, where, href, amount, text, title }]; of a long name the end is cut off, of where it is nothing. */
function bars(rows, label) {
  const most = Math.max(1e-9, ...rows.map(row => Number(row.amount)));
  return el('ol', { class: 'bars', 'aria-label': label }, rows.map(row => el('li', { title: row.title },
    el(row.href ? 'a' : 'span', { class: 'name', href: row.href }, el('span', {}, row.name), row.where && el('span', { class: 'where' }, row.where)),
    el('span', { class: 'amount' }, row.text), bar(Number(row.amount) / most))));
}

const SHADES = 8;

/** One bar of shares. parts: [{ name, amount, shade }] */
function shares(parts, label) {
  const whole = parts.reduce((sum, part) => sum + Number(part.amount), 0) || 1;
  const shown = parts.filter(part => Number(part.amount) > 0);
  return el('div', { class: 'shares' },
    el('div', { class: 'stack', role: 'img', 'aria-label': `${label}: ${shown.map(part => `${percent(part.amount, whole)} ${part.name}`).join(', ')}` },
      shown.map((part, i) => el('span', { class: `shade-${(part.shade ?? i) % SHADES}`, '--share': shareOf(Number(part.amount) / whole), title: `${part.name}: ${grouped(part.amount)}` }))),
    el('ul', { class: 'keys' }, shown.map((part, i) => el('li', {}, el('span', { class: `swatch shade-${(part.shade ?? i) % SHADES}`, 'aria-hidden': 'true' }),
      `${part.name} `, el('strong', {}, percent(part.amount, whole))))));
}

/** Numbers for an axis, four or so: round ones, or for bytes powers of two. */
function ticks(most, binary) {
  if (!(most > 0)) return [0];
  const rough = most / 4;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = binary ? 2 ** Math.ceil(Math.log2(rough)) : [1, 2, 5, 10].map(by => by * size).find(each => each >= rough);
  const all = [];
  for (let at = 0; at <= most + step * 0.001; at += step) all.push(at);
  return all;
}

/** How wide a chart may be: its text keeps its size on every screen. */
const room = () => Math.min(1400, shell.main.clientWidth - 70);

function axes(width, height, left, bottom, most, format, binary) {
  const scale = at => height - bottom - (height - bottom - 8) * at / (most || 1);
  return ticks(most, binary).flatMap(at => [
    svg('path', { class: 'grid', d: `M${left} ${scale(at)}H${width}` }),
    svg('text', { class: 'axis', x: left - 6, y: scale(at) + 4, 'text-anchor': 'end' }, format(at)),
  ]);
}

/** Columns side by side. columns: [{ name, parts: [{ amount, shade, name }] }] */
function columnChart({ columns, label, format, axisLabel }) {
  const [width, height, left, bottom] = [Math.max(240, Math.min(room(), 64 + columns.length * 64)), 240, 58, 40];
  const sum = column => column.parts.reduce((total, part) => total + Number(part.amount), 0);
  const most = Math.max(1, ...columns.map(sum));
  const step = (width - left) / Math.max(1, columns.length);
  const scale = amount => (height - bottom - 8) * Number(amount) / most;
  const drawn = columns.map((column, i) => {
    let base = height - bottom;
    const rects = column.parts.map(part => {
      const size = scale(part.amount);
      base -= size;
      return svg('rect', { class: `shade-${part.shade}`, x: left + i * step + step * 0.12, y: base, width: step * 0.76, height: Math.max(0, size) },
        svg('title', {}, `${column.title || column.name}${part.name ? `, ${part.name}` : ''}: ${part.text || grouped(part.amount)}`));
    });
    // Where there is no room for every name, every second or third has to do.
    const named = i % Math.ceil(46 / step) === 0;
    return [...rects, named && svg('text', { class: 'axis', x: left + i * step + step / 2, y: height - bottom + 15, 'text-anchor': 'middle' }, column.name)];
  });
  return el('figure', { class: 'chart' }, svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label, width, height },
    axes(width, height, left, bottom, most, format), drawn.flat(),
    axisLabel && svg('text', { class: 'axis', x: (left + width) / 2, y: height - 4, 'text-anchor': 'middle' }, axisLabel)));
}

/** Lines over time. series: [{ name, shade, points: [[x, y], …] }]; each value holds up to the next. */
function lineChart({ series, label, formatX, formatY, axisLabel, binary }) {
  const [width, height, left, bottom] = [room(), 240, 64, 40];
  const all = series.flatMap(each => each.points);
  const mostX = Math.max(1, ...all.map(([x]) => x));
  const mostY = Math.max(1, ...all.map(([, y]) => y));
  const atX = x => left + (width - left - 10) * x / mostX;
  const atY = y => height - bottom - (height - bottom - 8) * y / mostY;
  const lines = series.map(({ points, shade, name }) => {
    const path = points.map(([x, y], i) => `${i ? `H${atX(x).toFixed(1)}V` : `M${atX(x).toFixed(1)} `}${atY(y).toFixed(1)}`).join('');
    const end = points.length ? `H${atX(mostX).toFixed(1)}` : '';
    return svg('g', {}, svg('title', {}, name), svg('path', { class: `area shade-${shade}`, d: `${path}${end}V${height - bottom}H${atX(points.length ? points[0][0] : 0)}Z` }),
      svg('path', { class: `line shade-${shade}`, d: `${path}${end}` }));
  });
  const marks = ticks(mostX).map(at => svg('text', { class: 'axis', x: atX(at), y: height - bottom + 15, 'text-anchor': !at ? 'start' : atX(at) > width - 40 ? 'end' : 'middle' }, formatX(at)));
  return el('figure', { class: 'chart' },
    svg('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': label, width, height },
      axes(width, height, left, bottom, mostY, formatY, binary), lines, marks,
      axisLabel && svg('text', { class: 'axis', x: (left + width) / 2, y: height - 4, 'text-anchor': 'middle' }, axisLabel)),
    el('ul', { class: 'keys' }, series.map(({ name, shade }) => el('li', {}, el('span', { class: `swatch shade-${shade}`, 'aria-hidden': 'true' }), name))));
}
