// typed arrays, classes, closures, BigInt, maps, sorting and generators
(function () {
  var seed = 7, random = () => (seed = (seed * 16807) % 2147483647);
  class Shape { constructor(n) { this.n = n; } get area() { return this.n * this.size(); } size() { return 1; } }
  class Square extends Shape { size() { return super.size() * this.n; } }
  var sum = 0;
  for (let i = 0; i < 300000; i++) sum += (i % 3 ? new Square(i % 100) : new Shape(i)).area;
  var n = 160, a = new Float64Array(n * n), b = new Float64Array(n * n), c = new Float64Array(n * n);
  for (let i = 0; i < n * n; i++) { a[i] = random() % 10; b[i] = random() % 10; }
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) { let s = 0; for (let k = 0; k < n; k++) s += a[i * n + k] * b[k * n + j]; c[i * n + j] = s; }
  var list = Array.from({ length: 60000 }, random).sort((x, y) => x - y), seen = new Map();
  for (const x of list) seen.set(x % 1000, (seen.get(x % 1000) || 0) + 1);
  function* primes(most) { const no = new Uint8Array(most + 1); for (let p = 2; p <= most; p++) if (!no[p]) { yield p; for (let q = p * p; q <= most; q += p) no[q] = 1; } }
  var count = 0; for (const p of primes(200000)) count += p & 1;
  var big = 1n; for (let i = 1n; i < 700n; i++) big *= i;
  print(sum, c[5], list[7], seen.size, count, String(big).length);
})();
