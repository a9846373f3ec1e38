// Inspector: starts the page: views, routes in the address, the server that is shown, and keys that work everywhere.

import { AnswerView } from "./answer_view.js";
import * as api from "./api.js";
import { CompareView } from "./compare_view.js";
import { ConnectionView, stateDot } from "./connection_view.js";
import { openDialog } from "./dialogs.js";
import { button, element, icon, replace } from "./elements.js";
import { Questions } from "./questions.js";
import { Record } from "./record.js";
import { SeeView } from "./see_view.js";
import { UseView } from "./use_view.js";

const VIEWS = [
  ["use", "Use", UseView],
  ["answer", "Answer", AnswerView],
  ["see", "See", SeeView],
  ["compare", "Compare", CompareView],
  ["connection", "Connection", ConnectionView],
];
const KEYS = [
  ["/", "search or filter"],
  ["1 to 5", "the five views"],
  ["↑ ↓ Home End", "move in a list"],
  ["Enter", "open, or call"],
  ["Ctrl+Enter", "call, from any field"],
  ["Escape", "close; leave a question for later"],
  ["?", "these keys"],
];

class Inspector {
  constructor() {
    this.record = new Record();
    // Which item of the page a call was made for, by the number of the call.
    this.callItems = new Map();
    // States of tasks for which the page has already requested the result or the questions.
    this.settled = new Set();
    this.questions = new Questions(this);
    this._views = new Map(VIEWS.map(([name, , View]) => [name, new View(this)]));
    this._route = null;
    this._narrow = matchMedia("(max-width: 760px)");
    this.record.on("servers", () => this._servers());
    this.record.on("questions", () => this._count());
    this.record.on("outage", () => this._outage());
    addEventListener("hashchange", () => this._arrive());
    addEventListener("keydown", (event) => this._key(event));
  }

  get narrow() {
    return this._narrow.matches;
  }

  async start() {
    this._drawViews();
    try {
      await this.record.start();
    } catch (error) {
      this._say(
        error.status === 401 || error.status === 403
          ? "Open the address that the inspector printed; it works once."
          : error.message,
      );
      return;
    }
    this._servers();
    this._arrive();
    // If there is only one server, the user has started the inspector to use it, so it is opened at once.
    const servers = [...this.record.servers.values()];
    if (servers.length === 1 && servers[0].state === "closed")
      await this.attempt("open", { server: servers[0].name, revision: null });
  }

  // A route is #/view/server/kind/key.
  go({ view, server = this._route?.server ?? null, kind = "", key = "" }) {
    const parts = [view, server ?? "", kind, key].map((part) => encodeURIComponent(part));
    while (parts.length && !parts[parts.length - 1]) parts.pop();
    const hash = `#/${parts.join("/")}`;
    if (location.hash === hash) this._arrive();
    else location.hash = hash;
  }

  _arrive() {
    const [view, server, kind, key] = location.hash.slice(2).split("/").map(decoded);
    const names = [...this.record.servers.keys()];
    const route = {
      view: this._views.has(view) ? view : this._firstView(),
      server: this.record.servers.has(server) ? server : (names[0] ?? null),
      kind,
      key,
    };
    const before = this._route;
    this._route = route;
    if (before?.view !== route.view) {
      if (before) this._views.get(before.view).leave?.();
      replace(document.getElementById("main"), this._views.get(route.view).element);
    }
    this._views.get(route.view).enter(route);
    this._drawViews();
    this._servers();
  }

  _firstView() {
    return this.record.servers.size > 1 ? "connection" : "use";
  }

