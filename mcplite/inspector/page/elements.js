// Elements: makes DOM nodes from texts and properties, so that a server's text never becomes markup.

const SVG = "http://www.w3.org/2000/svg";

// Paths of the icons, drawn in a box of 16 by 16 with lines.
const ICONS = {
  tools: "M10.5 2.5a3.5 3.5 0 0 0-3.3 4.7l-4.6 4.6 1.6 1.6 4.6-4.6a3.5 3.5 0 0 0 4.5-4.4l-2 2-1.9-.5-.5-1.9 2-2z",
  resources: "M4 2h5l3 3v9H4zM9 2v3h3",
  templates:
    "M5.5 2.5C4 2.5 4 4 4 5.5S4 8 2.5 8C4 8 4 9 4 10.5s0 3 1.5 3" +
    "M10.5 2.5C12 2.5 12 4 12 5.5S12 8 13.5 8C12 8 12 9 12 10.5s0 3-1.5 3",
  prompts: "M2.5 3.5h11v7.5H7l-3 2.5V11H2.5z",
  tasks: "M3 4l1.2 1.2L6.2 3M3 11l1.2 1.2L6.2 10M8.5 4.5h5M8.5 11.5h5",
  use: "M4 2.5l9 5.5-9 5.5z",
  answer: "M2.5 3h11v8H8l-3.5 2.5V11h-2zM6 6.5h4M6 8.5h2.5",
  see: "M2 4h6M5 8h8M3.5 12h5M10 4h2",
  compare: "M3 2.5h4v11H3zM9 2.5h4v11H9z",
  connection: "M6 5.5h4v5H6zM8 2v3.5M8 10.5V14M2 8h4M10 8h4",
  close: "M4 4l8 8M12 4l-8 8",
  plus: "M8 3v10M3 8h10",
  up: "M8 13V3M4 7l4-4 4 4",
  down: "M8 3v10M4 9l4 4 4-4",
  back: "M10 3 5 8l5 5",
  link: "M6.5 9.5l3-3M7 4.5 8.5 3a3 3 0 0 1 4.5 4.5L11.5 9M9 11.5 7.5 13A3 3 0 0 1 3 8.5L4.5 7",
  pause: "M5.5 3v10M10.5 3v10",
  play: "M5 3l8 5-8 5z",
  lines: "M3 4h10M3 8h10M3 12h6",
  warning: "M8 2.5 14 13H2zM8 6.5V9.5M8 11.2v.3",
};

// Characters that turn the direction of those around them, so that a name could be read as another one.
const TURNING = /[\u202a-\u202e\u2066-\u2069]/g;

// In a very long word, a line may break after each part of this many characters: without such places, browsers take
// minutes for the layout.
const ENDLESS = /\S{400}/gu;

// Appends a text, in which the code of each character of TURNING stands in place of the character.
function write(node, text) {
  const shown = String(text).replace(TURNING, (one) => `[U+${one.charCodeAt(0).toString(16).toUpperCase()}]`);
  let at = 0;
  for (const { 0: word, index } of shown.matchAll(ENDLESS)) {
    node.append(shown.slice(at, index + word.length), document.createElement("wbr"));
    at = index + word.length;
  }
  if (at < shown.length) node.append(shown.slice(at));
}

// Returns the beginning of a text, for places beside which the page shows all of it.
export function beginning(text, most = 300) {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

// Returns an element. Properties become attributes, except "on" (an object of listeners by event), "text", and
// properties that begin with a dot: these are set on the node. Attributes that are null, undefined or false are left
// out.
export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    } else if (name === "text") {
      write(node, value);
    } else if (name[0] === ".") {
      node[name.slice(1)] = value;
    } else if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? "" : String(value));
    }
  }
  append(node, children);
  return node;
}

// Appends nodes and texts; null, undefined and false stand for no child.
export function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    if (child instanceof Node) node.append(child);
    else write(node, child);
  }
  return node;
}

export function replace(node, ...children) {
  node.replaceChildren();
  return append(node, children);
}

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const path = document.createElementNS(SVG, "path");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

// A button. Options: icon, kind ("primary", "quiet", "danger"), label (for readers of an icon), and attributes.
export function button(text, action, options = {}) {
  const { icon: picture, kind, label, ...more } = options;
  const node = element(
    "button",
    { type: "button", class: `button ${kind || ""}`, "aria-label": label, title: label, ...more },
    picture && icon(picture),
    text && element("span", { text }),
  );
  node.addEventListener("click", action);
  return node;
}

// A link to another site, as a server named it: http and https only, with its host shown. Other text stays text.
export function foreignLink(address, text = "") {
  let url = null;
  try {
    url = new URL(address);
  } catch {
    url = null; // not an address
  }
  if (url === null || !["http:", "https:"].includes(url.protocol)) {
    return element("span", { class: "not-a-link", text: text && text !== address ? `${text} (${address})` : address });
  }
  const link = element("a", { href: url.href, target: "_blank", rel: "noopener noreferrer", text: text || address });
  return text && text !== address && text !== url.host
    ? element("span", {}, link, element("span", { class: "host", text: ` (${url.host})` }))
    : link;
}

// A labelled set of radio buttons; changed(value) is called when the user chooses another one.
export function choice(label, values, selected, changed) {
  const name = `choice-${(choice.number = (choice.number || 0) + 1)}`;
  return element(
    "div",
    { class: "choice", role: "radiogroup", "aria-label": label },
    values.map(([value, text]) =>
      element(
        "label",
        {},
        element("input", {
          type: "radio",
          name,
          value,
          ".checked": value === selected,
          on: { change: () => changed(value) },
        }),
        element("span", { text }),
      ),
    ),
  );
}

// Returns a button that copies a text, and says so for a moment. The text may be a function that returns it.
export function copyButton(text, label = "Copy") {
  const node = button(
    label,
    async () => {
      const words = node.lastChild;
      try {
        await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
        words.textContent = "Copied";
      } catch {
        words.textContent = "The browser refused";
      }
      setTimeout(() => {
        words.textContent = label;
      }, 1500);
    },
    { kind: "quiet" },
  );
  return node;
}

// Lets the browser save a text as a file.
export function download(filename, text, type = "text/plain") {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = element("a", { href: address, download: filename });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

export function plural(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

export function bytes(size) {
  if (size < 1000) return `${size} B`;
  return size < 1e6 ? `${(size / 1e3).toPrecision(3)} kB` : `${(size / 1e6).toPrecision(3)} MB`;
}

export function seconds(duration) {
  if (duration < 0.001) return `${Math.round(duration * 1e6)} µs`;
  return duration < 1 ? `${Math.round(duration * 1e3)} ms` : `${duration.toPrecision(3)} s`;
}

export function clock(time) {
  const date = new Date(time * 1000);
  const two = (number) => String(number).padStart(2, "0");
  return (
    `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.` +
    String(date.getMilliseconds()).padStart(3, "0")
  );
}
