// CompareView: one server as a client of each revision sees it, and its tools as the kits of three models take them.

import * as api from "./api.js";
import { button, choice, element, replace } from "./elements.js";
import { jsonView } from "./json_view.js";
import { equal, kindOf } from "./schema.js";

const KEYS = { tools: "name", resources: "uri", templates: "uriTemplate", prompts: "name" };
const KITS = [
  ["openai", "OpenAI"],
  ["anthropic", "Anthropic"],
  ["gemini", "Gemini"],
];

export class CompareView {
  constructor(app) {
    this._app = app;
    this._server = null;
    this._way = "revisions";
    this._different = false;
    this._body = element("div", { class: "compare-body" });
    this._answers = new Map();
    this._start = button("Compare", () => this._ask(), { kind: "primary" });
    this.element = element(
      "div",
      { class: "compare-view page wide-page" },
      element(
        "div",
        { class: "toolbar" },
        choice(
          "Compare",
          [
            ["revisions", "Revisions"],
            ["kits", "Models' kits"],
          ],
          "revisions",
          (way) => {
            this._way = way;
            this._draw();
          },
        ),
        this._start,
        (this._only = element(
          "label",
          { class: "check" },
          element("input", {
            type: "checkbox",
            on: {
              change: (event) => {
                this._different = event.target.checked;
                this._draw();
              },
            },
          }),
          element("span", { text: "Differences only" }),
        )),
      ),
      this._body,
    );
  }

  enter({ server }) {
    this._server = server;
    this._draw();
  }

  async _ask() {
    const key = `${this._way} ${this._server}`,
      route = this._way === "revisions" ? "compare" : "kits";
    this._answers.set(key, { state: "asking" });
    this._draw();
    try {
      this._answers.set(key, { state: "ready", found: await api.post(route, { server: this._server }) });
    } catch (error) {
      this._answers.set(key, { state: "failed", error: error.message });
    }
    this._draw();
  }

  _draw() {
    const answer = this._answers.get(`${this._way} ${this._server}`);
    this._start.disabled = answer?.state === "asking" || !this._server;
    this._start.lastChild.textContent = answer?.state === "ready" ? "Compare again" : "Compare";
    this._only.hidden = this._way !== "revisions" || answer?.state !== "ready";
    if (!answer) {
      replace(
        this._body,
        element("p", {
          class: "quiet-text lead",
          text:
            this._way === "revisions"
              ? "The server is opened as a client of each revision sees it, and the answers stand side by side."
              : "Each tool as OpenAI, Anthropic and Gemini take it: its declaration, its tokens, and what would be refused.",
        }),
      );
    } else if (answer.state === "asking") {
      replace(
        this._body,
        element("p", { class: "quiet-text lead", role: "status", text: "The server is asked…" }),
        element("progress", { "aria-label": "Comparing" }),
      );
    } else if (answer.state === "failed") {
      replace(this._body, element("p", { class: "error-line", role: "alert", text: answer.error }));
    } else {
      replace(
        this._body,
        this._way === "revisions" ? this._revisions(answer.found.revisions) : this._kits(answer.found),
      );
    }
  }

  _revisions(revisions) {
    const dates = Object.keys(revisions);
    const opened = dates.filter((date) => !revisions[date].error);
    const groups = [
      ["Server", facts(revisions, opened)],
      ["Capabilities", capabilities(revisions, opened)],
      ...Object.entries(KEYS).map(([kind, key]) => [
        kind[0].toUpperCase() + kind.slice(1),
        items(revisions, opened, kind, key),
      ]),
    ];
    const differences = groups.flatMap(([, rows]) => rows).filter((row) => differs(row, opened)).length;
    return [
      element("p", {
        class: "lead",
        role: "status",
        text:
          opened.length < 2
            ? "Fewer than two revisions could be opened."
            : differences
              ? `${differences} difference${differences === 1 ? "" : "s"} between ${opened.length} revisions.`
              : `All ${opened.length} revisions show one and the same server.`,
      }),
      dates
        .filter((date) => revisions[date].error)
        .map((date) => element("p", { class: "error-line", text: `${date}: ${revisions[date].error}` })),
      element(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "Revisions" },
        element(
          "table",
          { class: "compare" },
          element(
            "thead",
            {},
            element(
              "tr",
              {},
              element("th", { scope: "col", text: "Part" }),
              dates.map((date) => element("th", { scope: "col", text: date })),
            ),
          ),
          groups.map(([name, rows]) => {
            const shown = rows.filter((row) => !this._different || differs(row, opened));
            return shown.length
              ? element(
                  "tbody",
                  {},
                  element(
                    "tr",
                    { class: "group-row" },
                    element("th", { scope: "rowgroup", colspan: dates.length + 1, text: name }),
                  ),
                  shown.map((row) => this._row(row, dates, opened)),
                )
              : null;
          }),
        ),
      ),
    ];
  }

  _row(row, dates, opened) {
    const apart = differs(row, opened);
    const usual = apart ? commonest(opened.map((date) => row.values[date])) : undefined;
    return element(
      "tr",
      { class: apart ? "differs" : null },
      element("th", { scope: "row" }, row.name, apart ? element("span", { class: "tag warn", text: "differs" }) : null),
      dates.map((date) => {
        if (!opened.includes(date)) return element("td", { class: "absent", text: "–" });
        const value = row.values[date];
        const odd = apart && !same(value, usual);
        return element(
          "td",
          { class: odd ? "odd" : null },
          value === undefined
            ? element("span", { class: "quiet-text", text: "none" })
            : row.short
              ? text(value)
              : apart
                ? element(
                    "details",
                    {},
                    element("summary", { text: odd ? difference(value, usual) : "as in most" }),
                    jsonView(value, { open: 3 }),
                  )
                : element("span", { class: "same", text: "the same" }),
        );
      }),
    );
  }

  _kits({ tools, estimate }) {
    if (!tools.length) return element("p", { class: "quiet-text lead", text: "The server has no tools." });
    const sum = (kit) => tools.reduce((total, tool) => total + (tool[kit]?.tokens || 0), 0);
    const bad = tools.filter((tool) => KITS.some(([kit]) => tool[kit]?.problems?.length)).length;
    return [
      element("p", {
        class: "lead",
        role: "status",
        text: bad
          ? `${bad} of ${tools.length} tools would be refused or changed.`
          : `All ${tools.length} tools are taken as they are.`,
      }),
      element(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "Kits" },
        element(
          "table",
          { class: "compare" },
          element(
            "thead",
            {},
            element(
              "tr",
              {},
              element("th", { scope: "col", text: "Tool" }),
              KITS.map(([kit, name]) =>
                element(
                  "th",
                  { scope: "col" },
                  name,
                  element("p", { class: "quiet-text small", text: `${sum(kit).toLocaleString("en")} tokens in all` }),
                ),
              ),
            ),
          ),
          element(
            "tbody",
            {},
            tools.map((tool) =>
              element(
                "tr",
                {},
                element("th", { scope: "row", text: tool.name }),
                KITS.map(([kit]) => {
                  const one = tool[kit] || {};
                  const problems = one.problems || [];
                  return element(
                    "td",
                    { class: problems.length ? "odd" : null },
                    element(
                      "details",
                      {},
                      element("summary", {}, `${(one.tokens ?? 0).toLocaleString("en")} tokens`),
                      jsonView(one.declaration ?? null, { open: 3 }),
                    ),
                    problems.length
                      ? element(
                          "ul",
                          { class: "problems" },
                          problems.map((problem) => element("li", { text: problem })),
                        )
                      : null,
                  );
                }),
              ),
            ),
          ),
        ),
      ),
      element("p", { class: "quiet-text small", text: estimate || "" }),
    ];
  }
}

