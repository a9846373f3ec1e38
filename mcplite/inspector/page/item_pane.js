// ItemPane: one tool, resource, template, prompt or task: what it is, a form to use it, the result, and earlier calls.

import { beginning, button, clock, element, replace, seconds } from "./elements.js";
import { CallPane } from "./call_pane.js";
import { CompletionInput } from "./completion_input.js";
import * as api from "./api.js";
import { consent } from "./dialogs.js";
import { Form } from "./form.js";
import { jsonView } from "./json_view.js";
import { markdown } from "./markdown.js";
import { summary } from "./schema.js";
import { hasEnded } from "./task_follower.js";
import { expand, variables } from "./uri_template.js";

// By kind: the member that identifies an item, and the method that uses an item.
export const KEYS = { tools: "name", resources: "uri", templates: "uriTemplate", prompts: "name", tasks: "taskId" };
const METHODS = {
  tools: "tools/call",
  resources: "resources/read",
  templates: "resources/read",
  prompts: "prompts/get",
  tasks: "tasks/get",
};
const MOST_CALLS = 30;

export class ItemPane {
  constructor(app, server, kind, item) {
    this._app = app;
    this._server = server;
    this._kind = kind;
    this._item = item;
    this._key = String(item[KEYS[kind]]);
    this._consented = false;
    this._calls = new CallPane(app);
    this._history = element("div", {});
    this._empty = element("p", { class: "quiet-text", text: this._promise() });
    this._refusal = element("p", { class: "field-problem", role: "alert", hidden: true });
    this._form = this._makeForm();
    this._run = button(
      { tools: "Call", resources: "Read", templates: "Read", prompts: "Get", tasks: "Get" }[kind],
      () => this.run(),
      { kind: "primary", icon: "use", title: "Ctrl+Enter in a field does this as well" },
    );
    this._anyway = button("Send anyway", () => this.run({ anyway: true }), { kind: "quiet", hidden: true });
    this._preview = kind === "templates" ? element("output", { class: "mono preview" }) : null;
    this.element = element(
      "article",
      { class: "item-pane", "aria-label": this._key },
      this._head(),
      element(
        "div",
        { class: "item-columns" },
        element(
          "div",
          { class: "item-input" },
          this._form && this._form.element,
          this._preview,
          element("div", { class: "actions" }, this._run, this._anyway, this._more()),
          this._refusal,
          this._history,
        ),
        element("div", { class: "item-output" }, this._empty, this._calls.element),
      ),
    );
    const last = this._matching()[0];
    if (last) this._calls.show(last.call);
    this._input();
    this.update();
  }

  get key() {
    return this._key;
  }

  get item() {
    return this._item;
  }

  _head() {
    const { _item: item, _kind: kind } = this;
    const title =
      item.title || (item.annotations && item.annotations.title) || item.name || (item.taskId ? "Task" : item.uri);
    const notes = item.annotations || {};
    const tags = [];
    const tag = (text, look = "") => tags.push(element("span", { class: `tag ${look}`, text }));
    if (notes.readOnlyHint === true) tag("read only", "good");
    if (notes.destructiveHint === true) tag("destructive", "bad");
    if (notes.idempotentHint === true) tag("idempotent");
    if (notes.openWorldHint === true) tag("open world");
    if (item.mimeType) tag(item.mimeType);
    if (typeof item.size === "number") tag(`${item.size.toLocaleString("en")} bytes`);
    if (item.status) tag(item.status, { completed: "good", failed: "bad" }[item.status]);
    if (item.execution && item.execution.taskSupport) tag(`task: ${item.execution.taskSupport}`);
    return element(
      "header",
      { class: "item-head" },
      element("h2", { text: beginning(String(title)), tabindex: "-1" }),
      element("p", { class: "item-key" }, element("code", { text: this._key }), tags),
      item.description ? markdown(String(item.description)) : null,
      item.statusMessage ? element("p", { text: item.statusMessage }) : null,
      kind === "tasks" && !hasEnded(item)
        ? element(
            "p",
            { class: "quiet-text followed" },
            element("span", { class: "dot running" }),
            "The page follows this task.",
          )
        : null,
      element(
        "details",
        { class: "definition" },
        element("summary", { text: kind === "tools" ? "Definition and schemas" : "Definition" }),
        jsonView(item, { open: 3 }),
      ),
    );
  }

