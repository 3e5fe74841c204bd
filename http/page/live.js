// The live view: figures, memory and models from the server's snapshots; lanes are the board's.

import { ApiError } from "./api.js";
import { Board } from "./board.js";
import { byId, element, renew, say } from "./dom.js";
import { Flow } from "./flow.js";
import { bytes, count, plural, rate } from "./format.js";
import { area } from "./water.js";

const AGAIN_MS = 1000;
const WIDTH = 600;
const HEIGHT = 56;

export class Live {
  #api;
  #onModels;
  #board;
  #tokens = new Flow();
  #steps = new Flow(4);

  /** `isOurs` knows the page's own requests by id; `onModels` is told what models there are. */
  constructor(api, { isOurs, onModels }) {
    this.#api = api;
    this.#onModels = onModels;
    this.#board = new Board(isOurs, (id) =>
      api.json(`v1/requests/${encodeURIComponent(id)}`, { method: "DELETE" }).catch(() => {}),
    );
  }

  /** Look for as long as the page is seen. A page that nobody sees costs the server nothing. */
  async run() {
    for (;;) {
      await seen();
      await this.#look();
      if (!document.hidden) await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }

  async #look() {
    const leave = new AbortController();
    const onChange = () => document.hidden && leave.abort();
    document.addEventListener("visibilitychange", onChange);
    try {
      for await (const { data } of this.#api.events("live", { signal: leave.signal })) {
        this.#show(JSON.parse(data));
      }
    } catch (error) {
      if (leave.signal.aborted) return;
      if (!(error instanceof ApiError)) console.error(error);
      tell("lost", error.status === 401 ? "no key" : "no connection");
    } finally {
      document.removeEventListener("visibilitychange", onChange);
    }
  }

  #show(snapshot) {
    tell(snapshot.draining ? "draining" : "ready", snapshot.draining ? "draining" : "connected");
    this.#tokens.add(snapshot.at, snapshot.tokens.decoded);
    this.#steps.add(snapshot.at, snapshot.models.reduce((sum, model) => sum + model.steps, 0));
    this.#showFigures(snapshot);
    this.#board.show(snapshot);
    showMemory(snapshot.memory);
    const models = snapshot.models.map((model) => modelOf(model, snapshot.current));
    renew(byId("models"), models, modelLine);
    this.#onModels(models.map(({ id, state, current }) => `${id} ${state} ${current}`).join("\n"));
  }

  #showFigures(snapshot) {
    const busy = snapshot.models.filter((model) => model.running_rows > 0);
    const rows = busy.reduce((sum, model) => sum + model.max_rows, 0);
    say(byId("rate"), rate(this.#tokens.rate));
    say(byId("rows"), rows ? `${snapshot.rows_running} of ${rows}` : String(snapshot.rows_running));
    say(byId("queued"), String(snapshot.queue_depth));
    say(byId("steps"), rate(this.#steps.rate));
    say(byId("reused"), count(snapshot.tokens.cached));
    const { line, fill } = area(this.#tokens.series, WIDTH, HEIGHT);
    byId("history").querySelector(".line").setAttribute("d", line);
    byId("history").querySelector(".fill").setAttribute("d", fill);
  }
}

/** The state of the connection, said only when it changes. */
function tell(state, words) {
  byId("link").dataset.state = document.body.dataset.link = state;
  say(byId("link"), words);
}

async function seen() {
  while (document.hidden) {
    await new Promise((resolve) => {
      document.addEventListener("visibilitychange", resolve, { once: true });
    });
  }
}

function showMemory(memory) {
  const parts = [
    ["weights", "models", memory.weights_bytes],
    ["kv", "rows", memory.kv_bytes],
    ["reserved", "promised to rows", Math.max(0, memory.reserved_bytes - memory.kv_bytes)],
    ["cache", "kept prompts", memory.cache_bytes],
  ];
  const whole = memory.ceiling_bytes ?? memory.budget_bytes;
  const used = parts.reduce((sum, [, , size]) => sum + size, 0);
  const most = Math.max(1, whole, used);
  const bar = byId("bar");
  for (const [name, , size] of parts) {
    const part = bar.querySelector(`.${name}`) ?? bar.appendChild(element("i", { class: name }));
    part.style.width = `${(100 * size) / most}%`;
  }
  const told = parts.filter(([, , size]) => size > 0).map(([name, words, size]) => {
    return { name, size: bytes(size), words };
  });
  const left = bytes(Math.max(0, whole - used));
  const free = { name: "whole", size: left, words: `free of ${bytes(whole)}` };
  renew(byId("parts"), [...told, free], ({ name, size, words }) =>
    element("li", { class: name }, element("b", {}, size), ` ${words}`),
  );
}

/** What is shown of a model. */
function modelOf({ id, state, bytes: size, running_rows, max_rows, pinned }, current) {
  const rows = running_rows ? `${plural(running_rows, "row")} of ${max_rows}` : "";
  return { id, state, size, rows, pinned, current: id === current };
}

function modelLine({ id, state, size, rows, pinned, current }) {
  const notes = [rows, pinned && "pinned", current && "current"].filter(Boolean);
  return element(
    "li",
    { "data-state": state },
    element("span", { class: "name" }, id),
    element("span", { class: "what" }, state),
    element("span", { class: "size" }, size ? bytes(size) : ""),
    element("span", { class: "note" }, notes.join(", ")),
  );
}
