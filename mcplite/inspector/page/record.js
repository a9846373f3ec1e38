// Record: all that the page knows of its servers, in the order in which the stream of events told it.

import * as api from "./api.js";
import { equal } from "./schema.js";

// Most messages and lines of stderr of one server.
const MOST_ENTRIES = 10_000;
const LIST_METHODS = {
  tools: "tools",
  resources: "resources",
  templates: "resources",
  prompts: "prompts",
  tasks: "tasks",
};

const MOST_CALLS = 500;

// The task that a result is about, if it is about one.
export function taskOf(result) {
  const task = result?.task ?? (typeof result?.status === "string" ? result : null);
  return typeof task?.taskId === "string" ? task : null;
}

// The kinds of items that a server can list, in the order of the page's tabs.
export const KINDS = Object.keys(LIST_METHODS);

// Calls its listeners by topic, for each topic at most once in some milliseconds: servers, entries, calls, questions,
// lists, updated, walks, outage.
export class Record {
  constructor() {
    this.servers = new Map();
    this.revisions = [];
    this.version = "";
    // By server: messages and lines of stderr, which the timeline shows one below the other.
    this.entries = new Map();
    this.messages = new Map();
    this.dropped = new Map();
    this.calls = new Map();
    // By server: its latest walk, with the steps that are known so far.
    this.walks = new Map();
    this.questions = new Map();
    this.lists = new Map();
    this.outage = false;
    // Counted up when entries have been dropped or changed, so that views draw all entries again.
    this.generation = 0;
    this._listeners = new Map();
    this._told = new Set();
    this._waiting = null;
  }

  async start() {
    const state = await api.get("/api/state");
    this.revisions = state.revisions;
    this.version = state.version;
    for (const server of state.servers) this._server(server);
    api.events(
      (name, data) => this._receive(name, data),
      (outage) => {
        if (outage !== this.outage) {
          this.outage = outage;
          this._tell("outage");
        }
      },
    );
  }

  // Calls the listener after changes of a topic; returns a function that removes the listener.
  on(topic, listener) {
    if (!this._listeners.has(topic)) this._listeners.set(topic, new Set());
    this._listeners.get(topic).add(listener);
    return () => this._listeners.get(topic).delete(listener);
  }

  _tell(topic) {
    this._told.add(topic);
    if (this._waiting === null) this._waiting = setTimeout(() => this._flush(), 16);
  }

  _flush() {
    const told = this._told;
    this._told = new Set();
    this._waiting = null;
    for (const topic of told) {
      for (const listener of this._listeners.get(topic) || []) listener();
    }
  }

  entriesOf(server) {
    if (!this.entries.has(server)) this.entries.set(server, []);
    return this.entries.get(server);
  }

  callsOf(server) {
    return [...this.calls.values()].filter((call) => call.server === server);
  }

  _receive(name, data) {
    const receivers = {
      server: () => this._server(data),
      message: () => this._message(data),
      "message-update": () => this._update(data),
      dropped: () => this._dropped(data),
      cleared: () => this.clear(data.server),
      stderr: () => this._stderr(data),
      call: () => this._call(data),
      question: () => this._question(data),
      "question-closed": () => this._questionClosed(data),
      changed: () => this._changed(data),
      updated: () => this._updated(data),
      walk: () => this._walk(data),
    };
    receivers[name]();
  }

  _server(server) {
    const before = this.servers.get(server.name);
    // The stream of events begins with what the page knows already.
    if (before && equal(before, server)) return;
    this.servers.set(server.name, server);
    if (server.state !== "open" || (before && before.revision !== server.revision)) {
      for (const kind of KINDS) this.lists.delete(`${kind} ${server.name}`);
      this._tell("lists");
    }
    this._tell("servers");
  }

  _message(message) {
    if (this.messages.has(message.message)) return; // the stream was resumed, and sends the message again
    this.messages.set(message.message, message);
    this.entriesOf(message.server).push(message);
    this._matched(message);
    this._bound(message.server);
    this._tell("entries");
    // Some servers send the status of a task without a request for it.
    if (message.method === "notifications/tasks/status" && message.kind === "notification") {
      const task = taskOf(message.content?.params);
      if (task) this._task(message.server, task);
    }
  }

  // Gives the number and the duration of an answer to its request, so that the timeline can draw them.
  _matched(message) {
    const request = message.answers === null ? null : this.messages.get(message.answers);
    if (request) {
      request.answeredBy = message.message;
      request.duration = message.duration ?? message.time - request.time;
      request.failed = message.kind === "error";
    }
  }

