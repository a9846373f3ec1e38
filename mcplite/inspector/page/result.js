// Result: what a server answered, as people read it: texts, pictures, sounds, tables, links, messages, and JSON.

import { button, bytes, choice, copyButton, download, element, foreignLink, replace } from "./elements.js";
import { copyableJson, jsonView } from "./json_view.js";
import { looksLikeMarkdown, markdown } from "./markdown.js";
import { equal, kindOf } from "./schema.js";

const LONGEST_TEXT = 50_000;
const ROWS_AT_ONCE = 100;
const MOST_COLUMNS = 24;

// Returns nodes for the result of a method. open(uri) goes to a resource.
export function resultView(method, result, open) {
  if (kindOf(result) !== "object") return element("div", {}, copyableJson(result));
  const readable = readers[method] ? readers[method](result, open) : null;
  if (readable === null) return element("div", {}, copyableJson(result));
  const body = element("div", { class: "result-body" });
  const show = (way) => replace(body, way === "json" ? copyableJson(result) : readable);
  show("read");
  return element(
    "div",
    { class: "result" },
    element(
      "div",
      { class: "result-ways" },
      choice(
        "Show the result as",
        [
          ["read", "Result"],
          ["json", "JSON"],
        ],
        "read",
        show,
      ),
    ),
    body,
  );
}

const readers = {
  "tools/call": toolResult,
  "tasks/result": toolResult,
  "tasks/get": (result, open) => (kindOf(result.result) === "object" ? toolResult(result.result, open) : null),
  "resources/read": (result, open) =>
    Array.isArray(result.contents)
      ? listOf(
          result.contents.map((one) => resourceContents(one, open)),
          "The resource is empty.",
        )
      : null,
  "prompts/get": (result, open) =>
    Array.isArray(result.messages)
      ? [
          result.description ? element("p", { class: "quiet-text", text: result.description }) : null,
          conversation(result.messages, open),
        ]
      : null,
};

function listOf(nodes, empty) {
  return nodes.length ? nodes : [element("p", { class: "quiet-text", text: empty })];
}

function toolResult(result, open) {
  const blocks = Array.isArray(result.content) ? result.content : [];
  const structured = result.structuredContent;
  if (!blocks.length && structured === undefined) return null;
  // Servers repeat structured content as text, for older clients: such a text is left out.
  const repeats = (block) => structured !== undefined && block?.type === "text" && equalText(block.text, structured);
  const shown = blocks.filter((block) => !repeats(block));
  return [
    result.isError ? element("p", { class: "error-line", text: "The tool reported an error." }) : null,
    structured === undefined ? null : dataView(structured),
    listOf(
      shown.map((block) => contentBlock(block, open)),
      structured === undefined ? "The result is empty." : "",
    ).filter((node) => node.textContent || node.childElementCount || node.src),
  ];
}

function equalText(text, value) {
  try {
    return equal(JSON.parse(text), value) || (kindOf(value) === "object" && equal(JSON.parse(text), value.result));
  } catch {
    return kindOf(value) === "object" && value.result === text;
  }
}

// Messages of a prompt or of sampling, each with its role.
export function conversation(messages, open) {
  return element(
    "ol",
    { class: "conversation" },
    messages.map((message) =>
      element(
        "li",
        { class: "said" },
        element("span", { class: "role", text: String(message?.role ?? "?") }),
        [message?.content].flat().map((block) => contentBlock(block, open)),
      ),
    ),
  );
}

// One block of content, of any type.
export function contentBlock(block, open) {
  if (kindOf(block) !== "object") return copyableJson(block);
  const made = {
    text: () => textView(String(block.text ?? "")),
    image: () => picture(block),
    audio: () => sound(block),
    resource_link: () => resourceLink(block, open),
    resource: () =>
      kindOf(block.resource) === "object" ? resourceContents(block.resource, open) : copyableJson(block),
  }[block.type];
  const notes =
    kindOf(block.annotations) === "object"
      ? Object.entries(block.annotations).map(([name, value]) => `${name}: ${[value].flat().join(", ")}`)
      : [];
  return element(
    "div",
    { class: "block" },
    made ? made() : copyableJson(block),
    notes.length ? element("p", { class: "quiet-text small", text: notes.join(" · ") }) : null,
  );
}

// Shows a text: as data if it is JSON, as Markdown if its type says so or it looks like it. A choice shows the plain
// text.
export function textView(text, type = "") {
  if (text.length > LONGEST_TEXT) {
    const shown = element("pre", { class: "plain", tabindex: "0", text: text.slice(0, LONGEST_TEXT) });
    const more = button(`Show all ${text.length.toLocaleString("en")} characters`, () => {
      replace(shown, text);
      more.remove();
    });
    return element("div", {}, copyButton(text), shown, more);
  }
  const data = parsedData(text);
  const other =
    data !== undefined
      ? () => dataView(data)
      : type.includes("markdown") || looksLikeMarkdown(text)
        ? () => markdown(text)
        : null;
  const plain = () => element("pre", { class: "plain", tabindex: "0", text });
  const body = element("div", {}, other ? other() : plain());
  const name = data !== undefined ? "Data" : "Markdown";
  return element(
    "div",
    { class: "copyable" },
    copyButton(text),
    other
      ? element(
          "div",
          { class: "block-tools" },
          choice(
            "Show the text as",
            [
              ["other", name],
              ["plain", "Text"],
            ],
            "other",
            (way) => replace(body, way === "plain" ? plain() : other()),
          ),
        )
      : null,
    body,
  );
}

