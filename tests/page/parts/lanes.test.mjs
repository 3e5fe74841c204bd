import assert from "node:assert/strict";
import { test } from "node:test";

import { LINGER_SECONDS, advance, kindOf, rulerOf, wordsOf } from "../../../http/page/lanes.js";

const WORDS = {
  plural: (value, noun) => `${value} ${noun}s`,
  duration: (ms) => `${ms} ms`,
  rate: (value) => String(Math.round(value)),
};

function row(ticket, fields = {}) {
  return {
    ticket,
    id: `req_${ticket}`,
    route: "/v1/chat/completions",
    model: "m",
    state: "decoding",
    age_ms: 10,
    prompt_tokens: 5,
    generated_tokens: 0,
    most_tokens: 100,
    rows: 1,
    ...fields,
  };
}

function ending(ticket, fields = {}) {
  return {
    ticket,
    model: "m",
    outcome: "cancelled",
    reason: "disconnect",
    prompt_tokens: 5,
    generated_tokens: 7,
    ago_ms: 100,
    freed_ms: 12,
    ...fields,
  };
}

function seen(...snapshots) {
  let lanes = new Map();
  for (const [at, rows, ended = []] of snapshots) lanes = advance(lanes, { at, rows, ended });
  return lanes;
}

test("a lane keeps its place from the queue to its end", () => {
  const lanes = seen(
    [1, [row("t1"), row("t2", { state: "queued" })]],
    [2, [row("t2"), row("t3")], [ending("t1")]],
  );
  assert.deepEqual([...lanes.keys()], ["t1", "t2", "t3"]);
  const states = [...lanes.values()].map((lane) => lane.state);
  assert.deepEqual(states, ["cancelled", "decoding", "decoding"]);
});

test("a lane that was cut says how soon it was free, and goes after a while", () => {
  const cut = [2, [], [ending("t1")]];
  const lane = seen([1, [row("t1")]], cut).get("t1");
  assert.deepEqual(wordsOf(lane, WORDS), ["hung up at 7", "freed in 12 ms"]);
  assert.equal(lane.endedAt, 1.9);
  assert.equal(seen([1, [row("t1")]], cut, [1.8 + LINGER_SECONDS, []]).size, 1);
  assert.equal(seen([1, [row("t1")]], cut, [2 + LINGER_SECONDS, []]).size, 0);
});

test("an end is told once, however often a snapshot tells of it", () => {
  const again = [2.2, [], [ending("t1", { ago_ms: 300 })]];
  const lanes = seen([1, [row("t1")]], [2, [], [ending("t1")]], again);
  assert.equal(lanes.get("t1").endedAt, 1.9);
});

test("a request that came and went between two looks is seen ending", () => {
  const lanes = seen([1, []], [1.25, [], [ending("t9", { outcome: "ok", reason: null })]]);
  assert.equal(lanes.get("t9").state, "finished");
});

test("an end of which a snapshot tells for longer than it is shown is shown once", () => {
  const late = [2.1 + LINGER_SECONDS, [], [ending("t1", { ago_ms: 100 + 1000 * LINGER_SECONDS })]];
  assert.equal(seen([1, [row("t1")]], [2, [], [ending("t1", { ago_ms: 0 })]], late, late).size, 0);
});

test("a lane of which nothing is known any more is gone", () => {
  assert.equal(seen([1, [row("t1")]], [9, []]).size, 0);
});

test("the rate follows the tokens", () => {
  const looks = [0, 1, 2, 3].map((at) => [at, [row("t1", { generated_tokens: 40 * at })]]);
  assert.equal(Math.round(seen(...looks).get("t1").rate), 40);
});

test("the ruler is the same for all, and grows by doubling", () => {
  assert.equal(rulerOf(new Map()), 64);
  const at = (generated_tokens, rows = 1) =>
    rulerOf(seen([1, [row("t", { generated_tokens, rows })]]));
  assert.deepEqual([at(50), at(64), at(200), at(1000)], [64, 128, 256, 2048]);
  assert.equal(at(200, 4), 64);
});

test("every state has its words", () => {
  const words = (fields) => wordsOf(seen([1, [row("t", fields)]]).get("t"), WORDS)[0];
  assert.equal(words({ generated_tokens: 3 }), "3 tokens");
  assert.equal(words({ state: "prefilling" }), "reading");
  assert.equal(words({ state: "queued" }), "queued");
  assert.equal(words({ state: "loading" }), "waiting");
});

test("what is asked for has a short name", () => {
  const routes = ["/v1/chat/completions", "/v1/messages", "/v1/responses/<name>", ""];
  assert.deepEqual(routes.map(kindOf), ["chat", "messages", "responses", "request"]);
});
