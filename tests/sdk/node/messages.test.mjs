import assert from "node:assert/strict";
import { test } from "node:test";

import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import { z } from "zod";

import { claude, collect, gone } from "./server.mjs";

const Weather = z.object({ unit: z.enum(["c", "f"]) });
const tool = {
  name: "weather",
  description: "Look up the weather.",
  input_schema: {
    type: "object",
    properties: { unit: { type: "string", enum: ["c", "f"] } },
    required: ["unit"],
  },
};
const asked = {
  model: "default",
  max_tokens: 6,
  messages: [{ role: "user", content: "Write one short sentence about the sea." }],
  temperature: 0,
};
const forced = {
  ...asked,
  max_tokens: 60,
  tools: [tool],
  tool_choice: { type: "tool", name: "weather", disable_parallel_tool_use: true },
};
const plain = claude.messages.create(asked);
const call = claude.messages.create(forced);
const said = async () => (await plain).content[0].text;

test("a message has blocks, a reason and its usage", async () => {
  const { content, role, stop_reason, type, usage } = await plain;
  assert.deepEqual([type, role, stop_reason], ["message", "assistant", "max_tokens"]);
  assert.equal(content[0].type, "text");
  assert.equal(usage.output_tokens, 6);
});

test("a message stream has its events in order", async () => {
  const events = await collect(await claude.messages.create({ ...asked, stream: true }));
  const types = events.map((event) => event.type).filter((type) => type !== "ping");
  assert.equal(types[0], "message_start");
  assert.deepEqual(types.slice(-3), ["content_block_stop", "message_delta", "message_stop"]);
  const deltas = events.filter((event) => event.type === "content_block_delta");
  assert.equal(deltas.map((event) => event.delta.text).join(""), await said());
});

test("the message stream helper gives text and the whole message", async () => {
  const pieces = [];
  const stream = claude.messages.stream(asked).on("text", (piece) => pieces.push(piece));
  const final = await stream.finalMessage();
  assert.equal(pieces.join(""), await said());
  assert.deepEqual(final.content, (await plain).content);
  assert.equal(final.usage.output_tokens, 6);
});

test("a message says which stop sequence ended it", async () => {
  const stop = (await said()).slice(5, 9);
  const cut = await claude.messages.create({ ...asked, stop_sequences: ["never said", stop] });
  assert.deepEqual([cut.stop_reason, cut.stop_sequence], ["stop_sequence", stop]);
});

test("tokens are counted as they will be", async () => {
  const { max_tokens, temperature, ...prompt } = asked;
  const { input_tokens } = await claude.messages.countTokens(prompt);
  const { usage } = await plain;
  const cached = usage.cache_read_input_tokens + usage.cache_creation_input_tokens;
  assert.equal(input_tokens, usage.input_tokens + cached);
});

test("a forced tool is used with a valid input", async () => {
  const { content, stop_reason } = await call;
  const used = content.filter((block) => block.type === "tool_use");
  assert.equal(stop_reason, "tool_use");
  assert.deepEqual(used.map((block) => block.name), ["weather"]);
  Weather.parse(used[0].input);
});

test("the message stream helper puts an input together", async () => {
  const stream = claude.messages.stream(forced);
  const seen = [];
  stream.on("inputJson", (piece) => seen.push(piece));
  const final = await stream.finalMessage();
  const used = final.content.find((block) => block.type === "tool_use");
  assert.deepEqual(JSON.parse(seen.join("")), used.input);
});

test("the tool runner really uses its tool", async () => {
  const used = [];
  const runner = claude.beta.messages.toolRunner({
    ...forced,
    max_iterations: 2,
    tools: [
      betaZodTool({
        name: "weather",
        description: "Look up the weather.",
        inputSchema: Weather,
        run: (input) => {
          used.push(input);
          return "mild";
        },
      }),
    ],
  });
  const messages = await collect(runner);
  assert.equal(messages.length, 2);
  assert.ok(used.length > 0);
  used.forEach((input) => Weather.parse(input));
});

test("a result goes back and an answer comes", async () => {
  const used = (await call).content.find((block) => block.type === "tool_use");
  const result = { type: "tool_result", tool_use_id: used.id, content: "mild" };
  const messages = [
    ...asked.messages,
    { role: "assistant", content: (await call).content },
    { role: "user", content: [result] },
  ];
  const answer = await claude.messages.create({ ...asked, messages, tools: [tool] });
  assert.ok(answer.usage.input_tokens + answer.usage.cache_read_input_tokens > 0);
});

test("a message can be held to a schema", async () => {
  const message = await claude.messages.parse({
    ...asked,
    max_tokens: 60,
    output_config: { format: zodOutputFormat(Weather) },
  });
  Weather.parse(message.parsed_output);
});

test("an aborted message stream frees its row", async () => {
  const stream = claude.messages.stream({ ...asked, max_tokens: 4000, ignore_eos: true });
  const id = await new Promise((told) =>
    stream.once("streamEvent", (event) => told(event.message.id)),
  );
  stream.abort();
  await assert.rejects(stream.finalMessage(), Anthropic.APIUserAbortError);
  await gone(id);
});

test("refusals are errors of Anthropic's client", async () => {
  const refused = [
    [{ model: "none-such" }, Anthropic.NotFoundError, "not_found_error"],
    [{ temperature: 9 }, Anthropic.BadRequestError, "invalid_request_error"],
    [{ messages: [] }, Anthropic.BadRequestError, "invalid_request_error"],
  ];
  for (const [fields, kind, type] of refused) {
    for (const stream of [false, true]) {
      await assert.rejects(claude.messages.create({ ...asked, ...fields, stream }), (error) => {
        assert.ok(error instanceof kind, `${error}`);
        assert.equal(error.error.error.type, type);
        assert.equal(error.requestID, error.error.request_id);
        return true;
      });
    }
  }
});

test("models are listed in Anthropic's shape", async () => {
  const [model] = await collect(claude.models.list());
  assert.equal(model.type, "model");
  assert.equal((await claude.models.retrieve(model.id)).id, model.id);
});
