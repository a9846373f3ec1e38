// SeeView: the timeline of a server with its filter, pause and export, and the message that is chosen.

import * as api from "./api.js";
import { button, element, replace } from "./elements.js";
import { MessagePane } from "./message_pane.js";
import { gist, isLog, Timeline } from "./timeline.js";

const KINDS = [
  ["calls", "Calls", (entry) => ["request", "response", "error", "invalid"].includes(entry.kind)],
  ["notifications", "Notifications", (entry) => entry.kind === "notification" && !isLog(entry)],
  ["log", "Log", isLog],
  ["stderr", "stderr", (entry) => entry.kind === "stderr"],
];

// From the level that admits all log messages to the one that admits the fewest.
const LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

export class SeeView {
  constructor(app) {
    this._app = app;
    this._server = null;
    this._kinds = new Set(KINDS.map(([name]) => name));
    this._paused = false;
    this._seen = 0;
    this._generation = -1;
    this._shown = [];
    this.search = element("input", {
      type: "search",
      placeholder: "Filter  /",
      "aria-label": "Filter the messages",
      on: {
        input: () => {
          clearTimeout(this._timer);
          this._timer = setTimeout(() => this._again(), 150);
        },
      },
    });
    this._count = element("span", { class: "quiet-text", role: "status" });
    this._pause = button("Pause", () => this._toggle(), { icon: "pause", "aria-pressed": "false" });
    this._timeline = new Timeline({
      selected: (entry) => this._choose(entry, true),
      moved: (entry) => this._choose(entry, false),
    });
    this._timeline.running = (entry) => this._running(entry);
    this._message = new MessagePane(app, { go: (entry) => this._go(entry) });
    this._level = element("select", {
      "aria-label": "Log messages that the server sends",
      title: "The least urgent log messages that the server sends. By itself, the server is asked for info or decides.",
      class: "level",
      on: { change: () => this._setLevel() },
    });
    const kinds = element(
      "div",
      { class: "filters", role: "group", "aria-label": "Kinds of messages" },
      KINDS.map(([name, text]) =>
        element(
          "label",
          { class: "check" },
          element("input", {
            type: "checkbox",
            ".checked": true,
            on: {
              change: (event) => {
                if (event.target.checked) this._kinds.add(name);
                else this._kinds.delete(name);
                this._again();
              },
            },
          }),
          element("span", { text }),
        ),
      ),
    );
    this.element = element(
      "div",
      { class: "see-view" },
      element(
        "div",
        { class: "toolbar" },
        element("div", { class: "search" }, this.search),
        kinds,
        this._level,
        this._count,
        element("span", { class: "space" }),
        this._pause,
        button("Export", () => this._export(), { title: "All of the record, as a cassette that tests replay" }),
        button("Clear", () => this._clear()),
      ),
      element("div", { class: "see-split" }, this._timeline.element, this._message.element),
    );
    app.record.on("entries", () => this._update());
    // When a connection has ended, its requests do not run any more, so the rows in view are drawn again.
    app.record.on("servers", () => {
      if (!this._visible) return;
      this._timeline.list.draw();
      this._drawLevel();
    });
  }

  // The key of a route is the number of a call whose first message is chosen.
  enter({ server, key }) {
    this._visible = true;
    if (server !== this._server) {
      this._server = server;
      this._go(null);
      this._generation = -1;
    }
    this._update();
    this._drawLevel();
    const call = key && this._app.record.calls.get(Number(key) || key);
    if (call) {
      const named = (entry) =>
        entry.content?.params?.name === call.params?.name && entry.content?.params?.uri === call.params?.uri;
      const entry = this._app.record
        .entriesOf(server)
        .find(
          (one) => one.kind === "request" && one.method === call.method && one.time >= call.began - 0.05 && named(one),
        );
      if (entry) this._go(entry);
    } else {
      this._timeline.list.toEnd();
    }
  }

