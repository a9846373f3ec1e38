// Markdown: the part of it that servers write, as DOM nodes. Markup in the text stays text, and pictures become links.

import { append, element, foreignLink } from "./elements.js";

const LONGEST = 50_000;
const DEEPEST = 8;

// Whether a text looks as if it was written as Markdown.
export function looksLikeMarkdown(text) {
  return (
    text.length < LONGEST &&
    /^#{1,6} \S|^```|^\s*[-*] \S|^\d+\. \S|^> |\*\*\S[^*]*\*\*|\[[^\]\n]+\]\(https?:|^\|.+\|$|`[^`\n]+`/m.test(
      text.slice(0, 5000),
    )
  );
}

// Marks inside a line, each with the node that it makes.
const MARKS = [
  [/^`([^`]+)`/, (found) => element("code", { text: found[1] })],
  [/^!\[([^\]]*)\]\(([^()\s]+)(?:\s+"[^"]*")?\)/, (found) => foreignLink(found[2], found[1] || "picture")],
  [/^\[([^\]]+)\]\(([^()\s]+)(?:\s+"[^"]*")?\)/, (found) => foreignLink(found[2], found[1])],
  [/^<(https?:[^\s<>]+)>/, (found) => foreignLink(found[1])],
  [/^\*\*(\S(?:[^*]|\*(?!\*))*?)\*\*/, (found, depth) => element("strong", {}, inline(found[1], depth + 1))],
  [/^__(\S[^_]*?)__(?!\w)/, (found, depth) => element("strong", {}, inline(found[1], depth + 1))],
  [/^\*(\S[^*]*?)\*/, (found, depth) => element("em", {}, inline(found[1], depth + 1))],
  [/^_(\S[^_]*?)_(?!\w)/, (found, depth) => element("em", {}, inline(found[1], depth + 1))],
  [/^~~(\S[^~]*?)~~/, (found, depth) => element("s", {}, inline(found[1], depth + 1))],
  [/^https?:\/\/[^\s<>()"']+[^\s<>()"'.,;:!?]/, (found) => foreignLink(found[0])],
];

function inline(text, depth = 0) {
  if (depth > DEEPEST) return [text];
  const nodes = [];
  let plain = "",
    at = 0;
  while (at < text.length) {
    const character = text[at];
    if (character === "\\" && /[\\`*_[\](){}#+.!~<>|-]/.test(text[at + 1] || "")) {
      plain += text[at + 1];
      at += 2;
      continue;
    }
    const starts = "`![<*_~".includes(character) || (character === "h" && text.startsWith("http", at));
    const insideWord = (character === "_" || character === "h") && /\w/.test(text[at - 1] || "");
    let made = null;
    if (starts && !insideWord) {
      const rest = text.slice(at, at + 1000);
      for (const [pattern, make] of MARKS) {
        const found = pattern.exec(rest);
        if (found) {
          made = make(found, depth);
          at += found[0].length;
          break;
        }
      }
    }
    if (made === null) {
      plain += character;
      at += 1;
    } else {
      if (plain) nodes.push(plain);
      plain = "";
      nodes.push(made);
    }
  }
  if (plain) nodes.push(plain);
  return nodes;
}

const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const STARTS = [/^#{1,6}\s/, /^\s*(```|~~~)/, /^>/, ITEM, /^\s*([-*_])\s*(\1\s*){2,}$/, /^\|.*\|\s*$/];

// Returns nodes for a text.
export function markdown(text) {
  const body = element("div", { class: "markdown" });
  return append(body, blocks(text.replace(/\r\n?/g, "\n").slice(0, LONGEST).split("\n"), 0));
}

function blocks(lines, depth) {
  const nodes = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at];
    const fence = /^\s*(```+|~~~+)\s*(\S*)/.exec(line);
    const heading = /^(#{1,6})\s+(.*?)\s*#*\s*$/.exec(line);
    if (!line.trim()) {
      at += 1;
    } else if (fence) {
      let end = at + 1;
      while (end < lines.length && !lines[end].trim().startsWith(fence[1])) end += 1;
      nodes.push(
        element(
          "pre",
          { "data-language": fence[2] || null, tabindex: "0" },
          element("code", { text: lines.slice(at + 1, end).join("\n") }),
        ),
      );
      at = end + 1;
    } else if (heading) {
      // The page uses the first three levels for headings of its own.
      nodes.push(element(`h${Math.min(6, heading[1].length + 3)}`, {}, inline(heading[2])));
      at += 1;
    } else if (/^\s*([-*_])\s*(\1\s*){2,}$/.test(line)) {
      nodes.push(element("hr"));
      at += 1;
    } else if (line.startsWith(">") && depth < DEEPEST) {
      const inner = [];
      while (at < lines.length && lines[at].startsWith(">")) inner.push(lines[at++].replace(/^> ?/, ""));
      nodes.push(element("blockquote", {}, blocks(inner, depth + 1)));
    } else if (ITEM.test(line) && depth < DEEPEST) {
      const [node, end] = list(lines, at, depth);
      nodes.push(node);
      at = end;
    } else if (/^\|.*\|\s*$/.test(line) && /^\|?[\s:|-]+\|?\s*$/.test(lines[at + 1] || "")) {
      const rows = [];
      const head = line;
      at += 2;
      while (at < lines.length && /^\|.*\|\s*$/.test(lines[at])) rows.push(lines[at++]);
      nodes.push(table(head, rows));
    } else {
      const words = [line];
      at += 1;
      while (at < lines.length && lines[at].trim() && !STARTS.some((start) => start.test(lines[at])))
        words.push(lines[at++]);
      nodes.push(element("p", {}, inline(words.join("\n"))));
    }
  }
  return nodes;
}

function list(lines, start, depth) {
  const first = ITEM.exec(lines[start]);
  const indent = first[1].length;
  const node = element(/\d/.test(first[2]) ? "ol" : "ul", { start: /^\d+/.exec(first[2])?.[0] });
  let at = start;
  while (at < lines.length) {
    const found = ITEM.exec(lines[at]);
    if (!found || found[1].length !== indent || /\d/.test(found[2]) !== /\d/.test(first[2])) break;
    const inner = [found[3]];
    at += 1;
    while (at < lines.length) {
      const deeper = /^\s*/.exec(lines[at])[0].length > indent;
      if (lines[at].trim() ? !deeper : !/^\s+\S/.test(lines[at + 1] || "")) break;
      inner.push(lines[at++].slice(indent + 2));
    }
    const content = blocks(inner, depth + 1);
    // The first paragraph of an item stands in it without a <p>, and so without margins.
    node.append(
      append(
        element("li"),
        content.length && content[0].localName === "p" ? [...content[0].childNodes, ...content.slice(1)] : content,
      ),
    );
  }
  return [node, at];
}

function table(head, rows) {
  const cells = (line) =>
    line
      .trim()
      .replace(/^\||\|$/g, "")
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim());
  return element(
    "div",
    { class: "scroll", tabindex: "0" },
    element(
      "table",
      {},
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          cells(head).map((cell) => element("th", {}, inline(cell))),
        ),
      ),
      element(
        "tbody",
        {},
        rows.map((row) =>
          element(
            "tr",
            {},
            cells(row).map((cell) => element("td", {}, inline(cell))),
          ),
        ),
      ),
    ),
  );
}
