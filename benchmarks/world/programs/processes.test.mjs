import { test } from "node:test";
import assert from "node:assert/strict";
import { spawnSync, spawn, execFileSync } from "node:child_process";
import { createServer } from "node:net";
import { readFile, writeFile } from "node:fs/promises";

test("a process", () => assert.equal(execFileSync("/bin/echo", ["hello"]).toString(), "hello\n"));
test("a signal", async () => {
  const child = spawn("/bin/sleep", ["10"]);
  setTimeout(() => child.kill("SIGTERM"), 50);
  const signal = await new Promise((done) => child.on("exit", (_, signal) => done(signal)));
  assert.equal(signal, "SIGTERM");
});
test("an exit code", () => assert.equal(spawnSync("/bin/sh", ["-c", "exit 7"]).status, 7));
test("a server", async () => {
  const server = createServer((socket) => socket.end("served"));
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address();
  const answer = await fetchText(port);
  assert.equal(answer, "served");
  server.close();
});
test("a file", async () => {
  await writeFile("written", "x".repeat(100000));
  assert.equal((await readFile("written")).length, 100000);
});

async function fetchText(port) {
  const { connect } = await import("node:net");
  let text = "";
  const socket = connect(port, "127.0.0.1");
  for await (const part of socket) text += part;
  return text;
}
