// How one lane is drawn. What it is comes from lanes.js, and its shapes from water.js.

import { drawing, element, say } from "./dom.js";
import { count, duration, plural, rate } from "./format.js";
import { wordsOf } from "./lanes.js";
import {
  BED, HEIGHT, basin, basinLevel, bed, gateAt, headAt, leftOf, race, towards, weir,
} from "./water.js";

const WORDS = { plural, duration, rate };

/** One lane on the screen; `onCancel` is given the id of a request that is to end. */
export class Strip {
  #lane;
  #since = null;
  // In tokens of one row.
  #tokens = 0;
  #head = 0;
  #phase = 0;
  #about = element("small");
  #first = element("b");
  #second = element("small");
  #bed = drawing("path", { class: "bed" });
  #back = drawing("path", { class: "back" });
  #front = drawing("path", { class: "front" });
  #pool = drawing("path", { class: "front" });
  #gate = drawing("path", { class: "gate" });
  #weir = drawing("path", { class: "weir" });
  #button = element("button", { type: "button" }, "×");
  #isOurs;

  constructor(lane, isOurs, onCancel) {
    this.#isOurs = isOurs;
    const picture = drawing("svg", { "aria-hidden": "true", height: HEIGHT });
    picture.append(this.#bed, this.#back, this.#front, this.#pool, this.#weir, this.#gate);
    this.#button.setAttribute("aria-label", `Cancel the ${lane.kind} request`);
    this.#button.addEventListener("click", () => onCancel(this.#lane.id));
    const many = lane.rows > 1 ? ` × ${lane.rows}` : "";
    const kind = element("b", {}, `${lane.kind}${many}`);
    const who = element("span", { class: "who" }, kind, this.#about);
    const what = element("span", { class: "what" }, this.#first, " ", this.#second);
    this.item = element("li", { "data-ours": String(isOurs) }, who, picture, what, this.#button);
  }

  take(lane, severalModels) {
    if (lane.state !== this.#lane?.state) this.#since = null;
    this.#lane = lane;
    this.item.dataset.state = lane.state;
    this.item.dataset.ticket = lane.ticket;
    this.#button.hidden = lane.endedAt !== null || !lane.id;
    const [first, second] = wordsOf(lane, WORDS);
    say(this.#first, first);
    say(this.#second, second);
    const prompt = lane.prompt ? `${count(lane.prompt)}-token prompt` : "";
    say(this.#about, this.#isOurs ? "from this page" : severalModels ? lane.model : prompt);
  }

  /** `passed` are the seconds since it was drawn last; without end where nothing is to move. */
  draw(width, ruler, at, passed) {
    if (!width) return;
    const lane = this.#lane;
    this.#since ??= at;
    // Snapshots are quarters of a second apart; the water goes from one to the next evenly.
    this.#tokens = towards(this.#tokens, lane.generated / Math.max(1, lane.rows), passed);
    this.#head = headAt(width, this.#tokens, ruler);
    const speed = passed === Infinity ? 0 : speedOf(lane);
    this.#phase += speed ? passed * speed : 0;
    this.#paint(width, ruler, at, Math.min(1.5, speed / 3));
  }

  #paint(width, ruler, at, swell) {
    const lane = this.#lane;
    const gate = gateAt(width);
    const left = leftOf(lane, at);
    const motion = { phase: this.#phase, swell };
    const level = basinLevel(lane.state, at - this.#since) * left;
    this.#bed.setAttribute("d", bed(width));
    this.#pool.setAttribute("d", basin(width, level, motion));
    this.#front.setAttribute("d", race(width, this.#head, left, motion));
    const behind = { phase: 1.9 + 0.8 * this.#phase, swell: 1.4 * swell };
    this.#back.setAttribute("d", race(width, this.#head, left * 1.12, behind));
    this.#gate.setAttribute("d", this.#gateOf(lane, gate, at));
    this.#weir.setAttribute("d", weir(width, lane.most, ruler));
  }

  /** Shut before the row is in the batch, up while it is, and down where it was cut. */
  #gateOf(lane, gate, at) {
    if (["cancelled", "failed"].includes(lane.state)) {
      const fallen = Math.min(1, (at - lane.endedAt) / 0.25);
      return `M${Math.max(gate, this.#head)} ${3 + 6 * fallen}V${12 + (BED - 12) * fallen}`;
    }
    const open = lane.state === "decoding" || lane.state === "finished";
    return `M${gate} 3V${open ? 11 : BED}`;
  }
}

/** How fast its water runs: as the row does. */
function speedOf(lane) {
  if (lane.state === "prefilling") return 3;
  return lane.rate ? 2.5 + Math.min(9, lane.rate / 8) : 0;
}
