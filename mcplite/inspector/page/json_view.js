// JsonView: a JSON value as a tree that opens and closes, drawn as far as it is open.

import { button, copyButton, element, replace } from "./elements.js";

const AT_ONCE = 100;
const LONGEST = 2000;

// Returns a tree; open says how many levels are open at first.
export function jsonView(value, { open = 2 } = {}) {
  return element("div", { class: "json" }, node(value, open));
}

// Returns a tree with a button that copies the value.
export function copyableJson(value, options) {
  return element(
    "div",
    { class: "copyable" },
    copyButton(() => JSON.stringify(value, null, 2)),
    jsonView(value, options),
  );
}

// "after" stands behind the value: a comma, or nothing.
function node(value, open, after = "") {
  if (Array.isArray(value))
    return group(
      value.map((item) => [null, item]),
      "[",
      `]${after}`,
      open,
      "item",
    );
  if (value !== null && typeof value === "object")
    return group(Object.entries(value), "{", `}${after}`, open, "member");
  return [scalar(value), after ? element("span", { class: "json-mark", text: after }) : null];
}

function scalar(value) {
  if (typeof value !== "string") {
    return element("span", { class: `json-${value === null ? "null" : typeof value}`, text: String(value) });
  }
  const text = JSON.stringify(value);
  if (text.length <= LONGEST) return element("span", { class: "json-string", text });
  const shown = element("span", { class: "json-string", text: `${text.slice(0, LONGEST)}…` });
  const more = button(
    `${text.length.toLocaleString("en")} characters`,
    () => {
      replace(shown, text.slice(0, 1_000_000));
      more.remove();
    },
    { kind: "quiet" },
  );
  return element("span", {}, shown, " ", more);
}

function group(entries, before, after, open, what) {
  if (!entries.length) return element("span", { class: "json-mark", text: before + after });
  const inside = element("div", { class: "json-inside" });
  const count = `${entries.length} ${what}${entries.length === 1 ? "" : "s"}`;
  let drawn = 0;
  const draw = () => {
    const until = Math.min(entries.length, drawn + AT_ONCE);
    for (; drawn < until; drawn += 1) {
      const [name, item] = entries[drawn];
      inside.append(
        element(
          "div",
          { class: "json-line" },
          name === null ? null : [element("span", { class: "json-name", text: JSON.stringify(name) }), ": "],
          node(item, open - 1, drawn < entries.length - 1 ? "," : ""),
        ),
      );
    }
    if (drawn < entries.length) {
      const more = button(
        `${(entries.length - drawn).toLocaleString("en")} more`,
        () => {
          more.remove();
          draw();
        },
        { kind: "quiet" },
      );
      inside.append(more);
    }
  };
  const details = element(
    "details",
    { class: "json-group", ".open": open > 0 },
    element(
      "summary",
      {},
      element("span", { class: "json-mark", text: before }),
      element("span", { class: "json-count", text: count }),
    ),
    inside,
    element("span", { class: "json-mark json-end", text: after }),
  );
  if (open > 0) draw();
  details.addEventListener("toggle", () => {
    if (details.open && drawn === 0) draw();
  });
  return details;
}
