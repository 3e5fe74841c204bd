// The shapes of one lane: a basin for the prompt, a gate, and a race that fills with the answer.
// Pure: numbers in, path data out. All lengths are in pixels, and y grows downwards.

export const HEIGHT = 40;
export const BED = HEIGHT - 7;
export const QUARTERS = [0, 0.25, 0.5, 0.75, 1];
const STILL = 6;
const FULL = 19;
const DEEP = 17;
const SHALLOW = 10;
const STEP = 6;

/** Where the gate stands, for a lane of this width. */
export function gateAt(width) {
  return Math.round(Math.min(90, Math.max(34, 0.13 * width)));
}

/** Where an answer of so many tokens ends. */
export function headAt(width, tokens, ruler) {
  const gate = gateAt(width);
  return gate + (width - gate) * Math.min(1, tokens / ruler);
}

/** How high the water stands before the gate, `seconds` after the state began. */
export function basinLevel(state, seconds) {
  if (state === "queued" || state === "loading" || state === "refused") return STILL;
  if (state === "prefilling") return STILL + (FULL - STILL) * (1 - Math.exp(-1.2 * seconds));
  return DEEP;
}

/** What is left of a lane that has ended, from 1 to 0. */
export function leftOf(lane, at) {
  if (lane.endedAt === null) return 1;
  // Behind a gate that fell it is gone at once; the rest runs off.
  const pace = lane.state === "finished" ? 0.9 : 2.2;
  return Math.exp(-pace * Math.max(0, at - lane.endedAt));
}

/** Water from `from` to `to`, `level` high at its beginning and falling towards its end. */
export function water(from, to, level, { slope = 0, phase = 0, swell = 0 } = {}) {
  if (to - from < 0.5 || level < 0.5) return "";
  const points = [];
  for (let x = from; ; x = Math.min(to, x + STEP)) {
    points.push(`${round(x)} ${round(surface(x, from, to, level, slope, phase, swell))}`);
    if (x >= to) break;
  }
  return `M${round(from)} ${BED}L${points.join("L")}L${round(to)} ${BED}Z`;
}

function surface(x, from, to, level, slope, phase, swell) {
  const along = (x - from) / Math.max(1, to - from);
  // The front of running water is round, and nothing swells at the ends.
  const front = slope ? Math.sqrt(Math.min(1, (to - x) / (0.9 * level))) : 1;
  const waves = Math.sin(x / 17 - phase) + 0.6 * Math.sin(x / 7.3 - 1.7 * phase);
  const height = level - slope * along + swell * waves * Math.min(1, 4 * along * (1 - along) + 0.2);
  return BED - Math.max(0, height * front);
}

/** The answer's water: `left` is what has not drained away yet. */
export function race(width, head, left, motion) {
  // A little before the gate, so that no seam shows between it and the basin.
  const motions = { ...motion, slope: (DEEP - SHALLOW) * left };
  return head > gateAt(width) ? water(gateAt(width) - 1, head, DEEP * left, motions) : "";
}

export function basin(width, level, motion) {
  return water(0, gateAt(width), level, motion);
}

/** The ground of a lane, with a notch at each quarter of the ruler. */
export function bed(width) {
  const places = QUARTERS.map((share) => Math.round(headAt(width, share, 1)) - 0.5);
  return `M0 ${BED + 0.5}H${width}${places.map((place) => `M${place} ${BED}v4`).join("")}`;
}

/** A mark where the answer must end; none where that is further than the ruler goes. */
export function weir(width, most, ruler) {
  return most !== null && most < ruler ? `M${round(headAt(width, most, ruler))} ${BED}v-9` : "";
}

/** Nearer to where it is going, by how many seconds have passed. */
export function towards(value, goal, passed) {
  return goal + (value - goal) * Math.exp(-7 * passed);
}

/** The line of a series over time, closed at the bottom; it fits into `width` times `height`. */
export function area(series, width, height) {
  const most = Math.max(1, ...series);
  const places = series.map((value, place) => {
    const x = (place / (series.length - 1)) * width;
    return `${round(x)} ${round(height - 2 - (value / most) * (height - 6))}`;
  });
  const line = `M${places.join("L")}`;
  return { line, fill: `${line}L${width} ${height}L0 ${height}Z` };
}

function round(value) {
  return Math.round(value * 10) / 10;
}
