// ConnectionView: the servers: their state, how to open and close them, what they say of themselves, doctor and login.

import * as api from "./api.js";
import { button, element, icon, replace } from "./elements.js";
import { jsonView } from "./json_view.js";

const STATES = { closed: "closed", opening: "opening…", open: "open", failed: "failed" };

export function stateDot(server) {
  return element("span", { class: `dot ${server ? server.state : "closed"}` });
}

export class ConnectionView {
  constructor(app) {
    this._app = app;
    this._revision = new Map();
    this.element = element("div", { class: "connection-view page" });
    app.record.on("servers", () => this._draw());
    app.record.on("walks", () => this._draw());
  }

  enter({ server }) {
    this._server = server;
    this._draw();
  }

  _draw() {
    const servers = [...this._app.record.servers.values()];
    const focused = document.activeElement?.dataset?.action;
    replace(
      this.element,
      element("h2", { text: servers.length === 1 ? "Server" : "Servers" }),
      element(
        "div",
        { class: "cards" },
        servers.map((server) => this._card(server)),
      ),
      element("p", { class: "quiet-text small", text: `mcplite ${this._app.record.version}` }),
    );
    if (focused)
      [...this.element.querySelectorAll("[data-action]")].find((one) => one.dataset.action === focused)?.focus();
  }

  _card(server) {
    const info = server.info || {};
    const busy = server.state === "opening";
    const open = server.state === "open";
    const walking = this._app.record.walks.get(server.name)?.state === "running";
    const wished = this._revision.get(server.name) || "";
    const revision = element(
      "select",
      {
        "aria-label": `Revision for ${server.name}`,
        on: { change: () => this._revision.set(server.name, revision.value) },
      },
      element("option", { value: "", text: "the newest that both know" }),
      this._app.record.revisions.map((date) =>
        element("option", { value: date, text: `as ${date}`, ".selected": wished === date }),
      ),
    );
    const act = (text, action, options = {}) =>
      button(text, action, { "data-action": `${text} ${server.name}`, ...options });
    return element(
      "section",
      { class: "card server-card", "aria-label": server.name },
      element(
        "header",
        {},
        stateDot(server),
        element("h3", { text: server.name }),
        element("span", { class: `tag ${server.state}`, text: STATES[server.state] }),
        element("span", { class: "tag", text: server.transport }),
      ),
      element("p", { class: "target mono", text: server.target }),
      server.error ? element("p", { class: "error-line", role: "alert", text: server.error }) : null,
      element(
        "div",
        { class: "actions" },
        revision,
        act(
          open ? "Open again" : "Open",
          () => this._app.attempt("open", { server: server.name, revision: revision.value || null }),
          { kind: open ? "" : "primary", disabled: busy },
        ),
        act("Close", () => this._app.attempt("close", { server: server.name }), { disabled: !open && !busy }),
        act("Examine", () => this._app.attempt("doctor", { server: server.name }), {
          title: "What mcplite doctor finds",
          disabled: walking,
        }),
        server.transport === "http"
          ? act(
              "Log in",
              () => this._app.attempt("login", { server: server.name, revision: revision.value || null }),
              { title: "Step by step, with what mcplite doctor finds", disabled: walking },
            )
          : null,
        open ? act("Use", () => this._app.go({ view: "use", server: server.name }), { kind: "quiet" }) : null,
      ),
      this._walk(server),
      open
        ? [
            element(
              "dl",
              { class: "facts" },
              [
                ["Name", info.title ? `${info.title} (${info.name})` : info.name],
                ["Version", info.version],
                ["Revision", server.revision],
              ]
                .filter(([, value]) => value)
                .map(([name, value]) => [element("dt", { text: name }), element("dd", { text: String(value) })]),
            ),
            server.instructions
              ? element(
                  "details",
                  { open: true },
                  element("summary", { text: "Instructions" }),
                  element("p", { class: "instructions", text: server.instructions }),
                )
              : null,
            element(
              "details",
              {},
              element("summary", { text: "Capabilities" }),
              jsonView(server.capabilities || {}, { open: 3 }),
            ),
          ]
        : null,
    );
  }

  // The steps of the walk through a server that are known so far, and what the user can do meanwhile.
  _walk(server) {
    const walk = this._app.record.walks.get(server.name);
    if (!walk) return null;
    const running = walk.state === "running";
    const words = {
      running: walk.url ? "Your turn: log in." : "The server is being looked at…",
      done: walk.login ? "You are logged in." : "That is all.",
      failed: walk.error,
    };
    return element(
      "div",
      { class: "walk" },
      walk.steps.length ? this._steps(walk.steps) : null,
      running && walk.url ? this._way(walk.url) : null,
      element(
        "div",
        { class: "actions" },
        element("p", {
          class: walk.state === "failed" ? "error-line" : "quiet-text",
          role: "status",
          text: words[walk.state] ?? "",
        }),
        running
          ? button("Stop", () => this._app.attempt("stop", { server: server.name }), {
              "data-action": `Stop ${server.name}`,
            })
          : null,
      ),
    );
  }

  // One entry for each step, with all that was found there.
  _steps(steps) {
    const marks = { good: ["✓", "good"], note: ["i", "note"], fault: ["!", "bad"] };
    const titles = [...new Set(steps.map((step) => step.title))];
    const worst = (some) => ["fault", "note"].find((state) => some.some((one) => one.state === state)) ?? "good";
    return element(
      "ol",
      { class: "steps", "aria-label": "What was found" },
      titles.map((title) => {
        const found = steps.filter((step) => step.title === title);
        const state = worst(found);
        return element(
          "li",
          { class: marks[state][1] },
          element("span", { class: "step-mark", role: "img", "aria-label": state, text: marks[state][0] }),
          element(
            "div",
            {},
            element("strong", { text: title }),
            found.map((step) => [
              element("p", { class: step.state === "fault" ? "bad" : null, text: step.text }),
              step.advice ? element("p", { class: "advice", text: step.advice }) : null,
            ]),
          ),
        );
      }),
    );
  }

  // A link to the page where the user logs in; an error if the address is no web page.
  _way(address) {
    let url = null;
    try {
      url = new URL(address);
    } catch {
      return element("p", { class: "error-line", text: `The login is at no address: ${address}` });
    }
    if (!["http:", "https:"].includes(url.protocol))
      return element("p", { class: "error-line", text: `The login is not a web page: ${address}` });
    return element(
      "p",
      { class: "login" },
      element(
        "a",
        { class: "button primary", href: url.href, target: "_blank", rel: "noopener noreferrer" },
        icon("link"),
        element("span", { text: `Log in at ${url.host}` }),
      ),
      element("span", { class: "quiet-text", text: " in a new tab; the server opens when you are back." }),
    );
  }
}
