// Calls to the server this page came from, and to no other.

import { FrameReader } from "./frames.js";

const BASE = new URL("../", import.meta.url);
const KEPT_KEY = "headrace.key";

/** An answer of no, or none at all (`status` 0). */
export class ApiError extends Error {
  constructor(message, status = 0, code = null) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/**
 * `askForKey(refused)` gives a key, or null where the person has none; it is asked once, however
 * many calls wait for it, and then again only by a call that insists. The key lives as long as this
 * tab.
 */
export class Api {
  #askForKey;
  #asking = null;
  #declined = false;

  constructor(askForKey) {
    this.#askForKey = askForKey;
  }

  /** What a GET or DELETE answers, as JSON. */
  async json(path, { method = "GET", signal } = {}) {
    return (await this.#call(path, { method, signal })).json();
  }

  /** The frames of an event stream, as they come. */
  async *events(path, { body, id, signal, insists = false } = {}) {
    const options = { method: "GET", signal, headers: { accept: "text/event-stream" } };
    if (body !== undefined) {
      options.method = "POST";
      options.body = JSON.stringify(body);
      options.headers["content-type"] = "application/json";
    }
    if (id) options.headers["x-request-id"] = id;
    const answer = await this.#call(path, options, insists);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const frames = new FrameReader();
    try {
      for (;;) {
        const { value, done } = await overNetwork(() => reader.read(), "The connection was lost.");
        if (done) return;
        yield* frames.feed(value);
      }
    } finally {
      // Whoever stops reading hangs up: that is how a request is cancelled.
      reader.cancel().catch(() => {});
    }
  }

  async #call(path, options, insists = false) {
    for (;;) {
      const key = sessionStorage.getItem(KEPT_KEY);
      const answer = await reach(path, withKey(options, key));
      if (answer.ok) return answer;
      const error = await errorOf(answer);
      if (error.status !== 401 || !(await this.#newKey(key, insists))) throw error;
    }
  }

  /** Whether there is another key to try than `refused`. */
  async #newKey(refused, insists) {
    if (sessionStorage.getItem(KEPT_KEY) !== refused) return true;
    if (this.#declined && !insists) return false;
    this.#asking ??= this.#askForKey(refused !== null).finally(() => {
      this.#asking = null;
    });
    const key = await this.#asking;
    this.#declined = !key;
    if (key) sessionStorage.setItem(KEPT_KEY, key);
    return Boolean(key);
  }
}

function withKey(options, key) {
  const headers = { ...options.headers };
  if (key !== null) headers.authorization = `Bearer ${key}`;
  return { ...options, headers };
}

function reach(path, options) {
  const request = { ...options, cache: "no-store", redirect: "error" };
  return overNetwork(() => fetch(new URL(path, BASE), request), "The server cannot be reached.");
}

/** What a call brings; where the network fails it, an error with these words. */
async function overNetwork(call, words) {
  try {
    return await call();
  } catch (error) {
    throw error.name === "AbortError" ? error : new ApiError(words);
  }
}

async function errorOf(answer) {
  try {
    const { error } = await answer.json();
    return new ApiError(error.message, answer.status, error.code);
  } catch {
    return new ApiError(`The server answered with status ${answer.status}.`, answer.status);
  }
}
