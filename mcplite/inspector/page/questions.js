// Questions: what servers ask while a call runs, one dialog after the other. Escape leaves a question for later.

import * as api from "./api.js";
import { button, choice, element, foreignLink, replace } from "./elements.js";
import { openDialog } from "./dialogs.js";
import { Form } from "./form.js";
import { jsonView } from "./json_view.js";
import { markdown } from "./markdown.js";
import { conversation } from "./result.js";

// The JSON-RPC error that the server gets when the user refuses sampling.
const REFUSED = { code: -1, message: "User rejected sampling request" };
const TITLES = {
  elicitation: "The server asks",
  url: "The server asks you to open a page",
  sampling: "The server asks for a model's answer",
};

export class Questions {
  constructor(app) {
    this._app = app;
    this._later = new Set();
    this._dialog = null;
    this._asked = null;
    // What was answered on this page, the newest first.
    this.answered = [];
    // A model's key, in this page's memory only.
    this._model = { provider: "anthropic", model: "", key: "" };
    app.record.on("questions", () => this._next());
  }

  // Opens a question that was left for later.
  ask(number) {
    this._later.delete(number);
    this._next();
  }

  _next() {
    const { questions } = this._app.record;
    if (this._asked !== null && !questions.has(this._asked)) {
      this._dialog.closeNow();
      this._ended();
    }
    if (this._dialog !== null) return;
    for (const [number, question] of questions) {
      if (!this._later.has(number)) {
        this._open(question);
        return;
      }
    }
  }

  _ended() {
    this._dialog = null;
    this._asked = null;
  }

  _open(question) {
    this._asked = question.question;
    const make = {
      elicitation: () => this._elicitation(question),
      url: () => this._url(question),
      sampling: () => this._sampling(question),
    }[question.kind];
    const refusal = element("p", { class: "field-problem", role: "alert", hidden: true });
    const { body, actions } = make ? make() : { body: jsonView(question.params), actions: [] };
    const head = element(
      "p",
      { class: "asks" },
      element("strong", { text: question.server }),
      question.call ? ` asks during ${this._callName(question.call)}` : " asks",
    );
    this._dialog = openDialog({
      title: TITLES[question.kind] || "The server asks",
      wide: question.kind === "sampling",
      closeLabel: "Later",
      body: [head, body, refusal],
      actions: actions.map(([text, answer, kind]) => [
        text,
        async () => {
          const given = answer();
          if (given === null) return false;
          try {
            if (question.answer) await question.answer(given);
            else await api.post("answer", { question: question.question, ...given });
          } catch (error) {
            refusal.textContent = error.message;
            refusal.hidden = false;
            return false;
          }
          this.answered.unshift({ question, given, time: Date.now() / 1000 });
          this.answered.length = Math.min(this.answered.length, 100);
          this._ended();
          this._app.record.forget(question.question);
          return true;
        },
        kind,
      ]),
      escaped: () => {
        this._later.add(question.question);
        this._ended();
        this._app.announce("The question waits in the view Answer.");
        this._next();
      },
    });
    this._dialog.querySelector(".dialog-body :is(.members :is(input,select,textarea), #sampling-text, a)")?.focus();
  }

  _callName(number) {
    const call = this._app.record.calls.get(number);
    return call
      ? [call.method, call.params && (call.params.name || call.params.uri)].filter(Boolean).join(" ")
      : "a call";
  }

  _elicitation({ params }) {
    const form = new Form(params.requestedSchema, { label: "Your answer" });
    let checked = false;
    const send = () => {
      const found = form.check();
      // A second press sends the answer although the schema refuses it: the user can see whether the server refuses it,
      // too.
      if (found.length && (!checked || found.some((one) => one.unsendable))) {
        checked = true;
        form.focus();
        return null;
      }
      return { result: { action: "accept", content: form.get() } };
    };
    return {
      body: [markdown(String(params.message ?? "")), form.element],
      actions: [
        ["Cancel", () => ({ result: { action: "cancel" } })],
        ["Decline", () => ({ result: { action: "decline" } })],
        ["Send the answer", send, "primary"],
      ],
    };
  }

  _url({ params }) {
    const address = String(params.url ?? "");
    let host = "";
    try {
      host = new URL(address).host;
    } catch {
      host = ""; // shown as it is
    }
    return {
      body: [
        markdown(String(params.message ?? "")),
        host ? element("p", { class: "host-line" }, "The page is at ", element("strong", { text: host })) : null,
        element("p", { class: "mono address" }, foreignLink(address)),
        element("p", {
          class: "quiet-text",
          text: "Open it in a new tab if you trust the host, then tell the server that you have.",
        }),
      ],
      actions: [
        ["Cancel", () => ({ result: { action: "cancel" } })],
        ["Decline", () => ({ result: { action: "decline" } })],
        ["I have opened it", () => ({ result: { action: "accept" } }), "primary"],
      ],
    };
  }

