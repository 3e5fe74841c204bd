// The lanes on the screen, and the clock that moves them. What lanes there are is decided in
// lanes.js.

import { byId, element, say } from "./dom.js";
import { LEAST_RULER, advance, rulerOf } from "./lanes.js";
import { Strip } from "./strip.js";
import { QUARTERS, headAt, towards } from "./water.js";

const still = matchMedia("(prefers-reduced-motion: reduce)");

export class Board {
  #isOurs;
  #onCancel;
  #lanes = new Map();
  #strips = new Map();
  #list = byId("lanes");
  #ruler = LEAST_RULER;
  // On its way to the ruler, so that lanes are not torn when it doubles.
  #shownRuler = LEAST_RULER;
  #severalModels = false;
  #width = 0;
  #drawnAt = 0;
  #drawing = false;
  // The server's clock less ours, in seconds.
  #offset = 0;

  constructor(isOurs, onCancel) {
    this.#isOurs = isOurs;
    this.#onCancel = onCancel;
    new ResizeObserver(() => this.#measure()).observe(this.#list);
  }

  show(snapshot) {
    this.#offset = snapshot.at - now();
    this.#lanes = advance(this.#lanes, snapshot);
    this.#ruler = rulerOf(this.#lanes);
    this.#severalModels = snapshot.models.filter((model) => model.bytes > 0).length > 1;
    this.#reconcile();
    byId("still").hidden = this.#lanes.size > 0;
    byId("ruler").hidden = this.#lanes.size === 0;
    byId("more").hidden = snapshot.rows_left_out === 0;
    say(byId("more"), `and ${snapshot.rows_left_out} more`);
    this.#showRuler();
    this.#draw();
  }

  #reconcile() {
    for (const [ticket, strip] of this.#strips) {
      if (!this.#lanes.has(ticket)) {
        strip.item.remove();
        this.#strips.delete(ticket);
      }
    }
    for (const [ticket, lane] of this.#lanes) {
      let strip = this.#strips.get(ticket);
      if (!strip) {
        strip = new Strip(lane, this.#isOurs(lane.id), this.#onCancel);
        this.#strips.set(ticket, strip);
        this.#list.append(strip.item);
        if (!this.#width) this.#measure();
      }
      strip.take(lane, this.#severalModels);
    }
  }

  #measure() {
    this.#width = this.#list.querySelector("svg")?.clientWidth ?? 0;
    this.#showRuler();
    this.#draw();
  }

  /** Numbers under the notches of the lanes. */
  #showRuler() {
    const node = byId("ruler");
    const drawn = `${this.#ruler} ${this.#width}`;
    if (!this.#width || node.dataset.drawn === drawn) return;
    node.dataset.drawn = drawn;
    node.replaceChildren(...QUARTERS.map((share) => this.#mark(share)));
  }

  #mark(share) {
    const tokens = share * this.#ruler;
    const mark = element("span", {}, share === 1 ? `${tokens} tokens` : `${tokens}`);
    mark.style.right = `${this.#width - headAt(this.#width, share, 1)}px`;
    return mark;
  }

  /** Draw as long as anything moves. */
  #draw() {
    if (this.#drawing) return;
    this.#drawing = true;
    requestAnimationFrame(() => {
      this.#drawing = false;
      const at = now() + this.#offset;
      const passed = still.matches ? Infinity : Math.min(0.25, now() - this.#drawnAt);
      this.#drawnAt = now();
      this.#shownRuler = towards(this.#shownRuler, this.#ruler, passed);
      for (const strip of this.#strips.values()) {
        strip.draw(this.#width, this.#shownRuler, at, passed);
      }
      if (this.#strips.size && !still.matches) this.#draw();
    });
  }
}

function now() {
  return performance.now() / 1000;
}
