import assert from "node:assert/strict";
import { test } from "node:test";

import { Flow } from "../../../http/page/flow.js";
import { bytes, count, duration, plural, rate } from "../../../http/page/format.js";
import {
  BED,
  area,
  basinLevel,
  gateAt,
  headAt,
  leftOf,
  race,
  towards,
  water,
  weir,
} from "../../../http/page/water.js";

test("bytes have three digits at most", () => {
  assert.deepEqual(
    [0, 999, 1000, 93_400_000, 999_600_000, 1.5e9, 16e12].map(bytes),
    ["0 B", "999 B", "1 kB", "93.4 MB", "1 GB", "1.5 GB", "16 TB"],
  );
});

test("times and counts read well", () => {
  assert.deepEqual([3.14159, 250, 1500, 59_960, 3_600_000].map(duration), [
    "3.14 ms", "250 ms", "1.5 s", "1 min 0 s", "1 h 0 min",
  ]);
  assert.equal(count(1234567), "1\u202f234\u202f567");
  assert.deepEqual([plural(1, "row"), plural(2, "row")], ["1 row", "2 rows"]);
  assert.deepEqual([0, 3.25, 41.7].map(rate), ["0", "3.3", "42"]);
});

test("an even flow has an even rate", () => {
  const flow = new Flow(10, 0.5);
  for (let at = 0; at <= 20; at += 0.25) flow.add(at, 80 * at);
  assert.ok(Math.abs(flow.rate - 80) < 1e-9);
  assert.equal(flow.series.length, 20);
  assert.ok(flow.series.every((value) => Math.abs(value - 80) < 1e-9));
});

test("a flow that stops has no rate soon after", () => {
  const flow = new Flow();
  for (let at = 0; at <= 8; at += 0.25) flow.add(at, 80 * Math.min(at, 4));
  assert.equal(flow.rate, 0);
});

test("a server that began anew begins anew here", () => {
  const flow = new Flow();
  flow.add(100, 5000);
  flow.add(1, 0);
  flow.add(2, 30);
  assert.equal(flow.rate, 20);
});

test("a lane fills from its gate on, and no further than its end", () => {
  assert.equal(headAt(600, 0, 128), gateAt(600));
  assert.equal(headAt(600, 128, 128), 600);
  assert.equal(headAt(600, 500, 128), 600);
});

test("water lies between its ends and above the bed", () => {
  for (const phase of [0, 1, 2.5, 9]) {
    const numbers = race(600, 300, 1, { phase, swell: 1.5 }).match(/-?[\d.]+ -?[\d.]+/g);
    for (const [x, y] of numbers.map((pair) => pair.split(" ").map(Number))) {
      assert.ok(x >= gateAt(600) - 1 && x <= 300);
      assert.ok(y <= BED && y >= 0);
    }
  }
  assert.equal(water(10, 10, 17), "");
});

test("an answer's limit is marked where the lane reaches as far", () => {
  assert.ok(weir(600, 64, 128).startsWith("M339 "));
  assert.equal(weir(600, 200, 128), "");
  assert.equal(weir(600, null, 128), "");
});

test("what moves comes nearer, and is there at once where nothing may move", () => {
  assert.equal(towards(0, 10, 0), 0);
  assert.ok(towards(0, 10, 0.1) > 4 && towards(0, 10, 0.1) < 10);
  assert.equal(towards(0, 10, Infinity), 10);
});

test("a basin is filled while its prompt is read", () => {
  assert.equal(basinLevel("queued", 5), basinLevel("loading", 9));
  assert.ok(basinLevel("prefilling", 1) > basinLevel("prefilling", 0.1));
});

test("what has ended drains away, sooner where it was cut", () => {
  assert.equal(leftOf({ endedAt: null }, 5), 1);
  const cut = leftOf({ endedAt: 1, state: "cancelled" }, 2);
  assert.ok(cut < leftOf({ endedAt: 1, state: "finished" }, 2));
});

test("a series without any flow is a line on the ground", () => {
  assert.deepEqual(new Set(area([0, 0, 0], 100, 56).line.match(/ [\d.]+/g)), new Set([" 54"]));
});
