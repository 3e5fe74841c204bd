// What each file here begins with: the clients, a short question, and plain looks at the server.

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

export const url = process.env.SERVED_URL;
const options = { apiKey: "any", maxRetries: 0, timeout: 240_000 };
export const client = new OpenAI({ ...options, baseURL: `${url}/v1` });
export const claude = new Anthropic({ ...options, baseURL: url });

export const asked = {
  model: "default",
  messages: [{ role: "user", content: "Write one short sentence about the sea." }],
  temperature: 0,
  max_completion_tokens: 6,
};
export const long = { ...asked, max_completion_tokens: 4000, ignore_eos: true, stream: true };

export async function collect(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}

export async function live() {
  const answer = await fetch(`${url}/v1/requests`);
  return (await answer.json()).data;
}

// Until the request that gave this answer is gone: with it go its row, its lease and its place.
export async function gone(responseId, seconds = 120) {
  const end = Date.now() + 1000 * seconds;
  while ((await live()).some((request) => request.response_id === responseId)) {
    if (Date.now() > end) throw new Error(`${responseId} is still there`);
    await new Promise((resume) => setTimeout(resume, 20));
  }
}
