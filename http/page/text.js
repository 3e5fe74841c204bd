// A model's text as blocks: prose, and code between fences. It is shown as text, never as markup.

import { element, say } from "./dom.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;

/** `[{ kind: "prose" | "code", text, language? }]`. A fence that is still open counts. Pure. */
export function blocksOf(text) {
  const blocks = [];
  let open = null;
  for (const line of text.split("\n")) {
    const fence = line.match(FENCE);
    if (open && fence && fence[1].startsWith(open.fence) && !fence[2]) {
      open = null;
    } else if (!open && fence) {
      open = { kind: "code", language: fence[2], fence: fence[1], lines: [] };
      blocks.push(open);
    } else if (open) {
      open.lines.push(line);
    } else {
      if (blocks.at(-1)?.kind !== "prose") blocks.push({ kind: "prose", lines: [] });
      blocks.at(-1).lines.push(line);
    }
  }
  return blocks
    .map(({ kind, language, lines }) => ({ kind, language, text: trimmed(kind, lines) }))
    .filter((block) => block.text || block.kind === "code");
}

function trimmed(kind, lines) {
  const text = lines.join("\n");
  return kind === "prose" ? text.replace(/^\n+|\s+$/g, "") : text;
}

const MARKED = /(`[^`\n]+`|\*\*[^*\n]+\*\*)/;

/** Pieces of prose, `{ kind: "text" | "code" | "strong", text }`: what stands between backticks is
 * code, and between double asterisks it is strong. Pure. */
export function piecesOf(prose) {
  return prose.split(MARKED).filter(Boolean).map((text) => {
    if (!MARKED.test(text)) return { kind: "text", text };
    const kind = text.startsWith("`") ? "code" : "strong";
    return { kind, text: kind === "code" ? text.slice(1, -1) : text.slice(2, -2) };
  });
}

/** Show a text that may still grow; what has not changed stays as it is. */
export function showText(target, text) {
  const blocks = blocksOf(text);
  while (target.children.length > blocks.length) target.lastChild.remove();
  blocks.forEach((block, place) => {
    let shown = target.children[place];
    const name = block.kind === "code" ? "PRE" : "P";
    if (shown?.tagName !== name) {
      const made = element(name.toLowerCase());
      if (shown) shown.replaceWith(made);
      else target.append(made);
      shown = made;
    }
    if (block.kind === "code") {
      shown.tabIndex = 0;
      say(shown, block.text);
    } else if (shown.dataset.source !== block.text) {
      shown.dataset.source = block.text;
      shown.replaceChildren(
        ...piecesOf(block.text).map(({ kind, text: words }) =>
          kind === "text" ? words : element(kind, {}, words),
        ),
      );
    }
  });
}
