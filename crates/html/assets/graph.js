// Draws graphs that were laid out before: boxes of text and arrows between them.

const ARROWS = [
  ['fall', 'falls through'], ['taken', 'branch taken'], ['jump', 'jump'], ['case', 'switch case'],
  ['call', 'call returns'], ['tail', 'tail call'], ['throw', 'exception'], ['unknown', 'unresolved'],
];

/**
 * laid: what the layout says; node(i) → { heading, lines, tone, heat, href, title };
 * arrow(from, to, kind) → { label, weight from 0 to 1, title }; label: for those who cannot see it.
 */
function drawGraph({ laid, node, arrow, label }) {
  const metrics = data.metrics;
  const drawing = svg('svg', {
    class: 'graph', role: 'group', 'aria-label': label, viewBox: `0 0 ${laid.width} ${laid.height}`,
    'font-size': metrics.font, width: laid.width, height: laid.height,
  });
  const lines = { false: [], true: [] };
  const labels = [];
  for (const [from, to, kind, labelX, labelY, x, y, ...turns] of laid.arrows) {
    const back = kind >= 8;
    const name = ARROWS[kind % 8][0];
    const look = arrow(from, to, kind % 8);
    const { path, endX, endY } = rounded(x, y, turns);
    lines[back].push(svg('g', { class: `arrow ${name}${look.weight === 0 ? ' never' : ''}`, '--weight': look.weight },
      look.title && svg('title', {}, look.title), svg('path', { d: path }),
      svg('path', { class: 'head', d: `M${endX} ${endY}l-4 -8h8z` })));
    if (look.label && (labelX || labelY)) {
      labels.push(svg('text', { class: `label ${name}`, x: labelX, y: labelY, 'font-size': metrics.font * metrics.small }, look.label));
    }
  }
  const boxes = [];
  for (let i = 0; i * 4 < laid.boxes.length; i += 1) {
    boxes.push(drawBox(node(i), laid.boxes.slice(i * 4, i * 4 + 4), metrics));
  }
  drawing.append(...lines.false, ...lines.true, ...boxes, ...labels);
  return zoomable(drawing, laid, label);
}

function drawBox(look, [x, y, width, height], metrics) {
  const scale = look.tone === 'outside' ? metrics.small : 1;
  const columns = Math.floor((width - 2 * metrics.pad) / (metrics.advance * scale) + 0.5);
  const clip = text => (text.length > columns ? `${text.slice(0, Math.max(1, columns - 1))}…` : text);
  let base = y + metrics.pad / 2 + metrics.line * scale * 0.75;
  const parts = [
    svg('title', {}, look.title || [look.heading, ...look.lines].join('\n')),
    svg('rect', { x, y, width, height, rx: look.tone === 'outside' ? 9 : 4 }),
    svg('text', { class: 'heading', x: x + metrics.pad, y: base }, clip(look.heading)),
  ];
  if (look.lines.length) {
    parts.push(svg('path', { class: 'rule', d: `M${x} ${Math.round(y + metrics.pad / 2 + metrics.line * scale) + 1.5}h${width}` }));
    base += metrics.pad;
  }
  for (const line of look.lines) {
    base += metrics.line * scale;
    parts.push(svg('text', { x: x + metrics.pad, y: base }, clip(line)));
  }
  const attributes = { class: `box ${look.tone || 'plain'}`, '--heat': shareOf(look.heat || 0), 'font-size': scale === 1 ? null : metrics.font * scale };
  return look.href ? svg('a', { ...attributes, href: look.href }, parts) : svg('g', attributes, parts);
}

