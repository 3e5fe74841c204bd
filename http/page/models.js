// Which model answers.

import { byId, element } from "./dom.js";

/** The choice of a model, kept up with what the server has. */
export class ModelChoice {
  #api;
  #select = byId("model");
  #known = "";
  #rows = [];

  constructor(api) {
    this.#api = api;
    this.#select.addEventListener("change", () => this.#showDefaults());
  }

  get chosen() {
    return this.#select.value || undefined;
  }

  /** Read the list anew if other models, or other states of them, are there than before. */
  async keepUp(key) {
    if (key === this.#known) return;
    this.#known = key;
    try {
      const { data } = await this.#api.json("v1/models");
      this.#show(data.filter((row) => row.capabilities.chat_completions));
    } catch {
      this.#known = "";
    }
  }

  #show(rows) {
    const chosen = this.#select.value;
    const current = rows.find((row) => row.current) ?? rows[0];
    this.#rows = rows;
    this.#select.replaceChildren(
      ...rows.map((row) => element("option", { value: row.id }, row.id)),
    );
    this.#select.value = rows.some((row) => row.id === chosen) ? chosen : (current?.id ?? "");
    this.#showDefaults();
  }

  /** What a field that is left empty stands for. */
  #showDefaults() {
    const defaults = this.#rows.find((row) => row.id === this.#select.value)?.gen_defaults;
    for (const name of ["temperature", "top_p"]) {
      byId(name).placeholder = defaults?.[name] ?? "";
    }
  }
}
