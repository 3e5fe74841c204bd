// How fast a counter grows. Pure: times come in.

const SETTLE_SECONDS = 1.5;

/** `kept` seconds of a counter's growth, in steps of `step` seconds. */
export class Flow {
  #samples = [];

  constructor(kept = 60, step = 0.5) {
    this.kept = kept;
    this.step = step;
  }

  /** The counter stands at `total` at the time `at`, in seconds. A counter that fell was reset. */
  add(at, total) {
    const last = this.#samples.at(-1);
    if (last && (at < last.at || total < last.total)) this.#samples = [];
    this.#samples.push({ at, total });
    const oldest = at - this.kept - SETTLE_SECONDS;
    while (this.#samples.length > 2 && this.#samples[1].at < oldest) this.#samples.shift();
  }

  /** Units per second now. */
  get rate() {
    const last = this.#samples.at(-1);
    return last ? this.#between(last.at - SETTLE_SECONDS, last.at) : 0;
  }

  /** Units per second over each step of the kept time, oldest first. */
  get series() {
    const count = Math.round(this.kept / this.step);
    const now = this.#samples.at(-1)?.at ?? 0;
    return Array.from({ length: count }, (_, place) => {
      const end = now - (count - 1 - place) * this.step;
      return this.#between(end - SETTLE_SECONDS, end);
    });
  }

  #between(from, to) {
    if (this.#samples.length < 2 || to <= this.#samples[0].at) return 0;
    const start = Math.max(from, this.#samples[0].at);
    return (this.#totalAt(to) - this.#totalAt(start)) / (to - from);
  }

  #totalAt(at) {
    const after = this.#samples.findIndex((sample) => sample.at >= at);
    if (after < 0) return this.#samples.at(-1).total;
    if (after === 0) return this.#samples[0].total;
    const [left, right] = [this.#samples[after - 1], this.#samples[after]];
    const share = right.at > left.at ? (at - left.at) / (right.at - left.at) : 1;
    return left.total + share * (right.total - left.total);
  }
}
