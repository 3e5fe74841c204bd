import assert from "node:assert/strict";
import { test } from "node:test";

import { FrameReader } from "../../../http/page/frames.js";

const STREAM = ': keep-alive\n\ndata: {"a":1}\n\nevent: end\ndata: one\ndata: two\r\n\r\ndata:\n\n';
const FRAMES = [
  { event: "message", data: '{"a":1}' },
  { event: "end", data: "one\ntwo" },
  { event: "message", data: "" },
];

test("a stream that comes at once", () => {
  assert.deepEqual(new FrameReader().feed(STREAM), FRAMES);
});

test("a stream that is cut anywhere", () => {
  for (let first = 0; first <= STREAM.length; first += 1) {
    for (let second = first; second <= STREAM.length; second += 1) {
      const reader = new FrameReader();
      const pieces = [STREAM.slice(0, first), STREAM.slice(first, second), STREAM.slice(second)];
      assert.deepEqual(pieces.flatMap((piece) => reader.feed(piece)), FRAMES);
    }
  }
});

test("a frame that never ends is none", () => {
  assert.deepEqual(new FrameReader().feed("data: half\n"), []);
});
