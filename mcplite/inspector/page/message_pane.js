// MessagePane: one message of the timeline: its content, HTTP heads, what belongs to it, and how to send it elsewhere.

import * as api from "./api.js";
import { button, bytes, choice, clock, copyButton, download, element, replace, seconds } from "./elements.js";
import { copyableJson } from "./json_view.js";
import { textView } from "./result.js";

const FORMS = [
  ["curl", "curl"],
  ["python", "Python"],
  ["pytest", "pytest"],
  ["cassette", "Cassette"],
];

// Whether a message is a request to the server, or an answer to one: these can be exported.
const isOurs = ({ kind, direction, answers }) =>
  (kind === "request" && direction === "->") || (["response", "error"].includes(kind) && direction === "<-" && answers);

export class MessagePane {
  constructor(app, { go }) {
    this._app = app;
    this._go = go;
    this._way = "content";
    this.element = element("section", { class: "message-pane", "aria-label": "Message", tabindex: "-1" });
    this.show(null);
  }

  show(entry) {
    this._entry = entry;
    if (entry === null) {
      replace(this.element, element("p", { class: "quiet-text", text: "Choose a message to see all of it." }));
      return;
    }
    const out = entry.direction === "->";
    const facts = [
      clock(entry.time),
      bytes(entry.size || 0),
      entry.id !== null && entry.id !== undefined ? `id ${JSON.stringify(entry.id)}` : null,
      typeof entry.duration === "number" ? `took ${seconds(entry.duration)}` : null,
      entry.http?.response ? `HTTP ${entry.http.response.status}` : null,
    ];
    const partner = this._app.record.messages.get(entry.answers ?? entry.answeredBy);
    const ways =
      entry.kind === "stderr"
        ? []
        : [
            ["content", "Content"],
            ...(entry.http ? [["headers", "Headers"]] : []),
            ...(isOurs(entry) ? [["export", "Use elsewhere"]] : []),
          ];
    if (!ways.some(([way]) => way === this._way)) this._way = "content";
    const body = element("div", { class: "message-body" });
    const show = (way) => {
      this._way = way;
      replace(
        body,
        { content: () => this._content(entry), headers: () => heads(entry.http), export: () => this._export(entry) }[
          way
        ](),
      );
    };
    replace(
      this.element,
      element(
        "header",
        {},
        element(
          "h3",
          {},
          entry.kind === "stderr"
            ? null
            : element("span", { class: `way ${out ? "out" : "in"}`, text: out ? "→ " : "← " }),
          entry.method || entry.kind,
        ),
        element("p", { class: "quiet-text", text: [entry.kind, ...facts].filter(Boolean).join(" · ") }),
        element(
          "div",
          { class: "row" },
          ways.length ? choice("Part of the message", ways, this._way, show) : null,
          partner
            ? button(entry.answers ? "Its request" : "Its answer", () => this._go(partner), { kind: "quiet" })
            : null,
          button("", () => this._go(null), { icon: "close", kind: "quiet", label: "Close the message" }),
        ),
      ),
      body,
    );
    show(this._way);
  }

  _content(entry) {
    if (entry.cut > 0) return this._long(entry);
    if (typeof entry.content === "string") return textView(entry.content);
    return copyableJson(entry.content, { open: 4 });
  }

  // The page has only the beginning of a long message; a button loads all of it.
  _long(entry) {
    const box = element(
      "div",
      {},
      element("p", { class: "quiet-text", text: `The message is long; this is its beginning.` }),
      button("Load all of it", async () => {
        try {
          replace(box, textView(await api.messageText(entry.message)));
        } catch (error) {
          replace(box, element("p", { class: "error-line", text: error.message }));
        }
      }),
      textView(String(entry.content)),
    );
    return box;
  }

  _export(entry) {
    const shown = element("div", {});
    let chosen = null;
    const show = async (form) => {
      chosen = form;
      replace(shown, element("p", { class: "quiet-text", text: "…" }));
      try {
        const { filename, text } = await api.post("export", { message: entry.message, as: form });
        // The answer for an earlier choice may come last.
        if (chosen !== form) return;
        replace(
          shown,
          element(
            "div",
            { class: "row" },
            copyButton(text),
            button("Keep as a file", () => download(filename, text), { kind: "quiet" }),
          ),
          element("pre", { class: "plain", tabindex: "0", text }),
        );
      } catch (error) {
        if (chosen === form) replace(shown, element("p", { class: "error-line", text: error.message }));
      }
    };
    // A program can connect to a server with an address or a command, and not to one that is reached in another way.
    const named = this._app.record.servers.get(entry.server)?.transport !== "memory";
    const forms = named ? FORMS : FORMS.filter(([form]) => form === "cassette");
    show(forms[0][0]);
    return element("div", {}, choice("Write the message as", forms, forms[0][0], show), shown);
  }
}

function heads(http) {
  const lines = (headers) => (Array.isArray(headers) ? headers : Object.entries(headers || {}));
  const list = (headers) =>
    element(
      "dl",
      { class: "facts headers" },
      lines(headers).map(([name, value]) => [element("dt", { text: name }), element("dd", { text: String(value) })]),
    );
  return element(
    "div",
    {},
    http.request
      ? [element("h4", { text: `${http.request.method} ${http.request.url}` }), list(http.request.headers)]
      : null,
    http.response ? [element("h4", { text: `Status ${http.response.status}` }), list(http.response.headers)] : null,
  );
}
