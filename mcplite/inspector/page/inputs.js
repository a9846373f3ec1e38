// Inputs: the fields of a form with one value each: text, number, choice, file, and frames for them and for groups.

import { button, choice, element, replace } from "./elements.js";
import { limits, summary } from "./schema.js";

let fields = 0;

// The frame of a field with one input: label, type, description, limits, and problems.
function frame(schema, context, { name, required, title, nullable }, control, { grouped = false } = {}) {
  const id = `field-${(fields += 1)}`;
  const label = schema.title || title || name || "value";
  const problem = element("p", { class: "field-problem", id: `${id}-problem`, hidden: true });
  const nullBox = nullable
    ? element("input", {
        type: "checkbox",
        on: {
          change: () => {
            control.toggleAttribute("inert", nullBox.checked);
            context.changed();
          },
        },
      })
    : null;
  const input = grouped
    ? null
    : control.matches("input,select,textarea")
      ? control
      : control.querySelector("input,select,textarea");
  const head = element(
    "div",
    { class: "field-head" },
    grouped
      ? element("span", { class: "label", id: `${id}-label`, text: label })
      : element("label", { for: input.id || id, text: label }),
    name && label !== name ? element("code", { class: "field-name", text: name }) : null,
    required ? element("span", { class: "required", text: "required" }) : null,
    element("span", { class: "field-type", text: [summary(schema, context.root), ...limits(schema)].join(" · ") }),
    typeof schema["x-mcp-header"] === "string"
      ? element("span", { class: "field-type", text: `also sent as Mcp-Param-${schema["x-mcp-header"]}` })
      : null,
    nullBox ? element("label", { class: "null-box" }, nullBox, " null") : null,
  );
  if (grouped) {
    control.setAttribute("aria-labelledby", `${id}-label`);
  } else {
    if (!input.id) input.id = id;
    input.setAttribute("aria-describedby", problem.id);
    if (required) input.setAttribute("aria-required", "true");
  }
  const body = element(
    "div",
    { class: "field" },
    head,
    schema.description ? element("p", { class: "field-note", text: schema.description }) : null,
    control,
    problem,
  );
  return {
    element: body,
    input: input || control,
    isNull: () => nullBox !== null && nullBox.checked,
    setNull: (on) => {
      if (nullBox) nullBox.checked = on;
      control.toggleAttribute("inert", on);
    },
    mark: (found) => {
      problem.textContent = [...new Set(found.map((one) => one.text))].join("; ");
      problem.hidden = !found.length;
      (input || control).setAttribute("aria-invalid", String(found.length > 0));
    },
  };
}

// A field with one input. read() and write(value) handle all values but null, which has a box of its own.
function simple(schema, context, options, control, read, write, more = {}) {
  const outer = frame(schema, context, options, control, more);
  const get = () => (outer.isNull() ? null : read());
  const set = (value) => {
    const none = value === null && options.nullable;
    outer.setNull(none);
    write(none ? undefined : value);
  };
  if (schema.default !== undefined && schema.default !== null) set(schema.default);
  return { element: outer.element, get, set, mark: outer.mark };
}

export function textField(schema, context, options) {
  const types = { date: "date", password: "password", color: "color" };
  const long = (schema.maxLength ?? 0) > 200 || ["textarea", "markdown", "multiline", "code"].includes(schema.format);
  // Whether an empty text is sent, since it was set from JSON; an input that the user leaves empty is not.
  let empty = false;
  const input = context.suggest && options.depth <= 1 ? context.suggest(options.name) : null;
  const box = element("div", { class: "text-box" });
  let field = input ? input.input : null;
  const typed = () => {
    empty = false;
    context.changed();
  };
  const make = (lines, value = "") => {
    const old = field;
    field = lines
      ? element("textarea", { rows: 4, spellcheck: "false" })
      : element("input", { type: types[schema.format] || "text", spellcheck: "false", autocomplete: "off" });
    if (Array.isArray(schema.examples) && schema.examples.length) field.placeholder = `such as ${schema.examples[0]}`;
    field.value = value;
    field.addEventListener("input", typed);
    if (old) {
      for (const name of ["id", "aria-describedby", "aria-required", "aria-invalid"]) {
        if (old.hasAttribute(name)) field.setAttribute(name, old.getAttribute(name));
      }
    }
    replace(
      box,
      field,
      lines || types[schema.format]
        ? null
        : button(
            "",
            () => {
              make(true, field.value);
              field.focus();
            },
            { icon: "lines", kind: "quiet", label: "Several lines" },
          ),
    );
  };
  if (input) {
    field.addEventListener("input", typed);
    box.append(input.element);
  } else {
    make(long);
  }
  return simple(
    schema,
    context,
    options,
    box,
    () => (field.value === "" && !empty ? undefined : field.value),
    (value) => {
      const text = value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
      if (!input && text.includes("\n") && field.tagName !== "TEXTAREA") make(true, text);
      field.value = text;
      empty = value === "";
    },
  );
}

export function numberField(schema, context, options) {
  const input = element("input", {
    type: "text",
    inputmode: schema.type === "integer" ? "numeric" : "decimal",
    autocomplete: "off",
    class: "short",
    on: { input: () => context.changed() },
  });
  const read = () => {
    const text = input.value.trim();
    if (text === "") return undefined;
    // A text that is no number is sent as it was typed, so that the user can see the server's answer to it.
    return /^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$/.test(text) ? Number(text) : text;
  };
  return simple(schema, context, options, input, read, (value) => {
    input.value = value === undefined ? "" : String(value);
  });
}