  _sampling(question) {
    const { params } = question;
    const text = element("textarea", { rows: 5, id: "sampling-text" });
    const model = element("input", { type: "text", id: "sampling-model", value: "by hand", class: "short" });
    const raw = element("textarea", {
      rows: 10,
      class: "mono",
      "aria-label": "The result as JSON",
      spellcheck: "false",
    });
    const problem = element("p", { class: "field-problem", role: "alert", hidden: true });
    let way = "text";
    const made = () => ({
      role: "assistant",
      content: { type: "text", text: text.value },
      model: model.value,
      stopReason: "endTurn",
    });
    const byText = element(
      "div",
      {},
      element("label", { class: "label", for: "sampling-text", text: "The answer" }),
      text,
      element("label", { class: "label", for: "sampling-model", text: "Name of the model" }),
      model,
    );
    const box = element("div", {}, byText);
    const ways = element("div", {});
    const drawWays = () =>
      replace(
        ways,
        choice(
          "Write the answer as",
          [
            ["text", "Text"],
            ["json", "JSON"],
          ],
          way,
          show,
        ),
      );
    const show = (chosen) => {
      if (chosen === "json" && way === "text") raw.value = JSON.stringify(made(), null, 2);
      way = chosen;
      replace(box, way === "text" ? byText : raw);
      drawWays();
    };
    drawWays();
    const take = (result) => {
      if (result.content && result.content.type === "text") {
        text.value = result.content.text;
        model.value = result.model || "";
        show("text");
      } else {
        way = "json";
        raw.value = JSON.stringify(result, null, 2);
        show("json");
      }
    };
    const answer = () => {
      if (way === "text") return { result: made() };
      try {
        return { result: JSON.parse(raw.value) };
      } catch (error) {
        problem.textContent = `This is not JSON: ${error.message}`;
        problem.hidden = false;
        return null;
      }
    };
    const rest = Object.fromEntries(
      Object.entries(params).filter(([name]) => !["messages", "systemPrompt"].includes(name)),
    );
    return {
      body: [
        params.systemPrompt
          ? element(
              "details",
              { open: true },
              element("summary", { text: "System prompt" }),
              element("pre", { class: "plain", text: String(params.systemPrompt) }),
            )
          : null,
        conversation(Array.isArray(params.messages) ? params.messages : [], (uri) =>
          this._app.openResource(question.server, uri),
        ),
        element("details", {}, element("summary", { text: "Limits, preferences and tools" }), jsonView(rest)),
        this._modelBox(question, take),
        element("div", { class: "form-head" }, element("h3", { text: "Answer" }), ways),
        box,
        problem,
      ],
      actions: [
        ["Refuse", () => ({ error: REFUSED })],
        ["Send the answer", answer, "primary"],
      ],
    };
  }

  // A box to ask a model. take(result) fills in the model's answer, which the user can change before it is sent.
  _modelBox(question, take) {
    const kept = this._model;
    const bound = (name, attributes) =>
      element("input", {
        ...attributes,
        ".value": kept[name],
        on: {
          input: (event) => {
            kept[name] = event.target.value;
          },
        },
      });
    const says = element("p", { class: "quiet-text", role: "status" });
    const ask = button("Ask the model", async () => {
      ask.disabled = true;
      says.textContent = "The model is asked…";
      try {
        take((await api.post("model", { question: question.question, ...kept })).result);
        says.textContent = "Read the answer, change it if you like, and send it.";
      } catch (error) {
        says.textContent = error.message;
      } finally {
        ask.disabled = false;
      }
    });
    const label = (text, node) => element("label", { class: "inline" }, element("span", { text }), node);
    return element(
      "details",
      { class: "model-box", open: Boolean(kept.key) },
      element("summary", { text: "Ask a model" }),
      element(
        "div",
        { class: "row" },
        label(
          "Provider",
          element(
            "select",
            {
              on: {
                change: (event) => {
                  kept.provider = event.target.value;
                },
              },
            },
            [
              ["anthropic", "Anthropic"],
              ["openai", "OpenAI"],
            ].map(([value, text]) => element("option", { value, text, ".selected": kept.provider === value })),
          ),
        ),
        label("Model", bound("model", { type: "text", autocomplete: "off", class: "short" })),
        label("Key", bound("key", { type: "password", autocomplete: "off", class: "short" })),
        ask,
      ),
      element("p", {
        class: "quiet-text small",
        text: "The key stays in this page's memory and is sent with this request only.",
      }),
      says,
    );
  }
}