  leave() {
    this._visible = false;
  }

  // Shows the level that the user has chosen for this connection, if the server declares log messages.
  _drawLevel() {
    const server = this._app.record.servers.get(this._server);
    this._level.hidden = server?.state !== "open" || !("logging" in (server.capabilities || {}));
    replace(
      this._level,
      server?.logLevel ? null : element("option", { value: "", text: "log: usual" }),
      LEVELS.map((level) =>
        element("option", { value: level, text: `log: ${level}`, ".selected": level === server?.logLevel }),
      ),
    );
  }

  async _setLevel() {
    const params = { level: this._level.value };
    if (!(await this._app.attempt("call", { server: this._server, method: "logging/setLevel", params })))
      this._drawLevel();
  }

  _running(entry) {
    return this._app.record.servers.get(entry.server)?.state === "open";
  }

  _wanted(words) {
    const kinds = KINDS.filter(([name]) => this._kinds.has(name)).map(([, , test]) => test);
    return (entry) =>
      kinds.some((test) => test(entry)) &&
      words.every(
        (word) =>
          (entry.method || "").toLowerCase().includes(word) ||
          gist(entry).toLowerCase().includes(word) ||
          String(entry.id ?? "") === word ||
          (word.length > 2 && whole(entry).includes(word)),
      );
  }

  _again() {
    this._generation = -1;
    this._update(true);
  }

  _update(even = false) {
    if (!this._visible) return;
    const entries = this._app.record.entriesOf(this._server);
    if (this._paused && !even) {
      this._say(entries);
      return;
    }
    const wanted = this._wanted(this.search.value.toLowerCase().split(/\s+/).filter(Boolean));
    const { list } = this._timeline;
    const follow = list.atEnd;
    if (this._generation !== this._app.record.generation || this._seen > entries.length) {
      this._generation = this._app.record.generation;
      this._shown = entries.filter(wanted);
      list.show(this._shown);
    } else {
      const more = entries.slice(this._seen).filter(wanted);
      this._shown.push(...more);
      // If there are new answers, the rows of their requests have to show how long these took.
      if (entries.length > this._seen && entries.slice(this._seen).some((entry) => entry.answers)) list.redraw();
      else list.grown();
    }
    this._seen = entries.length;
    if (follow) list.toEnd();
    this._say(entries);
  }

  _say(entries) {
    const more = this._paused ? entries.length - this._seen : 0;
    const text =
      this._shown.length === entries.length || this._paused
        ? `${this._shown.length.toLocaleString("en")} messages`
        : `${this._shown.length.toLocaleString("en")} of ${entries.length.toLocaleString("en")}`;
    this._count.textContent = more > 0 ? `${text}, ${more.toLocaleString("en")} new` : text;
  }

  _toggle() {
    this._paused = !this._paused;
    this._pause.setAttribute("aria-pressed", String(this._paused));
    this._pause.lastChild.textContent = this._paused ? "Go on" : "Pause";
    if (!this._paused) this._again();
  }

  _choose(entry, focus) {
    this.element.classList.add("with-message");
    this._message.show(entry);
    if (focus && this._app.narrow) this._message.element.focus();
  }

  _go(entry) {
    const place = entry === null ? -1 : this._shown.indexOf(entry);
    this._timeline.list.go(place);
    this.element.classList.toggle("with-message", entry !== null);
    this._message.show(entry);
    if (entry === null) this._timeline.element.focus();
  }

  async _clear() {
    if (await this._app.attempt("clear", { server: this._server })) {
      this._app.record.clear(this._server);
      this._go(null);
    }
  }

  _export() {
    const link = element("a", {
      href: api.withKey(`/api/record?server=${encodeURIComponent(this._server)}`),
      download: "",
    });
    link.click();
  }
}

function whole(entry) {
  return (typeof entry.content === "string" ? entry.content : JSON.stringify(entry.content) || "").toLowerCase();
}
