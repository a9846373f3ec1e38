// Dialogs: modal windows, one above the other, that give the focus back when they close.

import { button, element } from "./elements.js";

let dialogs = 0;

// Opens a dialog and returns it. Options: title; body, which is nodes; actions, as [text, action, kind]: if an action
// returns false, or a promise of it, the dialog stays open; escaped(), called when the user closes the dialog by Escape
// or by the cross.
export function openDialog({ title, body, actions = [], escaped = () => {}, wide = false, closeLabel = "Close" }) {
  const id = `dialog-${(dialogs += 1)}`;
  const leave = () => {
    close();
    escaped();
  };
  const buttons = actions.map(([text, action, kind]) =>
    button(
      text,
      async () => {
        buttons.forEach((one) => {
          one.disabled = true;
        });
        let done = true;
        try {
          done = (await action()) !== false;
        } finally {
          buttons.forEach((one) => {
            one.disabled = false;
          });
        }
        if (done) close();
      },
      { kind },
    ),
  );
  const dialog = element(
    "dialog",
    { "aria-labelledby": id, class: wide ? "wide" : null },
    element(
      "div",
      { class: "dialog-head" },
      element("h2", { id, text: title }),
      button("", leave, { icon: "close", kind: "quiet", label: closeLabel }),
    ),
    element("div", { class: "dialog-body" }, body),
    buttons.length ? element("div", { class: "dialog-actions" }, buttons) : null,
  );
  const close = () => {
    if (dialog.open) dialog.close();
    dialog.remove();
  };
  dialog.addEventListener("cancel", (event) => {
    event.preventDefault();
    leave();
  });
  document.body.append(dialog);
  dialog.showModal();
  dialog.closeNow = close;
  return dialog;
}

// Asks whether to call a tool that says that it destroys things; resolves with true or false.
export function consent(tool, shown) {
  return new Promise((resolve) => {
    openDialog({
      title: `Call ${tool}?`,
      body: [
        element("p", { text: "The server marks this tool as destructive: what it does may not be undone." }),
        shown,
      ],
      actions: [
        ["Do not call", () => resolve(false), ""],
        ["Call it", () => resolve(true), "danger"],
      ],
      escaped: () => resolve(false),
    });
  });
}