export function booleanField(schema, context, options) {
  let value;
  const draw = () =>
    choice(
      schema.title || options.name || "value",
      [...(options.required ? [] : [["unset", "not sent"]]), ["yes", "true"], ["no", "false"]],
      value === undefined ? "unset" : value ? "yes" : "no",
      (chosen) => {
        value = chosen === "unset" ? undefined : chosen === "yes";
        context.changed();
      },
    );
  const box = element("div", {}, draw());
  return simple(
    schema,
    context,
    options,
    box,
    () => value,
    (given) => {
      value = typeof given === "boolean" ? given : undefined;
      replace(box, draw());
    },
    { grouped: true },
  );
}

export function listedField(schema, values, context, options) {
  const select = element(
    "select",
    { on: { change: () => context.changed() } },
    element("option", { value: "", text: options.required ? "choose" : "not sent" }),
    values.map(([, title], place) => element("option", { value: String(place), text: title })),
  );
  return simple(
    schema,
    context,
    options,
    select,
    () => (select.value === "" ? undefined : values[Number(select.value)][0]),
    (value) => {
      const place = values.findIndex(([one]) => JSON.stringify(one) === JSON.stringify(value));
      select.value = place < 0 ? "" : String(place);
    },
  );
}

export function constantField(schema, context, options) {
  let sent = options.required;
  const text = JSON.stringify(schema.const);
  const input = element("input", {
    type: "checkbox",
    on: {
      change: () => {
        sent = input.checked;
        context.changed();
      },
    },
  });
  input.checked = sent;
  const control = element("label", { class: "constant" }, input, element("code", { text: ` ${text}` }));
  return simple(
    schema,
    context,
    { ...options, nullable: false },
    control,
    () => (sent ? schema.const : undefined),
    (value) => {
      sent = value !== undefined;
      input.checked = sent;
    },
  );
}

export function fileField(schema, context, options) {
  let data,
    name = "";
  const says = element("span", { class: "file-name", text: "no file" });
  const input = element("input", {
    type: "file",
    accept: schema.contentMediaType || null,
    on: {
      change: async () => {
        const file = input.files[0];
        if (!file) return;
        data = await base64(file);
        name = `${file.name}, ${file.size.toLocaleString("en")} bytes`;
        says.textContent = name;
        context.changed();
      },
    },
  });
  const control = element(
    "div",
    { class: "file-box" },
    input,
    button(
      "",
      () => {
        write(undefined);
        context.changed();
      },
      { icon: "close", kind: "quiet", label: "No file" },
    ),
    says,
  );
  const write = (value) => {
    data = value;
    input.value = "";
    says.textContent =
      value === undefined ? "no file" : `${String(value).length.toLocaleString("en")} characters of base64`;
  };
  return simple(schema, context, options, control, () => data, write);
}

export function base64(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
}

export function jsonField(schema, context, options) {
  const input = element("textarea", {
    rows: 3,
    spellcheck: "false",
    class: "mono",
    placeholder: "JSON",
    on: { input: () => context.changed() },
  });
  const read = () => {
    if (!input.value.trim()) return undefined;
    try {
      return JSON.parse(input.value);
    } catch {
      return input.value;
    }
  };
  return simple(schema, context, { ...options, nullable: false }, input, read, (value) => {
    input.value = value === undefined ? "" : JSON.stringify(value, null, 2);
  });
}

// A frame around fields that belong together: an object, a list, a union.
export function group(schema, context, { name, required, title }, content, more = []) {
  const problem = element("p", { class: "field-problem", hidden: true });
  const label = schema.title || title || name;
  const id = `group-${(fields += 1)}`;
  const body = element(
    "div",
    { class: "field group", role: "group", "aria-labelledby": id },
    element(
      "div",
      { class: "field-head" },
      element("span", { class: "label", id, text: label || "value" }),
      name && label !== name ? element("code", { class: "field-name", text: name }) : null,
      required ? element("span", { class: "required", text: "required" }) : null,
      element("span", { class: "field-type", text: [summary(schema, context.root), ...limits(schema)].join(" · ") }),
      more,
    ),
    schema.description ? element("p", { class: "field-note", text: schema.description }) : null,
    content,
    problem,
  );
  return {
    element: body,
    mark: (found) => {
      problem.textContent = [...new Set(found.map((one) => one.text))].join("; ");
      problem.hidden = !found.length;
    },
  };
}

// A list of some of the values that the schema names: a box to tick for each.
export function boxesField(schema, values, context, options) {
  let present = options.required;
  const boxes = values.map(([value, title]) => {
    const input = element("input", {
      type: "checkbox",
      on: {
        change: () => {
          present = true;
          context.changed();
        },
      },
    });
    return { value, input, element: element("label", {}, input, ` ${title}`) };
  });
  const outer = group(
    schema,
    context,
    options,
    element(
      "div",
      { class: "boxes" },
      boxes.map((box) => box.element),
    ),
  );
  const field = {
    element: outer.element,
    get: () => {
      const chosen = boxes.filter((box) => box.input.checked).map((box) => box.value);
      return chosen.length || present ? chosen : undefined;
    },
    set: (value) => {
      const given = Array.isArray(value) ? value.map((one) => JSON.stringify(one)) : [];
      for (const box of boxes) box.input.checked = given.includes(JSON.stringify(box.value));
      present = Array.isArray(value) || options.required;
    },
    mark: outer.mark,
  };
  if (Array.isArray(schema.default)) field.set(schema.default);
  return field;
}
