// AnswerView: questions that wait, what was answered, and what the page answers by itself: roots, and canned sampling.

import { button, choice, clock, element, icon, replace } from "./elements.js";
import { jsonView } from "./json_view.js";

const CANNED = {
  role: "assistant",
  content: { type: "text", text: "A canned answer." },
  model: "canned",
  stopReason: "endTurn",
};

// What a question is about.
function asked({ kind, params }) {
  if (kind !== "sampling") return String(params?.message ?? kind);
  const [last] = (Array.isArray(params?.messages) ? params.messages : []).slice(-1);
  const text = [last?.content]
    .flat()
    .map((block) => block?.text)
    .find((one) => typeof one === "string");
  return `asks for a model's answer${text ? `: ${text}` : ""}`;
}

export class AnswerView {
  constructor(app) {
    this._app = app;
    this._server = null;
    this._waiting = element("div", {});
    this._answered = element("div", {});
    this._settings = element("div", { class: "cards" });
    // By server: what the user has entered.
    this._roots = new Map();
    this._sampling = new Map();
    this.element = element(
      "div",
      { class: "answer-view page" },
      element(
        "section",
        { "aria-labelledby": "waiting" },
        element("h2", { id: "waiting", text: "Questions" }),
        this._waiting,
      ),
      element(
        "section",
        { "aria-labelledby": "by-itself" },
        element("h2", { id: "by-itself", text: "What servers get without asking you" }),
        this._settings,
      ),
      element(
        "section",
        { "aria-labelledby": "answered" },
        element("h2", { id: "answered", text: "Answered here" }),
        this._answered,
      ),
    );
    app.record.on("questions", () => this._draw());
  }

  enter({ server }) {
    if (server !== this._server) {
      this._server = server;
      replace(this._settings, server ? [this._rootsCard(), this._samplingCard()] : null);
    }
    this._draw();
  }

  _draw() {
    const waiting = [...this._app.record.questions.values()];
    replace(
      this._waiting,
      waiting.length
        ? element(
            "ul",
            { class: "rows" },
            waiting.map((question) =>
              element(
                "li",
                {},
                icon("answer"),
                element(
                  "div",
                  {},
                  element("strong", { text: question.server }),
                  element("p", { text: asked(question).slice(0, 300) }),
                ),
                button("Answer", () => this._app.questions.ask(question.question), { kind: "primary" }),
              ),
            ),
          )
        : element("p", {
            class: "quiet-text",
            text: "No question waits. When a server asks during a call, a dialog opens here.",
          }),
    );
    const { answered } = this._app.questions;
    replace(
      this._answered,
      answered.length
        ? element(
            "ul",
            { class: "rows" },
            answered.map(({ question, given, time }) =>
              element(
                "li",
                {},
                element("time", { text: clock(time).slice(0, 8) }),
                element(
                  "div",
                  {},
                  element("strong", { text: question.server }),
                  element("p", { text: asked(question).slice(0, 300) }),
                  jsonView(given.result ?? given.error, { open: 1 }),
                ),
              ),
            ),
          )
        : element("p", { class: "quiet-text", text: "Nothing yet." }),
    );
  }

  _rootsCard() {
    const server = this._server;
    if (!this._roots.has(server)) this._roots.set(server, []);
    const roots = this._roots.get(server);
    const rows = element("div", { class: "items" });
    const says = element("p", { class: "quiet-text", role: "status" });
    const send = async () => {
      const given = roots.filter((root) => root.uri.trim());
      const done = await this._app.attempt("roots", {
        server,
        roots: given.map(({ uri, name }) => (name ? { uri, name } : { uri })),
      });
      says.textContent = done ? `The server is told of ${given.length} root${given.length === 1 ? "" : "s"}.` : "";
    };
    const draw = () =>
      replace(
        rows,
        roots.map((root, place) =>
          element(
            "div",
            { class: "item" },
            element("input", {
              type: "text",
              "aria-label": `URI of root ${place + 1}`,
              placeholder: "file:///home/me/project",
              ".value": root.uri,
              on: {
                input: (event) => {
                  root.uri = event.target.value;
                },
              },
            }),
            element("input", {
              type: "text",
              "aria-label": `Name of root ${place + 1}`,
              placeholder: "name",
              class: "short",
              ".value": root.name,
              on: {
                input: (event) => {
                  root.name = event.target.value;
                },
              },
            }),
            button(
              "",
              () => {
                roots.splice(place, 1);
                draw();
              },
              { icon: "close", kind: "quiet", label: `Remove root ${place + 1}` },
            ),
          ),
        ),
      );
    draw();
    return element(
      "div",
      { class: "card" },
      element("h3", { text: "Roots" }),
      element("p", {
        class: "quiet-text",
        text: "Folders that the server may work in. It asks for them by roots/list.",
      }),
      rows,
      element(
        "div",
        { class: "actions" },
        button(
          "Add a root",
          () => {
            roots.push({ uri: "", name: "" });
            draw();
          },
          { icon: "plus" },
        ),
        button("Use these roots", send, { kind: "primary" }),
      ),
      says,
    );
  }

  _samplingCard() {
    const server = this._server;
    if (!this._sampling.has(server)) this._sampling.set(server, { mode: "ask", text: JSON.stringify(CANNED, null, 2) });
    const kept = this._sampling.get(server);
    const says = element("p", { class: "quiet-text", role: "status" });
    const text = element("textarea", {
      rows: 8,
      class: "mono",
      "aria-label": "The canned answer as JSON",
      spellcheck: "false",
      ".value": kept.text,
      on: {
        input: () => {
          kept.text = text.value;
        },
      },
    });
    const box = element(
      "div",
      { hidden: kept.mode !== "canned" },
      text,
      element(
        "div",
        { class: "actions" },
        button("Use this answer", () => send(), { kind: "primary" }),
      ),
    );
    const send = async () => {
      let canned = null;
      if (kept.mode === "canned") {
        try {
          canned = JSON.parse(kept.text);
        } catch (error) {
          says.textContent = `This is not JSON: ${error.message}`;
          return;
        }
      }
      const done = await this._app.attempt("sampling", { server, mode: kept.mode, canned });
      says.textContent = !done
        ? ""
        : kept.mode === "canned"
          ? "Each request for sampling gets this answer."
          : "You are asked each time.";
    };
    return element(
      "div",
      { class: "card" },
      element("h3", { text: "Sampling" }),
      element("p", { class: "quiet-text", text: "When the server asks for a model's answer:" }),
      choice(
        "Sampling",
        [
          ["ask", "Ask me"],
          ["canned", "Canned answer"],
        ],
        kept.mode,
        (mode) => {
          kept.mode = mode;
          box.hidden = mode !== "canned";
          send();
        },
      ),
      box,
      says,
    );
  }
}