/** A path along right angles, with its corners rounded. */
function rounded(x, y, turns) {
  const points = [[x, y]];
  turns.forEach((by, i) => {
    const [lastX, lastY] = points[points.length - 1];
    if (by) points.push(i % 2 ? [lastX + by, lastY] : [lastX, lastY + by]);
  });
  let path = `M${x} ${y}`;
  for (let i = 1; i < points.length; i += 1) {
    const [px, py] = points[i];
    if (i === points.length - 1) { path += `L${px} ${py - 4}`; break; }
    const towards = ([ox, oy]) => {
      const length = Math.abs(ox - px) + Math.abs(oy - py);
      const share = length ? Math.min(5, length / 2) / length : 0;
      return `${px + (ox - px) * share} ${py + (oy - py) * share}`;
    };
    path += `L${towards(points[i - 1])}Q${px} ${py} ${towards(points[i + 1])}`;
  }
  const [endX, endY] = points[points.length - 1];
  return { path, endX, endY };
}

/** Buttons to make it larger and smaller; dragging moves it. */
function zoomable(drawing, { width, height, boxes }, label) {
  const frame = el('div', { class: 'frame own-keys', tabindex: '0', role: 'region', 'aria-label': `${label}, scrollable` }, drawing);
  let zoom = 1;
  function set(to, atX = 0.5, atY = 0) {
    const before = zoom;
    zoom = Math.max(0.05, Math.min(3, to));
    const [left, top] = [frame.scrollLeft + frame.clientWidth * atX, frame.scrollTop + frame.clientHeight * atY];
    drawing.setAttribute('width', width * zoom);
    drawing.setAttribute('height', height * zoom);
    frame.scrollLeft = left * zoom / before - frame.clientWidth * atX;
    frame.scrollTop = top * zoom / before - frame.clientHeight * atY;
  }
  const whole = () => set(Math.min(1, (frame.clientWidth - 24) / width, (frame.clientHeight - 24) / height));
  const across = () => set(Math.max(0.5, Math.min(1, (frame.clientWidth - 24) / width)));
  const button = (text, name, then) => el('button', { type: 'button', class: 'icon', title: name, 'aria-label': name, onclick: then }, text);
  frame.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    set(zoom * (event.deltaY < 0 ? 1.15 : 1 / 1.15));
  }, { passive: false });
  drag(frame);
  // It has no width before it is in the page and shown.
  const shown = new ResizeObserver(() => {
    if (!frame.clientWidth) return;
    shown.disconnect();
    across();
    // The box at the top is where everything begins.
    let top = 0;
    for (let i = 4; i < boxes.length; i += 4) if (boxes[i + 1] < boxes[top + 1]) top = i;
    frame.scrollLeft = (boxes[top] + boxes[top + 2] / 2) * zoom + 12 - frame.clientWidth / 2;
  });
  shown.observe(frame);
  return el('div', { class: 'zoomable' },
    el('div', { class: 'zoom' }, button('−', 'Smaller', () => set(zoom / 1.3)), button('+', 'Larger', () => set(zoom * 1.3)),
      button('1:1', '1:1, full size', () => set(1)), button('⤢', 'All of it', whole)), frame);
}

function drag(frame) {
  let from = null;
  frame.addEventListener('pointerdown', event => {
    if (event.pointerType === 'mouse' && event.button === 0 && !event.target.closest('a')) {
      from = { x: event.clientX + frame.scrollLeft, y: event.clientY + frame.scrollTop };
      frame.setPointerCapture(event.pointerId);
    }
  });
  frame.addEventListener('pointermove', event => {
    if (from) { frame.scrollLeft = from.x - event.clientX; frame.scrollTop = from.y - event.clientY; }
  });
  frame.addEventListener('pointerup', () => { from = null; });
}

/** What the arrows mean, and what the colours do. */
function graphLegend(kinds, heated) {
  return el('p', { class: 'legend' },
    [...kinds].sort().map(kind => el('span', {}, svg('svg', { width: 26, height: 8, 'aria-hidden': 'true', class: 'graph key' },
      svg('g', { class: `arrow ${ARROWS[kind][0]}`, '--weight': 0.5 }, svg('path', { d: 'M1 4h24' }))), ARROWS[kind][1])),
    heated && el('span', {}, el('span', { class: 'scale', 'aria-hidden': 'true' }), 'never to most often (logarithmic)'));
}
