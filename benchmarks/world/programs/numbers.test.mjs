import { test, describe, it, mock } from "node:test";
import assert from "node:assert/strict";

test("adds", () => assert.equal(1 + 1, 2));
test("fails on purpose", { todo: true }, () => assert.equal(1 + 1, 3));
test("later", async () => assert.equal(await new Promise((done) => setTimeout(done, 20, 5)), 5));
test("skipped", { skip: true }, () => {});
describe("many", () => {
  for (let i = 0; i < 50; i++) it(`number ${i}`, () => assert.deepEqual({ i, square: i * i }, { i, square: i ** 2 }));
});
test("mocks", () => {
  const twice = mock.fn((n) => n * 2);
  assert.equal(twice(4), 8);
  assert.equal(twice.mock.callCount(), 1);
});