function parsedData(text) {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const scalar = (value) => !["object", "array"].includes(kindOf(value));

function asTable(value) {
  if (!Array.isArray(value) || !value.length || !value.every((row) => kindOf(row) === "object")) return null;
  const columns = [...new Set(value.slice(0, 1000).flatMap((row) => Object.keys(row)))];
  return columns.length && columns.length <= MOST_COLUMNS ? columns : null;
}

// Data: a list of objects as a table, members as a list of names, the rest as a tree.
export function dataView(value) {
  if (kindOf(value) === "object" && Object.keys(value).length === 1 && "result" in value) return dataView(value.result);
  const columns = asTable(value);
  if (columns) return table(value, columns);
  if (
    kindOf(value) === "object" &&
    Object.keys(value).length &&
    Object.keys(value).length <= 40 &&
    Object.values(value).every((one) => scalar(one) || asTable(one))
  ) {
    return element(
      "dl",
      { class: "facts" },
      Object.entries(value).map(([name, one]) => [
        element("dt", { text: name }),
        element("dd", {}, asTable(one) ? table(one, asTable(one)) : cell(one)),
      ]),
    );
  }
  if (scalar(value)) return element("p", { class: "value" }, cell(value));
  return copyableJson(value, { open: 3 });
}

function cell(value) {
  if (value === undefined) return "";
  if (typeof value === "string") return /^https?:\/\/\S+$/.test(value) ? foreignLink(value) : value;
  if (scalar(value))
    return element("span", { class: `json-${value === null ? "null" : typeof value}`, text: String(value) });
  return jsonView(value, { open: 0 });
}

function table(rows, columns) {
  const body = element("tbody");
  let drawn = 0;
  const numeric = new Set(columns.filter((name) => rows.every((row) => typeof (row[name] ?? 0) === "number")));
  const more = button("", () => draw(), { kind: "quiet" });
  const draw = () => {
    const until = Math.min(rows.length, drawn + ROWS_AT_ONCE);
    for (; drawn < until; drawn += 1) {
      body.append(
        element(
          "tr",
          {},
          columns.map((name) => element("td", { class: numeric.has(name) ? "number" : null }, cell(rows[drawn][name]))),
        ),
      );
    }
    more.hidden = drawn === rows.length;
    more.textContent = `${(rows.length - drawn).toLocaleString("en")} more rows`;
  };
  draw();
  return element(
    "div",
    {},
    element(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table" },
      element(
        "table",
        {},
        element(
          "thead",
          {},
          element(
            "tr",
            {},
            columns.map((name) =>
              element("th", { scope: "col", class: numeric.has(name) ? "number" : null, text: name }),
            ),
          ),
        ),
        body,
      ),
    ),
    more,
  );
}

const base64 = /^[A-Za-z0-9+/\s]*={0,2}\s*$/;

function address(data, type, group) {
  const clean = typeof type === "string" && new RegExp(`^${group}/[\\w.+-]+$`).test(type) ? type : `${group}/*`;
  return typeof data === "string" && base64.test(data) ? `data:${clean};base64,${data.replace(/\s/g, "")}` : null;
}

const sizeOf = (data) => bytes(Math.floor((String(data).length * 3) / 4));

function media(block, group, make) {
  const source = address(block.data, block.mimeType, group);
  if (source === null) return element("p", { class: "error-line", text: `This ${group} is not base64.` });
  const says = element("figcaption", { text: `${block.mimeType || group}, ${sizeOf(block.data)}` });
  const node = make(source);
  node.addEventListener("error", () => {
    says.textContent = `${says.textContent}: the browser cannot show it`;
  });
  return element("figure", {}, node, says);
}

const picture = (block) =>
  media(block, "image", (source) => element("img", { src: source, alt: "Picture from the server" }));
const sound = (block) => media(block, "audio", (source) => element("audio", { src: source, controls: true }));

function resourceLink(block, open) {
  const title = block.title || block.name || block.uri;
  return element(
    "div",
    { class: "resource-link" },
    button(title, () => open(String(block.uri)), { icon: "resources" }),
    element("code", { text: String(block.uri) }),
    block.description ? element("p", { class: "quiet-text", text: block.description }) : null,
  );
}

function resourceContents(contents, open) {
  if (kindOf(contents) !== "object") return copyableJson(contents);
  const type = String(contents.mimeType || "");
  const head = element(
    "div",
    { class: "contents-head" },
    element("code", { text: String(contents.uri ?? "") }),
    type ? element("span", { class: "tag", text: type }) : null,
  );
  if (typeof contents.text === "string") return element("div", { class: "block" }, head, textView(contents.text, type));
  if (typeof contents.blob !== "string") return element("div", { class: "block" }, head, copyableJson(contents));
  const block = { data: contents.blob, mimeType: type };
  const shown = type.startsWith("image/") ? picture(block) : type.startsWith("audio/") ? sound(block) : null;
  const keep = button(
    `Keep as a file (${sizeOf(contents.blob)})`,
    () => {
      const data = Uint8Array.from(atob(contents.blob.replace(/\s/g, "")), (one) => one.charCodeAt(0));
      download(
        String(contents.uri)
          .split("/")
          .pop()
          .replace(/[^\w.-]/g, "_") || "resource",
        data,
        "application/octet-stream",
      );
    },
    { disabled: !base64.test(contents.blob) },
  );
  return element("div", { class: "block" }, head, shown, keep);
}
