// Fields: makes the field for a JSON Schema: an input, or fields for the parts of an object, a list, a union. Each has
// element; get(), undefined for "left out"; set(value); and mark(problems), whose paths begin at the field.

import { button, element, replace } from "./elements.js";
import {
  booleanField,
  boxesField,
  constantField,
  fileField,
  group,
  jsonField,
  listedField,
  numberField,
  textField,
} from "./inputs.js";
import { isFile, kindOf, listed, problems, resolved, summary, typeOf, variants } from "./schema.js";

const DEEPEST = 10;

// Context: root (the whole schema); changed(), which is called after each input; suggest, which is null, or a function
// that gets the name of a field and makes an input with completions.
export function makeField(given, context, { name = null, required = false, depth = 0, title = null } = {}) {
  let schema = resolved(given, context.root);
  let nullable = false;
  const union = variants(schema, context.root);
  if (union && !listed(schema)) {
    const others = union.filter((variant) => variant.type !== "null");
    nullable = others.length < union.length;
    if (others.length === 1) {
      // A union of one type and null is a field of this type, with a box for null.
      const { anyOf, oneOf, ...beside } = schema;
      schema = resolved(
        { ...others[0], ...without(beside, "type"), title: schema.title ?? others[0].title },
        context.root,
      );
    } else if (others.length > 1) {
      return unionField(schema, others, nullable, context, { name, required, depth, title });
    }
  }
  const options = { name, required, depth, title, nullable };
  if (depth > DEEPEST) return jsonField(schema, context, options);
  const values = listed(schema);
  const type = typeOf(schema);
  if ("const" in schema) return constantField(schema, context, options);
  if (values) return listedField(schema, values, context, options);
  if (type === "boolean") return booleanField(schema, context, options);
  if (type === "number" || type === "integer") return numberField(schema, context, options);
  if (type === "string")
    return isFile(schema) ? fileField(schema, context, options) : textField(schema, context, options);
  if (type === "null") return constantField({ ...schema, const: null }, context, options);
  if (type === "array" && (schema.items !== undefined || schema.prefixItems))
    return arrayField(schema, context, options);
  if (type === "object" && kindOf(schema.properties) === "object") return objectField(schema, context, options);
  if (type === "object" && kindOf(schema.additionalProperties) === "object")
    return objectField(schema, context, options);
  return jsonField(schema, context, options);
}

function without(object, name) {
  const { [name]: _, ...rest } = object;
  return rest;
}

// Returns the problems of a member or an item, with paths that begin there.
const inner = (found, step) =>
  found.filter((one) => one.path[0] === step).map((one) => ({ ...one, path: one.path.slice(1) }));

export function objectField(schema, context, options) {
  const properties = kindOf(schema.properties) === "object" ? schema.properties : {};
  const needed = new Set(Array.isArray(schema.required) ? schema.required : []);
  const members = new Map();
  const box = element("div", { class: "members" });
  // Members beyond the properties: of a map, or of JSON that was typed by hand.
  const free = element("div", { class: "members" });
  const extra = new Map();
  const whole = options.depth === 0;
  // An optional object within another one is sent only after the user has added it: an empty object is a value, too.
  let present = whole || options.required;
  const build = () => {
    if (members.size || !present) return;
    const names = Object.keys(properties);
    for (const name of [...names.filter((one) => needed.has(one)), ...names.filter((one) => !needed.has(one))]) {
      const field = makeField(properties[name], context, {
        name,
        required: needed.has(name),
        depth: options.depth + 1,
      });
      members.set(name, field);
      box.append(field.element);
    }
  };
  const setExtra = (name, value) => {
    const known = extra.get(name);
    if (known) {
      known.field.set(value);
      return;
    }
    const field = makeField(
      kindOf(schema.additionalProperties) === "object" ? schema.additionalProperties : {},
      context,
      { name, required: true, depth: options.depth + 1 },
    );
    const row = element(
      "div",
      { class: "item" },
      field.element,
      button(
        "",
        () => {
          row.remove();
          extra.delete(name);
          context.changed();
        },
        { icon: "close", kind: "quiet", label: `Remove ${name}` },
      ),
    );
    field.set(value);
    extra.set(name, { field, row });
    free.append(row);
  };
  const newName = element("input", {
    type: "text",
    "aria-label": "Name of the new member",
    placeholder: "name",
    class: "short",
  });
  const adder =
    kindOf(schema.additionalProperties) === "object" || schema.additionalProperties === true
      ? element(
          "div",
          { class: "adder" },
          newName,
          button(
            "Add",
            () => {
              if (newName.value && !extra.has(newName.value)) setExtra(newName.value, undefined);
              newName.value = "";
              context.changed();
            },
            { icon: "plus", kind: "quiet" },
          ),
        )
      : null;
  const content = element("div", {}, box, free, adder);
  const toggle = element("button", {
    type: "button",
    class: "button quiet",
    on: {
      click: () => {
        present = !present;
        show();
        context.changed();
      },
    },
  });
  const show = () => {
    build();
    content.hidden = !present;
    toggle.textContent = present ? "Leave out" : "Add";
  };
  show();
  const outer = whole
    ? { element: element("div", { class: "members" }, content), mark: () => {} }
    : group(schema, context, options, content, options.required ? [] : [toggle]);
  const field = {
    element: outer.element,
    get() {
      if (!present) return undefined;
      const value = {};
      for (const [name, member] of members) {
        const given = member.get();
        if (given !== undefined) define(value, name, given);
      }
      for (const [name, { field: member }] of extra) define(value, name, member.get() ?? null);
      return value;
    },
    set(value) {
      present = value !== undefined || whole || options.required;
      show();
      const given = kindOf(value) === "object" ? value : {};
      for (const [name, member] of members) member.set(Object.hasOwn(given, name) ? given[name] : undefined);
      for (const [name, { row }] of extra) {
        if (!Object.hasOwn(given, name)) {
          row.remove();
          extra.delete(name);
        }
      }
      for (const [name, item] of Object.entries(given)) if (!members.has(name)) setExtra(name, item);
    },
    mark(found) {
      outer.mark(found.filter((one) => one.path.length === 0));
      for (const [name, member] of members) member.mark(inner(found, name));
      for (const [name, { field: member }] of extra) member.mark(inner(found, name));
    },
  };
  if (kindOf(schema.default) === "object") field.set(schema.default);
  return field;
}

