// A conversation that lives in this page, and the one answer that may be under way.

import { ApiError } from "./api.js";
import { byId, element, say } from "./dom.js";
import { duration, plural, rate } from "./format.js";
import { showText } from "./text.js";

const NUMBERS = ["temperature", "top_p", "max_tokens", "seed"];
// How near to its end a log counts as being read there, in pixels.
const NEAR = 48;

export class Chat {
  /** Ids of the requests that this page has made. */
  asked = new Set();
  #api;
  #models;
  #messages = [];
  #underWay = null;
  #log = byId("log");
  #hint = this.#log.firstElementChild;

  constructor(api, models) {
    this.#api = api;
    this.#models = models;
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    byId("prompt").addEventListener("keydown", (event) => this.#onKey(event));
    byId("stop").addEventListener("click", () => this.#stop());
    byId("new").addEventListener("click", () => this.#clear());
    addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) this.#stop();
    });
  }

  #onKey(event) {
    // An Enter that ends the choice of a character is not meant for us.
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.#send();
    }
  }

  #send() {
    const field = byId("prompt");
    const content = field.value.trim();
    const wrong = byId("composer").querySelector("input:invalid");
    if (wrong) {
      byId("sampling").open = true;
      wrong.reportValidity();
    }
    if (!content || this.#underWay || wrong) return;
    field.value = "";
    this.#messages.push({ role: "user", content });
    this.#hint.remove();
    this.#append("user", "You").body.textContent = content;
    this.#answer();
  }

  #stop() {
    if (!this.#underWay) return;
    this.#underWay.abort();
    byId("prompt").focus();
  }

  #clear() {
    this.#stop();
    this.#messages = [];
    this.#log.replaceChildren(this.#hint);
    say(byId("told"), "A new chat.");
    byId("prompt").focus();
  }

  // ---- one answer ----------------------------------------------------------------------------

  async #answer() {
    const stop = new AbortController();
    const asked = this.#messages;
    const answer = new Answer(this.#append("answer", this.#models.chosen ?? "Answer"));
    this.#begin(stop);
    try {
      await this.#read(answer, stop.signal);
      answer.finish();
    } catch (error) {
      if (stop.signal.aborted) answer.finish("stopped");
      else answer.fail(error);
    }
    this.#end(stop);
    if (asked !== this.#messages) return;
    if (answer.text || answer.ended) asked.push({ role: "assistant", content: answer.text });
    else this.#takeBack();
    say(byId("told"), answer.told);
  }

  async #read(answer, signal) {
    const id = `page-${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
    this.asked.add(id);
    const frames = this.#api.events("v1/chat/completions", {
      body: this.#body(),
      id,
      signal,
      insists: true,
    });
    for await (const { data } of frames) {
      if (data === "[DONE]") return;
      const near = this.#log.scrollHeight - this.#log.scrollTop - this.#log.clientHeight < NEAR;
      answer.take(JSON.parse(data));
      if (near) this.#log.scrollTop = this.#log.scrollHeight;
    }
    if (!answer.ended) throw new ApiError("The stream broke off.");
  }

  #body() {
    const system = byId("system").value.trim();
    const first = system ? [{ role: "system", content: system }] : [];
    const set = NUMBERS.filter((name) => byId(name).value !== "");
    return {
      model: this.#models.chosen,
      messages: [...first, ...this.#messages],
      stream: true,
      stream_options: { include_usage: true },
      ...Object.fromEntries(set.map((name) => [name, Number(byId(name).value)])),
    };
  }

  #begin(stop) {
    this.#underWay = stop;
    byId("send").hidden = true;
    byId("stop").hidden = false;
    say(byId("told"), "");
    this.#log.scrollTop = this.#log.scrollHeight;
  }

  #end(stop) {
    if (this.#underWay !== stop) return;
    this.#underWay = null;
    // A button that goes would take the focus with it.
    const focused = document.activeElement === byId("stop");
    byId("send").hidden = false;
    byId("stop").hidden = true;
    if (focused) byId("prompt").focus();
  }

  /** A message that was not answered goes back to where it can be sent again. */
  #takeBack() {
    const { content } = this.#messages.pop();
    const field = byId("prompt");
    if (!field.value) field.value = content;
  }

  #append(kind, name) {
    const body = element("div", { class: "body" });
    const message = element("article", { class: kind }, element("h3", {}, name), body);
    this.#log.append(message);
    this.#log.scrollTop = this.#log.scrollHeight;
    return { message, body };
  }
}

/** One answer as it comes in. */
class Answer {
  text = "";
  ended = false;
  told = "";
  #message;
  #body;
  #thinking = null;
  #thoughts = "";
  #began = performance.now();
  #first = null;
  #tokens = null;
  #reason = null;
  #warnings = [];
  #drawing = false;

  constructor({ message, body }) {
    this.#message = message;
    this.#body = body;
    message.setAttribute("aria-busy", "true");
  }

  take(chunk) {
    if (chunk.error) throw new ApiError(chunk.error.message, 0, chunk.error.code);
    if (chunk.warnings) this.#warnings.push(...chunk.warnings);
    if (chunk.usage) this.#tokens = chunk.usage.completion_tokens;
    const choice = chunk.choices?.[0];
    if (!choice) return;
    const { content, reasoning_content: thoughts } = choice.delta;
    if (content || thoughts) this.#first ??= performance.now();
    this.text += content ?? "";
    this.#thoughts += thoughts ?? "";
    if (choice.finish_reason) {
      this.ended = true;
      this.#reason = choice.finish_reason;
    }
    this.#draw();
  }

  /** At most once for each frame of the screen. */
  #draw() {
    if (this.#drawing) return;
    this.#drawing = true;
    requestAnimationFrame(() => {
      this.#drawing = false;
      this.#show();
    });
  }

  #show() {
    if (this.#thoughts) {
      this.#thinking ??= this.#openThoughts();
      say(this.#thinking, this.#thoughts.trim());
    }
    showText(this.#body, this.text);
  }

  #openThoughts() {
    const thoughts = element("p");
    this.#body.before(
      element("details", { class: "thoughts" }, element("summary", {}, "Thinking"), thoughts),
    );
    return thoughts;
  }

  finish(how = null) {
    this.told = how === "stopped" ? "Stopped." : "The answer is complete.";
    const end = how ?? (this.#reason === "length" ? "the limit of tokens was reached" : null);
    this.#close([end, ...this.#figures(), ...this.#warnings.map((warning) => warning.message)]);
  }

  #figures() {
    if (this.#first === null) return [];
    const figures = [`first after ${duration(this.#first - this.#began)}`];
    if (this.#tokens !== null) {
      const seconds = (performance.now() - this.#first) / 1000;
      figures.unshift(plural(this.#tokens, "token"));
      if (this.#tokens > 1) figures.push(`${rate((this.#tokens - 1) / seconds)} per second`);
    }
    return figures;
  }

  fail(error) {
    const known = error instanceof ApiError;
    this.told = known ? error.message : "The page could not read the answer.";
    this.#message.classList.add("failed");
    this.#close([this.told]);
  }

  #close(notes) {
    this.#show();
    this.#message.removeAttribute("aria-busy");
    this.#message.append(element("p", { class: "notes" }, notes.filter(Boolean).join(" · ")));
  }
}
