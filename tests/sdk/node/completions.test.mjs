import assert from "node:assert/strict";
import { test } from "node:test";

import OpenAI from "openai";

import { asked, client, collect } from "./server.mjs";

const prompt = "The capital of France is 12345";
const ids = [504, 3575, 282, 4649, 314, 216, 33, 34, 35, 36, 37];
const complete = (fields = {}) =>
  client.completions.create({ model: "default", prompt, temperature: 0, max_tokens: 4, ...fields });
const plain = complete();

test("a completion goes on with its prompt", async () => {
  const { choices, object, usage } = await plain;
  assert.equal(object, "text_completion");
  assert.ok(choices[0].text);
  assert.deepEqual([usage.prompt_tokens, usage.completion_tokens], [ids.length, 4]);
});

test("a completion stream says the same", async () => {
  const chunks = await collect(await complete({ stream: true }));
  const text = chunks.map((chunk) => chunk.choices[0].text).join("");
  assert.equal(text, (await plain).choices[0].text);
});

test("token ids are the same prompt", async () => {
  const { choices } = await complete({ prompt: ids });
  assert.equal(choices[0].text, (await plain).choices[0].text);
});

test("several prompts are answered in order, after their echo", async () => {
  const { choices } = await complete({ prompt: ["One,", "Two,"], echo: true, max_tokens: 1 });
  assert.deepEqual(choices.map((choice) => choice.text.slice(0, 4)), ["One,", "Two,"]);
});

test("legacy log-probabilities are lists of one length", async () => {
  const { tokens, token_logprobs, top_logprobs } = (await complete({ logprobs: 1 })).choices[0].logprobs;
  assert.deepEqual([token_logprobs.length, top_logprobs.length], [tokens.length, tokens.length]);
});

test("models are listed and found", async () => {
  const models = await collect(client.models.list());
  const [first] = models;
  assert.equal((await client.models.retrieve(first.id)).id, first.id);
});

async function refuses(fields, kind, param) {
  for (const stream of [false, true]) {
    const answer = client.chat.completions.create({ ...asked, ...fields, stream });
    await assert.rejects(answer, (error) => {
      assert.ok(error instanceof kind, `${error}`);
      assert.equal(error.param, param);
      assert.ok(error.requestID);
      return true;
    });
  }
}

test("an unknown model is not found", () =>
  refuses({ model: "none-such" }, OpenAI.NotFoundError, "model"));

test("a value out of range is a bad request", () =>
  refuses({ temperature: 5 }, OpenAI.BadRequestError, "temperature"));

test("a wrong type is a bad request", () => refuses({ n: "two" }, OpenAI.BadRequestError, "n"));

test("a chat without messages is a bad request", () =>
  refuses({ messages: [] }, OpenAI.BadRequestError, "messages"));

test("a tool that is not there is a bad request", () =>
  refuses({ tool_choice: "required" }, OpenAI.BadRequestError, "tool_choice"));

test("a route that is not served is not found", async () => {
  await assert.rejects(client.moderations.create({ input: "x" }), OpenAI.NotFoundError);
});
