import assert from "node:assert/strict";
import { test } from "node:test";

import { blocksOf, piecesOf } from "../../../http/page/text.js";

const kinds = (text) => blocksOf(text).map((block) => block.kind);

test("prose and code apart", () => {
  assert.deepEqual(blocksOf("Look:\n\n```python\nx = 1\n```\nDone.\n"), [
    { kind: "prose", language: undefined, text: "Look:" },
    { kind: "code", language: "python", text: "x = 1" },
    { kind: "prose", language: undefined, text: "Done." },
  ]);
});

test("a fence that is still open is code", () => {
  assert.deepEqual(kinds("```\nx"), ["code"]);
  assert.equal(blocksOf("~~~js\na\n```\nb").at(-1).text, "a\n```\nb");
});

test("a longer fence holds a shorter one", () => {
  assert.deepEqual(blocksOf("````\n```\n````").map((block) => block.text), ["```"]);
});

test("a text that grows never loses what it had", () => {
  const text = "a `b`\n```c\nd\n```\ne";
  for (let length = 1; length <= text.length; length += 1) {
    const shown = blocksOf(text.slice(0, length)).map((block) => block.text).join("");
    assert.ok(shown.length <= length);
  }
});

test("markup is text like any other", () => {
  assert.deepEqual(piecesOf("<b>`<i>`</b>"), [
    { kind: "text", text: "<b>" },
    { kind: "code", text: "<i>" },
    { kind: "text", text: "</b>" },
  ]);
  assert.deepEqual(piecesOf("a ` b ** c"), [{ kind: "text", text: "a ` b ** c" }]);
});

test("what is strong is shown so, and never in code", () => {
  assert.deepEqual(piecesOf("**Water:** `a**b**`").map((piece) => piece.kind), [
    "strong",
    "text",
    "code",
  ]);
});
