import assert from "node:assert/strict";
import { test } from "node:test";

import OpenAI from "openai";

import { asked, client, collect, gone, live, long } from "./server.mjs";

const create = (fields = {}) => client.chat.completions.create({ ...asked, ...fields });
const plain = create();
const said = async () => (await plain).choices[0].message.content;
const joined = (chunks, index = 0) =>
  chunks
    .flatMap((chunk) => chunk.choices.filter((choice) => choice.index === index))
    .map((choice) => choice.delta.content ?? "")
    .join("");

test("a chat has a text, a reason and its usage", async () => {
  const { choices, usage, object } = await plain;
  assert.equal(object, "chat.completion");
  assert.equal(choices[0].message.role, "assistant");
  assert.ok(choices[0].message.content);
  assert.equal(choices[0].finish_reason, "length");
  assert.equal(usage.completion_tokens, 6);
  assert.equal(usage.total_tokens, usage.prompt_tokens + 6);
});

test("a chat stream says the same", async () => {
  const chunks = await collect(await create({ stream: true }));
  assert.equal(joined(chunks), await said());
  assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
  assert.ok(chunks.every((chunk) => chunk.choices.length === 1));
  assert.equal(chunks.at(-1).choices[0].finish_reason, "length");
});

test("a chat stream ends with the usage that was asked for", async () => {
  const chunks = await collect(await create({ stream: true, stream_options: { include_usage: true } }));
  const last = chunks.pop();
  assert.deepEqual(last.choices, []);
  assert.deepEqual(last.usage, { ...(await plain).usage, ...last.usage });
  assert.ok(chunks.every((chunk) => chunk.usage === null));
});

test("the chat stream helper gathers text, message and usage", async () => {
  const pieces = [];
  const stream = client.chat.completions.stream({ ...asked, stream_options: { include_usage: true } });
  stream.on("content", (piece) => pieces.push(piece));
  assert.equal(await stream.finalContent(), await said());
  assert.equal(pieces.join(""), await said());
  assert.equal((await stream.totalUsage()).completion_tokens, 6);
  assert.equal((await stream.finalChatCompletion()).choices[0].finish_reason, "length");
});

test("a chat stream can be teed and piped", async () => {
  const [left, right] = (await create({ stream: true })).tee();
  const lines = new TextDecoder().decode(Buffer.concat(await collect(right.toReadableStream())));
  const chunks = lines.trim().split("\n").map((line) => JSON.parse(line));
  assert.equal(joined(chunks), joined(await collect(left)));
});

test("a stop string is cut off, streamed or not", async () => {
  const text = await said();
  const stop = text.slice(5, 9);
  const cut = text.slice(0, text.indexOf(stop));
  assert.equal((await create({ stop })).choices[0].message.content, cut);
  assert.equal(joined(await collect(await create({ stop: [stop], stream: true }))), cut);
});

test("a seed repeats a draw", async () => {
  const draw = { temperature: 1, seed: 11, max_completion_tokens: 4 };
  const [one, other] = await Promise.all([create(draw), create(draw)]);
  assert.equal(one.choices[0].message.content, other.choices[0].message.content);
});

test("several choices come with their indices", async () => {
  const fields = { n: 2, temperature: 1, seed: 5, max_completion_tokens: 4 };
  const { choices } = await create(fields);
  assert.deepEqual(choices.map((choice) => choice.index), [0, 1]);
  const chunks = await collect(await create({ ...fields, stream: true }));
  const texts = choices.map((choice) => choice.message.content);
  assert.deepEqual([joined(chunks, 0), joined(chunks, 1)], texts);
});

test("log-probabilities spell the text", async () => {
  const { choices } = await create({ logprobs: true, top_logprobs: 2, max_completion_tokens: 3 });
  const entries = choices[0].logprobs.content;
  const bytes = Buffer.from(entries.flatMap((entry) => entry.bytes));
  assert.equal(bytes.toString(), choices[0].message.content);
  assert.ok(entries.every((entry) => entry.logprob <= 0 && entry.top_logprobs.length === 2));
  assert.equal(entries[0].top_logprobs[0].token, entries[0].token);
});

test("the chat stream helper gathers log-probabilities", async () => {
  const stream = client.chat.completions.stream({ ...asked, logprobs: true, max_completion_tokens: 2 });
  const seen = [];
  stream.on("logprobs.content.delta", ({ content }) => seen.push(...content));
  const final = await stream.finalChatCompletion();
  assert.deepEqual(seen, final.choices[0].logprobs.content);
  assert.equal(seen.length, 2);
});

test("developer messages, parts and null contents are taken", async () => {
  const messages = [
    { role: "developer", content: "Be brief." },
    { role: "user", content: [{ type: "text", text: "Hi" }, { type: "text", text: "there" }] },
    { role: "assistant", content: "Hello." },
    { role: "user", content: "Go on.", name: "ann" },
  ];
  const { usage } = await create({ messages, max_completion_tokens: 1 });
  assert.ok(usage.prompt_tokens > 20);
});

test("an aborted stream frees its row", async () => {
  const abort = new AbortController();
  const stream = await client.chat.completions.create(long, { signal: abort.signal });
  let id;
  for await (const chunk of stream) {
    // Those that had come before the abort are still given.
    if (id) continue;
    id = chunk.id;
    assert.ok((await live()).some((request) => request.response_id === id));
    abort.abort();
  }
  assert.ok(id);
  await gone(id);
});

test("a loop that is left early frees its row", async () => {
  let id;
  for await (const chunk of await client.chat.completions.create(long)) {
    id = chunk.id;
    break;
  }
  await gone(id);
});

test("an aborted stream helper says so and frees its row", async () => {
  const stream = client.chat.completions.stream(long);
  const id = await new Promise((told) => stream.once("chunk", (chunk) => told(chunk.id)));
  stream.abort();
  await assert.rejects(stream.finalContent(), OpenAI.APIUserAbortError);
  await gone(id);
});

test("a client that waits no longer gets its own error", async () => {
  const { stream, ...whole } = long;
  const answer = client.chat.completions.create(whole, { timeout: 500 });
  await assert.rejects(answer, OpenAI.APIConnectionTimeoutError);
});

test("the response and its headers can be had", async () => {
  const headers = { "X-Request-ID": "from-node" };
  const call = client.chat.completions.create({ ...asked, max_completion_tokens: 1 }, { headers });
  const { data, response, request_id } = await call.withResponse();
  assert.equal(request_id, "from-node");
  assert.match(response.headers.get("content-type"), /^application\/json/);
  assert.equal(data.choices.length, 1);
});

test("many requests at once are answered each", async () => {
  const answers = await Promise.all(
    Array.from({ length: 6 }, (_, index) => create({ seed: index, max_completion_tokens: 2 })),
  );
  assert.equal(new Set(answers.map((answer) => answer.id)).size, 6);
});
