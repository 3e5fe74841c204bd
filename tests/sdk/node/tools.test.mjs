import assert from "node:assert/strict";
import { describe, test } from "node:test";

import OpenAI from "openai";
import { zodFunction, zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";

import { asked, client, collect } from "./server.mjs";

const Weather = z.object({ unit: z.enum(["c", "f"]) });
const Verdict = z.object({ colour: z.enum(["red", "green"]), sure: z.boolean() });
const weather = zodFunction({ name: "weather", parameters: Weather });
const named = { type: "function", function: { name: "weather" } };
const forced = {
  ...asked,
  tools: [weather],
  tool_choice: named,
  parallel_tool_calls: false,
  max_completion_tokens: 60,
};
const plain = client.chat.completions.create(forced);

// A few at a time: calls are long, and the server answers them in one batch.
describe("calls and forms", { concurrency: 4 }, () => {
  test("a forced tool is called with valid arguments", async () => {
    const { finish_reason, message } = (await plain).choices[0];
    assert.equal(finish_reason, "tool_calls");
    assert.equal(message.content, null);
    assert.equal(message.tool_calls.length, 1);
    assert.equal(message.tool_calls[0].type, "function");
    Weather.parse(JSON.parse(message.tool_calls[0].function.arguments));
  });

  test("a streamed call has its id once and its arguments in pieces", async () => {
    const chunks = await collect(await client.chat.completions.create({ ...forced, stream: true }));
    const pieces = chunks.flatMap((chunk) => chunk.choices[0].delta.tool_calls ?? []);
    assert.equal(pieces.filter((piece) => piece.id !== undefined).length, 1);
    const text = pieces.map((piece) => piece.function.arguments ?? "").join("");
    assert.equal(text, (await plain).choices[0].message.tool_calls[0].function.arguments);
  });

  test("the stream helper puts a call together", async () => {
    const stream = client.chat.completions.stream(forced);
    const done = [];
    stream.on("tool_calls.function.arguments.done", (event) => done.push(event));
    const message = await stream.finalMessage();
    assert.deepEqual(done.map((event) => event.name), ["weather"]);
    Weather.parse(message.tool_calls[0].function.parsed_arguments);
  });

  test("parse gives the arguments as the schema's value", async () => {
    const { choices } = await client.chat.completions.parse(forced);
    Weather.parse(choices[0].message.tool_calls[0].function.parsed_arguments);
  });

  test("the tool runner really calls, and brings the result back", async () => {
    const called = [];
    const tool = zodFunction({
      name: "weather",
      parameters: Weather,
      function: (given) => {
        called.push(given);
        return "mild";
      },
    });
    const runner = client.chat.completions.runTools(
      { ...forced, tools: [tool], tool_choice: "required" },
      { maxChatCompletions: 2 },
    );
    await runner.done();
    assert.equal(called.length, 2);
    called.forEach((given) => Weather.parse(given));
    const roles = runner.messages.map((message) => message.role);
    assert.deepEqual(roles, ["user", "assistant", "tool", "assistant", "tool"]);
    assert.equal(runner.messages[2].content, "mild");
  });

  test("results go back and an answer comes", async () => {
    const call = (await plain).choices[0].message;
    const result = { role: "tool", tool_call_id: call.tool_calls[0].id, content: "mild" };
    const messages = [...asked.messages, call, result];
    const answer = await client.chat.completions.create({ ...asked, messages, tools: [weather] });
    assert.ok(answer.usage.prompt_tokens > (await plain).usage.prompt_tokens);
  });

  test("parse gives a value of the response format", async () => {
    const { choices } = await client.chat.completions.parse({
      ...asked,
      max_completion_tokens: 60,
      response_format: zodResponseFormat(Verdict, "verdict"),
    });
    Verdict.parse(choices[0].message.parsed);
    assert.equal(choices[0].finish_reason, "stop");
  });

  test("the stream helper parses a response format", async () => {
    const stream = client.chat.completions.stream({
      ...asked,
      max_completion_tokens: 60,
      response_format: zodResponseFormat(Verdict, "verdict"),
    });
    const final = await stream.finalChatCompletion();
    Verdict.parse(final.choices[0].message.parsed);
  });

  test("parse says that an answer was cut", async () => {
    const cut = client.chat.completions.parse({
      ...asked,
      max_completion_tokens: 2,
      response_format: zodResponseFormat(Verdict, "verdict"),
    });
    await assert.rejects(cut, OpenAI.LengthFinishReasonError);
  });

  test("an answer can be held to a JSON object", async () => {
    const { choices } = await client.chat.completions.create({
      ...asked,
      max_completion_tokens: 4,
      response_format: { type: "json_object" },
    });
    assert.match(choices[0].message.content, /^\{/);
  });
});