  _makeForm() {
    const { _item: item, _kind: kind } = this;
    const options = { changed: () => this._input(), submit: () => this.run() };
    if (kind === "tools") return new Form(item.inputSchema, options);
    if (kind !== "prompts" && kind !== "templates") return null;
    const given = kind === "prompts" ? item.arguments || [] : variables(this._key);
    const properties = Object.create(null);
    for (const one of given) properties[one.name] = { type: "string", title: one.title, description: one.description };
    const reference =
      kind === "prompts" ? { type: "ref/prompt", name: this._key } : { type: "ref/resource", uri: this._key };
    const completes = "completions" in (this._app.record.servers.get(this._server)?.capabilities || {});
    const suggest = (name) =>
      new CompletionInput(
        (value) =>
          api.post("complete", {
            server: this._server,
            ref: reference,
            argument: { name, value },
            context: { arguments: without(this._value(), name) },
          }),
        { picked: () => this._input() },
      );
    return new Form(
      { type: "object", properties, required: given.filter((one) => one.required).map((one) => one.name) },
      { ...options, label: kind === "prompts" ? "Arguments" : "Variables", suggest: completes ? suggest : null },
    );
  }

  // Returns the text that stands in place of the result before the first call.
  _promise() {
    if (this._kind !== "tools" || !this._item.outputSchema) return "The result will stand here.";
    const { outputSchema: schema } = this._item;
    const only = Object.keys(schema.properties || {});
    const found = only.length === 1 && only[0] === "result" ? schema.properties.result : schema;
    const members = only.length && found === schema ? ` with ${only.join(", ")}` : "";
    return `The result will stand here: ${summary(found, schema)}${members}.`;
  }

  _value() {
    try {
      return this._form ? this._form.get() : {};
    } catch {
      return {}; // text that is no JSON yet
    }
  }

  _input() {
    this._anyway.hidden = true;
    if (this._preview) this._preview.textContent = expand(this._key, this._value());
  }

  // Returns the controls beside the button, by the kind of the item and the capabilities of the server.
  _more() {
    const { _kind: kind, _item: item } = this;
    const capabilities = this._app.record.servers.get(this._server)?.capabilities || {};
    const direct = (text, method, params) => button(text, () => this._send(method, params));
    if (kind === "tasks") {
      const params = { taskId: this._key };
      return [
        capabilities.tasks ? direct("Result", "tasks/result", params) : null,
        direct("Cancel the task", "tasks/cancel", params),
      ];
    }
    if (kind === "resources" && capabilities.resources && capabilities.resources.subscribe) {
      return [
        direct("Subscribe", "resources/subscribe", { uri: this._key }),
        direct("Unsubscribe", "resources/unsubscribe", { uri: this._key }),
      ];
    }
    if (kind === "tools" && capabilities.tasks && ["optional", "required"].includes(item.execution?.taskSupport)) {
      this._asTask = element("input", { type: "checkbox", ".checked": item.execution.taskSupport === "required" });
      return element("label", {}, this._asTask, " as a task");
    }
    return null;
  }

  async run({ anyway = false } = {}) {
    const found = this._form ? this._form.check() : [];
    if (found.some((one) => one.unsendable) || (found.length && !anyway)) {
      this._anyway.hidden = found.some((one) => one.unsendable);
      this._form.focus();
      return;
    }
    const value = this._form ? this._form.get() : {};
    const params = {
      tools: { name: this._key, arguments: value },
      prompts: { name: this._key, arguments: value },
      resources: { uri: this._key },
      templates: { uri: expand(this._key, value) },
      tasks: { taskId: this._key },
    }[this._kind];
    if (this._asTask && this._asTask.checked) params.task = {};
    await this._send(METHODS[this._kind], params);
  }