  _drawViews() {
    const nav = document.getElementById("views");
    const waiting = this.record.questions.size;
    if (!nav.childElementCount) {
      replace(
        nav,
        VIEWS.map(([name, text], place) =>
          element(
            "a",
            {
              href: `#/${name}`,
              "data-view": name,
              title: `${text} (${place + 1})`,
              on: {
                click: (event) => {
                  event.preventDefault();
                  this.go({ view: name });
                },
              },
            },
            icon(name),
            element("span", { text }),
            name === "answer" ? element("span", { class: "badge", hidden: true }) : null,
          ),
        ),
      );
    }
    for (const link of nav.children) {
      if (link.dataset.view === this._route?.view) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    const badge = nav.querySelector(".badge");
    badge.hidden = !waiting;
    badge.textContent = waiting ? String(waiting) : "";
    badge.setAttribute("aria-label", waiting ? `${waiting} waiting` : "");
  }

  _count() {
    const waiting = this.record.questions.size;
    const server = this._route?.server;
    document.title = `${waiting ? `(${waiting}) ` : ""}${server ? `${server} – ` : ""}mcplite inspector`;
    this._drawViews();
  }

  _servers() {
    const picker = document.getElementById("server-picker");
    const servers = [...this.record.servers.values()];
    const shown = this.record.servers.get(this._route?.server);
    const select = element(
      "select",
      { "aria-label": "Server", on: { change: () => this.go({ view: this._route.view, server: select.value }) } },
      servers.map((server) =>
        element("option", { value: server.name, text: server.name, ".selected": server === shown }),
      ),
    );
    const focused = picker.contains(document.activeElement);
    replace(
      picker,
      stateDot(shown),
      servers.length > 1 ? select : element("strong", { text: shown?.name ?? "no server" }),
      shown
        ? element("span", {
            class: "quiet-text revision",
            text: shown.state === "open" ? (shown.revision ?? "") : shown.state,
          })
        : null,
    );
    if (focused) select.focus();
    this._count();
  }

  // Returns what a view shows for a server that is not open.
  closedNote(server) {
    if (!server) return element("p", { class: "quiet-text lead", text: "There is no server." });
    if (server.state === "opening") {
      return element(
        "div",
        { class: "closed" },
        element("p", { class: "lead", role: "status", text: `${server.name} is opened…` }),
        element("progress", { "aria-label": "Opening" }),
      );
    }
    return element(
      "div",
      { class: "closed" },
      element("h2", {
        text: server.state === "failed" ? `${server.name} could not be opened` : `${server.name} is closed`,
      }),
      server.error ? element("p", { class: "error-line", role: "alert", text: server.error }) : null,
      element("p", { class: "target mono", text: server.target }),
      element(
        "div",
        { class: "actions" },
        button("Open", () => this.attempt("open", { server: server.name, revision: null }), { kind: "primary" }),
        server.transport === "http" && server.state === "failed"
          ? button("Log in", () => {
              this.go({ view: "connection", server: server.name });
              this.attempt("login", { server: server.name });
            })
          : null,
        button("Connection", () => this.go({ view: "connection", server: server.name })),
      ),
    );
  }

  openResource(server, uri) {
    this.go({ view: "use", server, kind: "resources", key: uri });
  }

  // Posts to a route, and shows an error in a dialog; returns whether there was none.
  async attempt(route, body) {
    try {
      await api.post(route, body);
      return true;
    } catch (error) {
      openDialog({
        title: "This did not work",
        body: element("p", { text: error.message }),
        actions: [["Close", () => true, "primary"]],
      });
      return false;
    }
  }

  announce(text) {
    document.getElementById("announcements").textContent = text;
  }

  _say(text) {
    const outage = document.getElementById("outage");
    outage.hidden = !text;
    outage.textContent = text;
  }

  _outage() {
    this._say(this.record.outage ? "The inspector does not answer. The page goes on when it is back." : "");
  }

  _key(event) {
    const typing = event.target.closest?.("input,select,textarea,[contenteditable]");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === "/") {
      const { search } = this._views.get(this._route?.view) || {};
      if (search) {
        event.preventDefault();
        search.focus();
        search.select();
      }
    } else if (event.key === "?") {
      openDialog({
        title: "Keys",
        body: element(
          "dl",
          { class: "facts" },
          KEYS.map(([key, what]) => [element("dt", {}, element("kbd", { text: key })), element("dd", { text: what })]),
        ),
      });
    } else if (/^[1-5]$/.test(event.key)) {
      this.go({ view: VIEWS[Number(event.key) - 1][0] });
    }
  }
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

new Inspector().start();
