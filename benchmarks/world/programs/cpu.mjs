// Prints numbers that do not depend on time: hot loops, strings, objects, garbage, workers, WebAssembly.
import { Worker, isMainThread, workerData, parentPort } from "node:worker_threads";
import { createHash, pbkdf2Sync } from "node:crypto";
import { gzipSync, gunzipSync } from "node:zlib";
import { fileURLToPath } from "node:url";

function mandelbrot(size) {
  let inside = 0;
  for (let y = 0; y < size; y++)
    for (let x = 0; x < size; x++) {
      let a = 0, b = 0, n = 0;
      const cx = (x / size) * 3 - 2, cy = (y / size) * 2 - 1;
      while (n < 200 && a * a + b * b < 4) [a, b, n] = [a * a - b * b + cx, 2 * a * b + cy, n + 1];
      if (n === 200) inside++;
    }
  return inside;
}

function sieve(limit) {
  const composite = new Uint8Array(limit + 1);
  let primes = 0;
  for (let i = 2; i <= limit; i++) {
    if (composite[i]) continue;
    primes++;
    for (let j = i * i; j <= limit; j += i) composite[j] = 1;
  }
  return primes;
}

class Tree {
  constructor(depth) { this.left = depth ? new Tree(depth - 1) : null; this.right = depth ? new Tree(depth - 1) : null; }
  count() { return 1 + (this.left?.count() ?? 0) + (this.right?.count() ?? 0); }
}

function garbage() {
  let nodes = 0;
  for (let i = 0; i < 12; i++) nodes += new Tree(15).count();
  return nodes;
}

// Shapes change, so that compiled code has to be given up.
function unstable() {
  const add = (a, b) => a + b;
  let sum = 0;
  for (let i = 0; i < 200000; i++) sum = add(sum, i % 7);
  let text = "";
  for (let i = 0; i < 50000; i++) text = add(text, i % 10);
  const objects = Array.from({ length: 50000 }, (_, i) => (i % 3 ? { a: i, b: 1 } : { b: 2, c: i, a: -i }));
  return [sum, text.length, objects.reduce((s, o) => s + o.a * o.b, 0)];
}

function exceptions() {
  let caught = 0;
  for (let i = 0; i < 20000; i++) try { if (i % 3 === 0) null.field; } catch { caught++; }
  return caught;
}

const text = () => Array.from({ length: 20000 }, (_, i) => `line ${i * 7919 % 1000} of the text`).join("\n");

async function wasm() {
  // (func (param i32) (result i32)): the sum of all numbers below the parameter.
  const bytes = Uint8Array.from([0,97,115,109,1,0,0,0,1,6,1,96,1,127,1,127,3,2,1,0,7,7,1,3,115,117,109,0,0,10,37,1,35,1,2,127,2,64,3,64,32,1,32,0,79,13,1,32,2,32,1,106,33,2,32,1,65,1,106,33,1,12,0,11,11,32,2,11]);
  const { instance } = await WebAssembly.instantiate(bytes);
  return instance.exports.sum(30000000);
}

if (isMainThread) {
  console.log("mandelbrot", mandelbrot(400));
  console.log("primes", sieve(3000000));
  console.log("nodes", garbage());
  console.log("unstable", ...unstable());
  console.log("caught", exceptions());
  console.log("matches", text().match(/line (\d+)5 of/g).length, text().replace(/[aeiou]/g, "").length);
  console.log("json", JSON.stringify(JSON.parse(JSON.stringify(Array.from({ length: 30000 }, (_, i) => ({ i, s: String(i) }))))).length);
  console.log("hash", createHash("sha256").update(text()).digest("hex"), pbkdf2Sync("a", "b", 20000, 16, "sha512").toString("hex"));
  console.log("zipped", gunzipSync(gzipSync(text())).length);
  console.log("wasm", await wasm());
  console.log("sorted", Array.from({ length: 200000 }, (_, i) => (i * 7919) % 200003).sort((a, b) => a - b)[1000]);
  const big = [1n]; for (let i = 1n; i < 1500n; i++) big.push(big.at(-1) * i);
  console.log("big", String(big.at(-1)).length);
  const workers = [1, 2, 3, 4].map((n) => new Promise((done, fail) => {
    const worker = new Worker(fileURLToPath(import.meta.url), { workerData: n });
    worker.on("message", done).on("error", fail);
  }));
  console.log("workers", ...(await Promise.all(workers)));
} else {
  parentPort.postMessage([workerData, mandelbrot(150), garbage()].join(":"));
}
