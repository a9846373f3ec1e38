// CallPane: one call of a server: how far it is, how to cancel it, and what came back.

import * as api from "./api.js";
import { button, clock, element, replace, seconds } from "./elements.js";
import { copyableJson } from "./json_view.js";
import { taskOf } from "./record.js";
import { resultView } from "./result.js";

export class CallPane {
  constructor(app) {
    this._app = app;
    this._number = null;
    this._drawn = "";
    this._head = element("div", { class: "call-head" });
    this._body = element("div", { class: "call-body" });
    this.element = element("section", { class: "call", "aria-label": "Result", hidden: true }, this._head, this._body);
  }

  // Shows a call by its number; null shows none.
  show(number) {
    this._number = number;
    this._drawn = "";
    this.update();
  }

  get number() {
    return this._number;
  }

  update() {
    const call = this._app.record.calls.get(this._number) || null;
    this.element.hidden = call === null;
    if (call === null) return;
    const state = JSON.stringify([call.call, call.state, call.progress]);
    if (state === this._drawn) return;
    const before = this._drawn;
    this._drawn = state;
    replace(
      this._head,
      this._state(call),
      element("time", { text: clock(call.began) }),
      call.state === "running"
        ? button("Cancel", () => this._cancel(call), { icon: "close" })
        : button("See its messages", () => this._app.go({ view: "see", server: call.server, key: call.call }), {
            kind: "quiet",
          }),
    );
    if (call.state === "running") replace(this._body, progress(call));
    else replace(this._body, this._outcome(call));
    if (before && call.state !== "running") this._app.announce(`${call.method}: ${call.state}`);
  }

  _state(call) {
    const took = call.ended ? `, ${seconds(call.ended - call.began)}` : "";
    const bad = call.state === "failed" || (call.result && call.result.isError === true);
    const words = {
      running: "Running",
      done: bad ? "Answered with an error" : "Done",
      failed: "Failed",
      cancelled: "Cancelled",
    };
    return element("strong", { class: `state ${bad ? "bad" : call.state}`, text: `${words[call.state]}${took}` });
  }

  _outcome(call) {
    if (call.state === "done")
      return [
        this._task(call),
        resultView(call.method, call.result, (uri) => this._app.openResource(call.server, uri)),
      ];
    if (call.state === "cancelled") {
      return element("p", { class: "quiet-text", text: `The call was cancelled. ${call.error?.message ?? ""}` });
    }
    return errorView(call.error || {});
  }

  // If the call has become a task: its status, a button to go to it, and a button to answer its questions, if it asks
  // some.
  _task(call) {
    const task = taskOf(call.result);
    if (task === null) return null;
    const asked = Object.entries(call.result.inputRequests || {});
    return element(
      "div",
      { class: "actions" },
      element("span", { class: "tag", text: `task ${task.status}` }),
      task.statusMessage ? element("span", { class: "quiet-text", text: task.statusMessage }) : null,
      call.method.startsWith("tasks/")
        ? null
        : button("Go to the task", () =>
            this._app.go({ view: "use", server: call.server, kind: "tasks", key: task.taskId }),
          ),
      asked.length
        ? button("Answer what it asks", () => asked.forEach((one) => this._ask(call, task, one)), { kind: "primary" })
        : null,
    );
  }

  _ask(call, task, [name, request]) {
    const params = request?.params || {};
    const kind =
      request?.method === "sampling/createMessage" ? "sampling" : params.mode === "url" ? "url" : "elicitation";
    this._app.record.ask({
      server: call.server,
      kind,
      params,
      answer: async ({ result, error }) => {
        if (error) throw new Error("The questions of a task cannot be refused by an error: cancel the task.");
        const responses = { taskId: task.taskId, inputResponses: { [name]: result } };
        await api.post("call", { server: call.server, method: "tasks/update", params: responses });
      },
    });
  }

  async _cancel(call) {
    await this._app.attempt("cancel", { call: call.call });
  }
}

// An error of JSON-RPC or of the connection.
export function errorView(error) {
  return element(
    "div",
    { class: "error" },
    element("p", { class: "error-line", text: error.message || error.text || "The call failed." }),
    error.code !== undefined && error.code !== null
      ? element("p", { class: "quiet-text", text: `Error ${error.code}` })
      : null,
    error.text && error.text !== error.message ? element("p", { text: error.text }) : null,
    error.data !== undefined && error.data !== null ? copyableJson(error.data) : null,
  );
}

function progress(call) {
  const at = call.progress;
  const known = at && typeof at.total === "number" && at.total > 0;
  return element(
    "div",
    { class: "progress" },
    element("progress", { "aria-label": "Progress", max: known ? at.total : null, value: known ? at.progress : null }),
    element("span", {
      class: "quiet-text",
      text: at
        ? [known ? `${at.progress} of ${at.total}` : String(at.progress), at.message].filter(Boolean).join(": ")
        : "waiting for the server",
    }),
  );
}