  async _send(method, params) {
    const { annotations } = this._item;
    if (
      method === "tools/call" &&
      annotations &&
      annotations.destructiveHint === true &&
      annotations.readOnlyHint !== true &&
      !(await consent(this._key, jsonView(params.arguments)))
    )
      return;
    this._refusal.hidden = true;
    this._run.disabled = true;
    try {
      const { call } = await api.post("call", { server: this._server, method, params });
      this._app.callItems.set(call, this._place());
      this._calls.show(call);
      if (this._app.narrow) this._calls.element.scrollIntoView({ block: "nearest" });
    } catch (error) {
      this._refusal.textContent = error.message;
      this._refusal.hidden = false;
    } finally {
      this._run.disabled = false;
    }
  }

  // Requests the result of a task that has ended, or the questions of a task that waits for input, once for each state.
  settle() {
    const { _item: task } = this;
    if (this._kind !== "tasks" || !(hasEnded(task) || task.status === "input_required")) return;
    const state = `${this._place()} ${task.status} ${task.lastUpdatedAt ?? ""}`;
    if (this._app.settled.has(state)) return;
    this._app.settled.add(state);
    const byResult = this._app.record.servers.get(this._server)?.capabilities?.tasks && task.status !== "cancelled";
    const asked = (call) => call.method === "tasks/result" && ["running", "done"].includes(call.state);
    // One tasks/result is enough: it waits for the result, and the questions of the task arrive meanwhile.
    if (byResult && this._matching().some(asked)) return;
    this._send(byResult ? "tasks/result" : "tasks/get", { taskId: this._key });
  }

  _place() {
    return `${this._server} ${this._kind} ${this._key}`;
  }

  // Calls of this item, the newest first.
  _matching() {
    const named = { tools: "name", prompts: "name", resources: "uri", tasks: "taskId" }[this._kind];
    return this._app.record
      .callsOf(this._server)
      .filter(
        (call) =>
          this._app.callItems.get(call.call) === this._place() ||
          (named &&
            call.method.startsWith(METHODS[this._kind].split("/")[0]) &&
            call.params &&
            call.params[named] === this._key),
      )
      .reverse();
  }

  update() {
    this._calls.update();
    const calls = this._matching();
    if (calls.length && this._calls.number === null) this._calls.show(calls[0].call);
    this._empty.hidden = !this._calls.element.hidden;
    const state = JSON.stringify(calls.slice(0, MOST_CALLS).map((call) => [call.call, call.state]));
    if (state === this._drawnHistory) return;
    this._drawnHistory = state;
    const had = this._history.contains(document.activeElement);
    replace(
      this._history,
      calls.length ? element("h3", { text: "Earlier calls" }) : null,
      element(
        "ul",
        { class: "history" },
        calls.slice(0, MOST_CALLS).map((call) => this._past(call)),
      ),
    );
    if (had) this._run.focus();
  }

  _past(call) {
    const given = call.params.arguments ?? (this._kind === "templates" ? { uri: call.params.uri } : {});
    const bad = call.state === "failed" || call.result?.isError === true;
    const text = JSON.stringify(given);
    return element(
      "li",
      {},
      element(
        "button",
        { type: "button", class: "past", on: { click: () => this._calls.show(call.call) } },
        element("span", { class: `dot ${bad ? "bad" : call.state}` }),
        element("span", { class: "unseen", text: bad ? "failed" : call.state }),
        element("time", { text: clock(call.began).slice(0, 8) }),
        element("code", { text: text.length > 300 ? `${text.slice(0, 300)}…` : text }),
        element("span", { class: "quiet-text", text: call.ended ? seconds(call.ended - call.began) : "" }),
      ),
      this._form && this._kind !== "templates"
        ? button(
            "Edit",
            () => {
              this._form.set(given);
              this._input();
              this._form.focus();
            },
            { kind: "quiet", label: `Edit a call with ${text.slice(0, 80)}` },
          )
        : null,
      button("Repeat", () => this._send(call.method, call.params), {
        kind: "quiet",
        label: `Repeat a call with ${text.slice(0, 80)}`,
      }),
    );
  }

  focus() {
    if (this._form && this.element.querySelector(".form-head ~ * :is(input,select,textarea)")) this._form.focus();
    else this._run.focus();
  }
}

function without(values, name) {
  return Object.fromEntries(Object.entries(values).filter(([one]) => one !== name));
}