const same = (one, other) => (one === undefined || other === undefined ? one === other : equal(one, other));
const differs = (row, opened) => opened.some((date) => !same(row.values[date], row.values[opened[0]]));

// Returns in words how a value differs from the most common one: the members that it lacks, adds and changes.
function difference(value, usual) {
  if (usual === undefined) return "only here";
  const found = { lacks: [], adds: [], changes: [] };
  const walk = (one, other, path) => {
    for (const name of new Set([...Object.keys(one), ...Object.keys(other)])) {
      const place = path ? `${path}.${name}` : name;
      if (!(name in one)) found.lacks.push(place);
      else if (!(name in other)) found.adds.push(place);
      else if (!equal(one[name], other[name])) {
        const both = [one[name], other[name]].every((item) => kindOf(item) === "object");
        if (both) walk(one[name], other[name], place);
        else found.changes.push(place);
      }
    }
  };
  if (kindOf(value) !== "object" || kindOf(usual) !== "object") return "another one";
  walk(value, usual, "");
  return Object.entries(found)
    .filter(([, places]) => places.length)
    .map(([word, places]) => `${word} ${places.slice(0, 4).join(", ")}${places.length > 4 ? " and more" : ""}`)
    .join("; ");
}

function commonest(values) {
  let best = values[0],
    most = 0;
  for (const value of values) {
    const count = values.filter((other) => same(value, other)).length;
    if (count > most) [best, most] = [value, count];
  }
  return best;
}

const text = (value) => (typeof value === "string" ? value : JSON.stringify(value));

function facts(revisions, opened) {
  const rows = [];
  const names = [...new Set(opened.flatMap((date) => Object.keys(revisions[date].info || {})))];
  for (const name of names) {
    const values = Object.fromEntries(opened.map((date) => [date, (revisions[date].info || {})[name]]));
    rows.push({ name, values, short: Object.values(values).every((value) => typeof value !== "object") });
  }
  rows.push({
    name: "instructions",
    short: false,
    values: Object.fromEntries(opened.map((date) => [date, revisions[date].instructions || undefined])),
  });
  return rows.filter((row) => Object.values(row.values).some((value) => value !== undefined));
}

// Capabilities with their members, such as "resources.subscribe".
function capabilities(revisions, opened) {
  const rows = new Map();
  for (const date of opened) {
    const walk = (value, name) => {
      const inside = value && typeof value === "object" && !Array.isArray(value) ? Object.entries(value) : [];
      if (name && !inside.length) {
        if (!rows.has(name)) rows.set(name, { name, values: {}, short: true });
        rows.get(name).values[date] =
          value && typeof value === "object" ? "yes" : value === true ? "yes" : value === false ? "no" : value;
      }
      for (const [member, one] of inside) walk(one, name ? `${name}.${member}` : member);
    };
    walk(revisions[date].capabilities || {}, "");
  }
  return [...rows.values()].sort((one, other) => one.name.localeCompare(other.name));
}

function items(revisions, opened, kind, key) {
  const rows = new Map();
  for (const date of opened) {
    for (const item of revisions[date][kind] || []) {
      const name = String(item[key]);
      if (!rows.has(name)) rows.set(name, { name, values: {}, short: false });
      rows.get(name).values[date] = item;
    }
  }
  return [...rows.values()];
}