  _update(message) {
    const known = this.messages.get(message.message);
    if (!known) return;
    Object.assign(known, message);
    this._matched(known);
    this.generation += 1;
    this._tell("entries");
  }

  // Notes how many messages of a server the inspector has dropped in all; the page itself drops its oldest entries.
  _dropped({ server, messages }) {
    this.dropped.set(server, messages);
    this._tell("entries");
  }

  _bound(server) {
    const entries = this.entriesOf(server);
    if (entries.length <= MOST_ENTRIES + MOST_ENTRIES / 10) return;
    for (const entry of entries.splice(0, entries.length - MOST_ENTRIES)) this.messages.delete(entry.message);
    this.generation += 1;
  }

  // Forgets the entries of a server, after the user has cleared them.
  clear(server) {
    for (const entry of this.entriesOf(server)) this.messages.delete(entry.message);
    this.entries.set(server, []);
    this.generation += 1;
    this._tell("entries");
  }

  _stderr({ server, time, line }) {
    const entries = this.entriesOf(server);
    entries.push({
      kind: "stderr",
      direction: "<-",
      server,
      time,
      method: null,
      id: null,
      content: line,
      size: line.length,
      duration: null,
      http: null,
    });
    this._bound(server);
    this._tell("entries");
  }

  _call(call) {
    this.calls.set(call.call, call);
    if (this.calls.size > MOST_CALLS) this.calls.delete(this.calls.keys().next().value);
    const task = taskOf(call.result);
    if (task) this._task(call.server, task);
    this._tell("calls");
  }

  // Requests the present state of a task, and updates the list of tasks with it.
  async follow(server, id) {
    const { task } = await api.post("task", { server, task: id });
    const found = taskOf(task);
    if (found) this._task(server, found);
  }

  // Updates the list of tasks with the state of a task, unless the list has a newer one.
  _task(server, task) {
    const list = this.lists.get(`tasks ${server}`);
    if (!list || list.state !== "ready") return;
    const known = list.items.find((one) => one.taskId === task.taskId);
    if (known && (known.lastUpdatedAt ?? "") > (task.lastUpdatedAt ?? "")) return;
    if (known && equal({ ...known, ...task }, known)) return;
    list.items = known ? list.items.map((one) => (one === known ? { ...one, ...task } : one)) : [...list.items, task];
    this._tell("lists");
  }

  // Adds a question that the page asks on behalf of a server: its answer(given) is called instead of a POST of the
  // answer.
  ask(question) {
    this._question({ question: `page ${(this._asked = (this._asked ?? 0) + 1)}`, call: null, ...question });
  }

  _question(question) {
    if (!this.questions.has(question.question)) this.questions.set(question.question, question);
    this._tell("questions");
  }

  _questionClosed({ question }) {
    this.forget(question);
  }

  // Forgets a question that was answered here, or that the server has withdrawn.
  forget(question) {
    this.questions.delete(question);
    this._tell("questions");
  }

  _changed({ server, kind }) {
    this.refresh(server, kind);
  }

  _walk(walk) {
    this.walks.set(walk.server, walk);
    this._tell("walks");
  }

  _updated({ server, uri }) {
    this.updated = { server, uri, time: Date.now() };
    this._tell("updated");
  }

  // Returns a list of a server, {state: "loading", "ready" or "failed", items, error}; requests it if it is not known
  // or is stale. A stale list has its old items until the new ones have come.
  list(server, kind) {
    const key = `${kind} ${server}`,
      known = this.lists.get(key);
    if (known && !known.stale) return known;
    const list = { state: "loading", items: known?.items ?? [], error: null, stale: false };
    this.lists.set(key, list);
    api
      .post("lists", { server, kind })
      .then(({ items }) => Object.assign(list, { state: "ready", items }))
      .catch((error) => Object.assign(list, { state: "failed", error: error.message }))
      .then(() => this._tell("lists"));
    return list;
  }

  refresh(server, kind) {
    const list = this.lists.get(`${kind} ${server}`);
    if (!list) return;
    list.stale = true;
    this._tell("lists");
  }

  // Whether the server declares that it has items of this kind.
  offers(server, kind) {
    const capabilities = (this.servers.get(server) || {}).capabilities || {};
    if (kind === "tasks") {
      return (
        "tasks" in capabilities || Object.keys(capabilities.extensions || {}).some((name) => name.endsWith("/tasks"))
      );
    }
    return LIST_METHODS[kind] in capabilities;
  }
}
