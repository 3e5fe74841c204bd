// What lanes there are: one for each live request, and for a while one for each that has ended.
// Pure: snapshots in, lanes out.

export const LINGER_SECONDS = 4;
export const LEAST_RULER = 64;
const OUTCOMES = { ok: "finished", cancelled: "cancelled", error: "failed", refused: "refused" };

/** The lanes after a snapshot, in the order in which they came; `before` is left as it is. */
export function advance(before, snapshot) {
  const lanes = new Map();
  const rows = new Map(snapshot.rows.map((row) => [row.ticket, row]));
  const ended = new Map(snapshot.ended.map((row) => [row.ticket, row]));
  for (const [ticket, lane] of before) {
    const next = rows.has(ticket)
      ? running(rows.get(ticket), snapshot.at, lane)
      : over(ended.get(ticket), snapshot.at, lane);
    if (next) lanes.set(ticket, next);
  }
  for (const [ticket, row] of ended) {
    const known = before.has(ticket) || row.ago_ms > 1000 * LINGER_SECONDS;
    if (!known) lanes.set(ticket, over(row, snapshot.at, null));
  }
  for (const [ticket, row] of rows) {
    if (!lanes.has(ticket)) lanes.set(ticket, running(row, snapshot.at, null));
  }
  return lanes;
}

function running(row, at, lane) {
  return {
    ticket: row.ticket,
    id: row.id,
    kind: kindOf(row.route),
    model: row.model ?? "",
    state: row.state,
    prompt: row.prompt_tokens,
    generated: row.generated_tokens,
    most: row.most_tokens ?? null,
    ageMs: row.age_ms,
    rows: row.rows,
    rate: rateOf(lane, row.generated_tokens, at),
    at,
    endedAt: null,
    reason: null,
    freedMs: null,
  };
}

function rateOf(lane, generated, at) {
  if (!lane || at <= lane.at) return lane?.rate ?? 0;
  const now = Math.max(0, generated - lane.generated) / (at - lane.at);
  return lane.rate ? 0.7 * lane.rate + 0.3 * now : now;
}

/** A lane whose request is gone; null once it has been shown for long enough. */
function over(row, at, lane) {
  if (lane?.endedAt != null) return at - lane.endedAt > LINGER_SECONDS ? null : lane;
  if (!row) return null;
  const known = lane ?? running({ ...row, id: "", route: "", state: "", rows: 1 }, at, null);
  return {
    ...known,
    state: OUTCOMES[row.outcome] ?? "finished",
    generated: Math.max(known.generated, row.generated_tokens),
    rate: 0,
    at,
    endedAt: at - row.ago_ms / 1000,
    reason: row.reason,
    freedMs: row.freed_ms,
  };
}

/** The last word of a route that names what is asked for. */
export function kindOf(route) {
  const words = route.split("/").filter((word) => word && !word.startsWith("<"));
  if (words.includes("chat")) return "chat";
  return words.at(-1) ?? "request";
}

/** The tokens that the whole length of a lane stands for: the same for all, doubled when needed. */
export function rulerOf(lanes) {
  let ruler = LEAST_RULER;
  for (const lane of lanes.values()) {
    // A request of several rows has them beside each other.
    const longest = lane.generated / Math.max(1, lane.rows);
    while (longest > 0.92 * ruler) ruler *= 2;
  }
  return ruler;
}

/** The state in words, for the eye and for a reader of the screen. */
export function wordsOf(lane, { plural, duration, rate }) {
  switch (lane.state) {
    case "decoding":
      return [plural(lane.generated, "token"), `${rate(lane.rate)} per second`];
    case "prefilling":
      return ["reading", "its prompt"];
    case "loading":
      return ["waiting", "for its model to load"];
    case "queued":
      return ["queued", `for ${duration(lane.ageMs)}`];
    case "cancelled": {
      const freed = lane.freedMs === null ? "" : `freed in ${duration(lane.freedMs)}`;
      return [`${CAUSES[lane.reason] ?? "cancelled"} at ${lane.generated}`, freed];
    }
    default:
      return [lane.state, plural(lane.generated, "token")];
  }
}

const CAUSES = {
  disconnect: "hung up",
  api: "cancelled",
  drain: "drained",
  timeout: "timed out",
  stall: "reader stalled",
};
