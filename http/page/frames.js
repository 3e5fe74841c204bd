// Event streams, piece by piece. Pure.

/** Reads what comes in any pieces; each whole frame is `{ event, data }`. Comments are dropped. */
export class FrameReader {
  #rest = "";

  feed(text) {
    // A line may end in \r\n, and the two may come apart.
    this.#rest = (this.#rest + text).replaceAll("\r\n", "\n");
    const parts = this.#rest.split("\n\n");
    this.#rest = parts.pop();
    return parts.map(frameOf).filter((frame) => frame.data !== null);
  }
}

function frameOf(text) {
  let event = "message";
  const data = [];
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") data.push(value);
    else if (name === "event") event = value;
  }
  return { event, data: data.length ? data.join("\n") : null };
}
