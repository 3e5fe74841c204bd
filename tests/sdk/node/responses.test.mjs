import assert from "node:assert/strict";
import { test } from "node:test";

import OpenAI from "openai";
import { zodResponsesFunction, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

import { client, collect, gone } from "./server.mjs";

const Weather = z.object({ unit: z.enum(["c", "f"]) });
const asked = {
  model: "default",
  input: "Write one short sentence about the sea.",
  max_output_tokens: 6,
  temperature: 0,
};
const forced = {
  ...asked,
  max_output_tokens: 60,
  parallel_tool_calls: false,
  tools: [zodResponsesFunction({ name: "weather", parameters: Weather })],
  tool_choice: { type: "function", name: "weather" },
};
const create = (fields = {}) => client.responses.create({ ...asked, ...fields });
const plain = create();
const called = client.responses.parse(forced);

test("a response has its text, its status and its usage", async () => {
  const { object, output_text, status, incomplete_details, usage } = await plain;
  assert.equal(object, "response");
  assert.ok(output_text);
  assert.deepEqual([status, incomplete_details.reason], ["incomplete", "max_output_tokens"]);
  assert.equal(usage.output_tokens, 6);
});

test("a response stream counts its events and ends with the whole", async () => {
  const events = await collect(await create({ stream: true }));
  assert.deepEqual(
    events.map((event) => event.sequence_number),
    events.map((_, index) => index),
  );
  assert.equal(events[0].type, "response.created");
  assert.equal(events.at(-1).type, "response.incomplete");
  const deltas = events.filter((event) => event.type === "response.output_text.delta");
  assert.equal(deltas.map((event) => event.delta).join(""), (await plain).output_text);
});

test("the response stream helper gives the final response", async () => {
  const pieces = [];
  const stream = client.responses.stream(asked);
  stream.on("response.output_text.delta", (event) => pieces.push(event.delta));
  const final = await stream.finalResponse();
  assert.equal(pieces.join(""), (await plain).output_text);
  assert.equal(final.output_text, (await plain).output_text);
});

test("a conversation goes on from a response", async () => {
  const { id, usage } = await plain;
  const next = await create({ input: "Go on.", previous_response_id: id });
  assert.equal(next.previous_response_id, id);
  assert.ok(next.usage.input_tokens > usage.input_tokens);
});

test("a response is kept until it is deleted", async () => {
  const kept = await create({ max_output_tokens: 1 });
  const again = await client.responses.retrieve(kept.id);
  assert.equal(again.output_text, kept.output_text);
  const items = await collect(client.responses.inputItems.list(kept.id));
  assert.deepEqual(items.map((item) => item.role), ["user"]);
  await client.responses.delete(kept.id);
  await assert.rejects(client.responses.retrieve(kept.id), OpenAI.NotFoundError);
});

test("a response that is not stored is not found", async () => {
  const { id } = await create({ store: false, max_output_tokens: 1 });
  await assert.rejects(client.responses.retrieve(id), OpenAI.NotFoundError);
});

test("a forced function is called with valid arguments", async () => {
  const calls = (await called).output.filter((item) => item.type === "function_call");
  assert.deepEqual(calls.map((item) => item.name), ["weather"]);
  Weather.parse(calls[0].parsed_arguments);
});

test("a streamed function call comes in pieces", async () => {
  const events = await collect(await client.responses.create({ ...forced, stream: true }));
  const of = (type) => events.filter((event) => event.type === `response.function_call_arguments.${type}`);
  assert.equal(of("delta").map((event) => event.delta).join(""), of("done")[0].arguments);
});

test("an output of a function goes back and an answer comes", async () => {
  const { call_id } = (await called).output.find((item) => item.type === "function_call");
  const input = [{ type: "function_call_output", call_id, output: "mild" }];
  const { id } = await called;
  const answer = await create({ input, previous_response_id: id, tools: forced.tools });
  assert.ok(answer.usage.input_tokens > (await called).usage.input_tokens);
});

test("a response can be held to a schema", async () => {
  const response = await client.responses.parse({
    ...asked,
    max_output_tokens: 60,
    text: { format: zodTextFormat(Weather, "weather") },
  });
  Weather.parse(response.output_parsed);
});

test("a response in the background is polled and cancelled", async () => {
  const begun = await create({ background: true, max_output_tokens: 4000, ignore_eos: true });
  assert.ok(["queued", "in_progress"].includes(begun.status));
  assert.equal((await client.responses.retrieve(begun.id)).id, begun.id);
  assert.equal((await client.responses.cancel(begun.id)).status, "cancelled");
  assert.equal((await client.responses.retrieve(begun.id)).status, "cancelled");
  await gone(begun.id);
});

test("an aborted response stream frees its row", async () => {
  const abort = new AbortController();
  const fields = { ...asked, max_output_tokens: 4000, ignore_eos: true, stream: true };
  const stream = await client.responses.create(fields, { signal: abort.signal });
  let id;
  for await (const event of stream) {
    id ??= event.response.id;
    abort.abort();
  }
  await gone(id);
});

test("refusals of responses are errors of the client's own", async () => {
  const refused = [
    [{ model: "none-such" }, OpenAI.NotFoundError, "model"],
    [{ temperature: 9 }, OpenAI.BadRequestError, "temperature"],
    [{ previous_response_id: "resp_0" }, OpenAI.NotFoundError, "previous_response_id"],
  ];
  for (const [fields, kind, param] of refused) {
    for (const stream of [false, true]) {
      await assert.rejects(create({ ...fields, stream }), (error) => {
        assert.ok(error instanceof kind, `${error}`);
        assert.equal(error.param, param);
        return true;
      });
    }
  }
});
