// The frame around all views: header, navigation, routes in the address, keys, colours.

const shell = { views: [], current: null, main: null, title: '', subtitle: '', up: null, filter: null, wanted: false, step: null };

/** Adds a view: `name` in the address, `title` in the navigation (none if it is not there), and who draws it. */
function addView(name, title, draw) {
  shell.views.push({ name, title, draw });
}

/** An address within the page: `link('function', 12, { tab: 'source' })`. */
function link(view, part, options) {
  const path = [view, ...(part === undefined || part === null ? [] : [part])].map(encodeURIComponent).join('/');
  const given = Object.entries(options || {}).filter(([, text]) => text !== '' && text !== null && text !== undefined);
  const query = new URLSearchParams(given).toString();
  return `#/${path}${query ? `?${query}` : ''}`;
}

function route() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const [name, part] = path.split('/').map(text => { try { return decodeURIComponent(text); } catch { return text; } });
  return { name: name || shell.views[0].name, part, options: Object.fromEntries(new URLSearchParams(query || '')) };
}

/** Keeps a choice (a filter, an order) in the address without a new entry in the history. */
function remember(options) {
  const now = route();
  history.replaceState(null, '', link(now.name, now.part, { ...now.options, ...options }));
}

function show() {
  const { name, part, options } = route();
  const view = shell.views.find(each => each.name === name) || shell.views[0];
  for (const item of document.querySelectorAll('nav a')) {
    if (item.dataset.view === (view.title ? view.name : 'functions')) item.setAttribute('aria-current', 'page');
    else item.removeAttribute('aria-current');
  }
  Object.assign(shell, { up: null, filter: null, step: null, current: view.name });
  shell.main.replaceChildren();
  window.scrollTo(0, 0);
  view.draw(shell.main, part, options);
  const heading = shell.main.querySelector('h1');
  if (shell.wanted && shell.filter) shell.filter.focus();
  shell.wanted = false;
  document.title = `${heading ? heading.textContent : view.title} – ${shell.title}`;
}

/** Says something to those who cannot see it. */
function say(text) {
  byId('said').textContent = text;
}

const system = matchMedia('(prefers-color-scheme: dark)');

/** Colours: as the system has them, until somebody chooses. */
const theme = {
  chosen: null,
  get dark() {
    return theme.chosen ? theme.chosen === 'dark' : system.matches;
  },
  apply() {
    document.documentElement.dataset.theme = theme.dark ? 'dark' : 'light';
    const button = byId('theme');
    button.textContent = theme.dark ? '☀' : '☾';
    button.title = theme.dark ? 'Light colours' : 'Dark colours';
    button.setAttribute('aria-label', button.title);
  },
  toggle() {
    theme.chosen = theme.dark ? 'light' : 'dark';
    theme.apply();
    // A page opened from a file may not be allowed to keep anything.
    try { localStorage.setItem('relive-theme', theme.chosen); } catch { /* then it is forgotten */ }
  },
  start() {
    try { theme.chosen = localStorage.getItem('relive-theme'); } catch { /* as above */ }
    system.addEventListener('change', theme.apply);
    theme.apply();
  },
};

const KEYS = [
  ['/', 'filter'], ['j, ↓', 'next row'], ['k, ↑', 'row before'], ['Enter', 'open'], ['Esc', 'leave the filter, or go up'],
  ['1 … 9', 'the views, from left to right'], ['d', 'dark or light'], ['?', 'these keys'],
];

function help() {
  const dialog = byId('keys');
  if (dialog.open) dialog.close(); else dialog.showModal();
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches('input[type=search], input[type=text], textarea, select');
  if (event.key === 'Escape' && !byId('keys').open) {
    if (typing && event.target.value && event.target.type === 'search') {
      event.target.value = '';
      event.target.dispatchEvent(new Event('input', { bubbles: true }));
    } else if (typing) event.target.blur();
    else if (shell.up) location.hash = shell.up;
    event.preventDefault();
    return;
  }
  const down = event.key === 'ArrowDown' || (!typing && event.key === 'j');
  const up = event.key === 'ArrowUp' || (!typing && event.key === 'k');
  if ((down || up) && shell.step && !event.target.matches('select') && !event.target.closest('.own-keys')) {
    if (shell.step(down ? 1 : -1)) event.preventDefault();
    return;
  }
  if (typing) return;
  if (event.key === '/') {
    if (shell.filter) shell.filter.focus();
    else if (shell.views.some(view => view.name === 'functions')) {
      // The view comes when the address has changed.
      shell.wanted = true;
      location.hash = link('functions');
    }
  } else if (event.key === 'd') theme.toggle();
  else if (event.key === '?') help();
  else if (/^[1-9]$/.test(event.key)) {
    const view = shell.views.filter(each => each.title)[event.key - 1];
    if (!view) return;
    location.hash = link(view.name);
  } else return;
  event.preventDefault();
}

/** Puts the frame up and shows what the address asks for. */
function openShell(title, subtitle) {
  Object.assign(shell, { title, subtitle });
  const items = shell.views.filter(view => view.title)
    .map(view => el('li', {}, el('a', { href: link(view.name), 'data-view': view.name }, view.title)));
  shell.main = el('main', { id: 'main', tabindex: '-1' });
  document.body.append(
    el('a', { class: 'skip', href: '#main', onclick: event => { event.preventDefault(); shell.main.focus(); } }, 'To the contents'),
    el('header', {},
      el('a', { class: 'brand', href: link(shell.views[0].name) }, 'relive'),
      el('span', { class: 'about', title: subtitle }, title),
      el('button', { id: 'help', type: 'button', class: 'icon', title: 'Keys', 'aria-label': 'Keys', onclick: help }, '?'),
      el('button', { id: 'theme', type: 'button', class: 'icon', onclick: theme.toggle }),
      el('nav', { 'aria-label': 'Views' }, el('ul', {}, items))),
    shell.main,
    el('div', { id: 'said', class: 'unseen', 'aria-live': 'polite' }),
    el('dialog', { id: 'keys', 'aria-labelledby': 'keys-title' },
      el('h2', { id: 'keys-title' }, 'Keys'),
      el('dl', {}, KEYS.flatMap(([key, what]) => [el('dt', {}, el('kbd', {}, key)), el('dd', {}, what)])),
      el('form', { method: 'dialog' }, el('button', {}, 'Close'))),
  );
  theme.start();
  addEventListener('hashchange', show);
  addEventListener('keydown', pressed);
  show();
}

// ---- parts that views are made of ----

/** A number with what it means. */
function tile(label, number, more, title) {
  return el('div', { class: 'tile', title }, el('dt', {}, label), el('dd', {}, el('strong', {}, number), more && el('span', {}, more)));
}

const tiles = (...all) => el('dl', { class: 'tiles' }, all);

/** A part of a view, with a heading. */
function section(title, ...children) {
  return el('section', {}, el('h2', {}, title), children);
}

const card = (title, ...children) => el('section', { class: 'card' }, el('h2', {}, title), children);

const note = (...children) => el('p', { class: 'note' }, children);

const bar = share => el('span', { class: 'bar', '--share': shareOf(share), 'aria-hidden': 'true' });
