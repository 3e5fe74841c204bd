// Elements from data. Text goes in as text: nothing here reads markup.

const SVG = "http://www.w3.org/2000/svg";

/** The element with this id, which the page has. */
export function byId(id) {
  return document.getElementById(id);
}

/** An element with attributes and children; children may be text. */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function drawing(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Change a text only where it differs, so that nothing is laid out or read again for nothing. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Change what an element holds only where it is made of other things than before. */
export function renew(node, things, lineOf) {
  const key = JSON.stringify(things);
  if (node.dataset.key === key) return;
  node.dataset.key = key;
  node.replaceChildren(...things.map(lineOf));
}