// Sets a member, also one that is called __proto__.
function define(object, name, value) {
  Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
}

function arrayField(schema, context, options) {
  const fixed = Array.isArray(schema.prefixItems) ? schema.prefixItems : [];
  const item = kindOf(schema.items) === "object" ? schema.items : {};
  const values = listed(resolved(item, context.root));
  if (!fixed.length && values && values.length <= 30 && schema.uniqueItems !== false) {
    return boxesField(schema, values, context, options);
  }
  const box = element("div", { class: "items" });
  let items = [],
    present = options.required;
  const add = (value) => {
    const place = items.length;
    const field = makeField(fixed[place] ?? item, context, {
      name: null,
      title: `item ${place + 1}`,
      required: true,
      depth: options.depth + 1,
    });
    if (value !== undefined) field.set(value);
    items.push(field);
    present = true;
    draw();
    return field;
  };
  const move = (from, to) => {
    items.splice(to, 0, ...items.splice(from, 1));
    draw();
    context.changed();
  };
  const draw = () =>
    replace(
      box,
      items.map((field, place) =>
        element(
          "div",
          { class: "item" },
          field.element,
          element(
            "div",
            { class: "item-tools" },
            fixed.length
              ? null
              : button("", () => move(place, place - 1), {
                  icon: "up",
                  kind: "quiet",
                  label: `Move item ${place + 1} up`,
                  disabled: place === 0,
                }),
            fixed.length
              ? null
              : button("", () => move(place, place + 1), {
                  icon: "down",
                  kind: "quiet",
                  label: `Move item ${place + 1} down`,
                  disabled: place === items.length - 1,
                }),
            button(
              "",
              () => {
                items.splice(place, 1);
                if (!items.length) present = options.required;
                draw();
                context.changed();
              },
              { icon: "close", kind: "quiet", label: `Remove item ${place + 1}` },
            ),
          ),
        ),
      ),
    );
  const outer = group(
    schema,
    context,
    options,
    element(
      "div",
      {},
      box,
      button(
        "Add an item",
        () => {
          const field = add();
          context.changed();
          field.element.querySelector("input,select,textarea,button")?.focus();
        },
        { icon: "plus", kind: "quiet" },
      ),
    ),
  );
  const field = {
    element: outer.element,
    get: () => (present ? items.map((one) => one.get() ?? null) : undefined),
    set: (value) => {
      items = [];
      for (const one of Array.isArray(value) ? value : []) add(one);
      present = Array.isArray(value) || options.required;
      draw();
    },
    mark: (found) => {
      outer.mark(found.filter((one) => one.path.length === 0));
      items.forEach((one, place) => one.mark(inner(found, place)));
    },
  };
  if (Array.isArray(schema.default)) field.set(schema.default);
  return field;
}

function unionField(schema, all, nullable, context, options) {
  const choices = nullable ? [...all, { type: "null" }] : all;
  let chosen = options.required ? 0 : -1;
  let field = null;
  const box = element("div", {});
  const title = (variant) =>
    String(variant.title || (variant.properties && discriminator(variant)) || summary(variant, context.root));
  const select = element(
    "select",
    {
      "aria-label": `kind of ${options.name || "value"}`,
      on: {
        change: () => {
          choose(Number(select.value));
          context.changed();
        },
      },
    },
    options.required ? null : element("option", { value: "-1", text: "not sent" }),
    choices.map((variant, place) => element("option", { value: String(place), text: title(variant) })),
  );
  const choose = (place) => {
    chosen = place;
    select.value = String(place);
    field =
      place < 0
        ? null
        : makeField({ ...choices[place], title: undefined, description: choices[place].description }, context, {
            name: null,
            title: title(choices[place]),
            required: true,
            depth: options.depth + 1,
          });
    replace(box, field && field.element);
  };
  choose(chosen);
  const outer = group(schema, context, options, element("div", { class: "union" }, select, box));
  const whole = {
    element: outer.element,
    get: () => (field === null ? undefined : field.get()),
    set: (value) => {
      if (value === undefined) {
        choose(options.required ? 0 : -1);
        return;
      }
      const fits = choices.map((variant) => problems(variant, value, context.root).length);
      choose(fits.indexOf(Math.min(...fits)));
      field.set(value);
    },
    mark: (found) => {
      if (field) field.mark(found);
      outer.mark(field ? [] : found);
    },
  };
  if (schema.default !== undefined && schema.default !== null) whole.set(schema.default);
  return whole;
}

function discriminator(variant) {
  const found = Object.entries(variant.properties).find(
    ([, member]) => kindOf(member) === "object" && "const" in member,
  );
  return found ? `${found[0]}: ${found[1].const}` : null;
}
