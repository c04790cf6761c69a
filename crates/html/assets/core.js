// What all pages share: making elements, writing numbers, reading what is in the page.
// Names and source come from strangers: they become text nodes and attributes, never markup.

const SVG = 'http://www.w3.org/2000/svg';

/** Makes an element: `el('a', { href, class, onclick }, 'text', child, …)`. What is null or false is left out. */
function el(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same for drawings. */
function svg(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name.startsWith('--')) element.style.setProperty(name, value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

/** Puts children at the end of an element. */
const put = (parent, ...children) => fill(parent, null, children);

const byId = id => document.getElementById(id);

/** What the page shows. */
const data = JSON.parse(byId('data').textContent);

/** Numbers beyond 2⁵³ are strings in the page, so that none of their digits is lost. */
const value = number => (number === null || number === undefined ? -1 : Number(number));

const groups = new Intl.NumberFormat('en-US');

/** A number with its digits in groups; a dash if it is not known. */
function grouped(number) {
  if (number === null || number === undefined) return '–';
  return groups.format(typeof number === 'string' ? BigInt(number) : number);
}

/** A number in a few characters. */
function short(number) {
  if (number === null || number === undefined) return '–';
  const amount = Number(number);
  if (amount < 10000) return String(number);
  for (const [size, unit] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']]) {
    if (amount >= size) return `${(amount / size).toFixed(1)} ${unit}`;
  }
  return String(number);
}

/** A share in per cent: never rounded up to 100 unless it is all. */
function percent(part, whole) {
  const [a, b] = [Number(part), Number(whole)];
  if (!b || a === b) return '100 %';
  return `${Math.min(99.99, Math.floor(a * 10000 / b) / 100).toFixed(2)} %`;
}

/** Bytes, roughly. */
function bytes(amount) {
  const number = Number(amount);
  for (const [size, unit] of [[1073741824, 'GiB'], [1048576, 'MiB'], [1024, 'KiB']]) {
    if (number >= size) return `${(number / size).toFixed(number % size === 0 || number >= 100 * size ? 0 : 1)} ${unit}`;
  }
  return `${grouped(number)} B`;
}

const several = (number, what) => (Number(number) === 1 ? `1 ${what}` : `${grouped(number)} ${what}s`);

const hex = address => `0x${(typeof address === 'string' ? BigInt(address) : address).toString(16)}`;

const fileName = path => path.slice(path.lastIndexOf('/') + 1) || path;

/** How hot something is, from 0 to 1: counts differ by orders of magnitude. */
function heat(count, most) {
  const [part, whole] = [value(count), value(most)];
  return part <= 0 || whole <= 0 ? 0 : 0.06 + 0.94 * Math.log(part + 1) / Math.log(whole + 1);
}

const shareOf = amount => `${(100 * amount).toFixed(1)}%`;

const packs = document.getElementsByClassName('pack');
const unpacked = new Map();

/** What lies at a place in the packs. */
async function unpack([pack, at]) {
  if (!unpacked.has(pack)) unpacked.set(pack, inflate(packs[pack].textContent));
  return (await unpacked.get(pack))[at];
}

async function inflate(text) {
  if (typeof DecompressionStream === 'undefined') {
    throw new Error('This browser is too old to unpack the code of functions.');
  }
  const packed = Uint8Array.from(atob(text), digit => digit.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('deflate-raw'));
  return new Response(stream).json();
}
