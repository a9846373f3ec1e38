// Schema: reads JSON Schema as far as a form needs it: references, variants, limits, and what a value breaks.

const DEEPEST = 12;

export function kindOf(value) {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value;
}

export function equal(one, other) {
  if (kindOf(one) !== kindOf(other)) return false;
  if (Array.isArray(one)) return one.length === other.length && one.every((item, place) => equal(item, other[place]));
  if (kindOf(one) === "object") {
    const names = Object.keys(one);
    return (
      names.length === Object.keys(other).length &&
      names.every((name) => name in other && equal(one[name], other[name]))
    );
  }
  return one === other;
}

const isObject = (value) => kindOf(value) === "object";

function pointed(root, reference) {
  if (reference === "#") return root;
  if (!reference.startsWith("#/")) {
    // The reference is an anchor, or the $id of a definition.
    for (const definition of Object.values(root.$defs || root.definitions || {})) {
      if (isObject(definition) && (`#${definition.$anchor}` === reference || definition.$id === reference))
        return definition;
    }
    return null;
  }
  let place = root;
  for (const part of reference.slice(2).split("/")) {
    const name = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
    if (place === null || typeof place !== "object" || !Object.hasOwn(place, name)) return null;
    place = place[name];
  }
  return place;
}

function merged(one, other) {
  const result = { ...one, ...other };
  if (one.properties || other.properties) result.properties = { ...one.properties, ...other.properties };
  if (one.required || other.required)
    result.required = [...new Set([...(one.required || []), ...(other.required || [])])];
  return result;
}

// Returns the schema with its references and its allOf replaced by their content. A reference that leads nowhere is
// kept as {"broken": its text}; true, false and other things that are no object become a schema that allows all.
export function resolved(schema, root, depth = 0) {
  if (!isObject(schema)) return schema === false ? { not: {} } : {};
  let result = schema;
  if (typeof schema.$ref === "string" && depth < DEEPEST) {
    const { $ref, ...beside } = schema;
    const found = pointed(root, $ref);
    result = isObject(found) ? merged(resolved(found, root, depth + 1), beside) : { ...beside, broken: $ref };
  }
  if (Array.isArray(result.allOf) && depth < DEEPEST) {
    const { allOf, ...beside } = result;
    result = allOf.map((part) => resolved(part, root, depth + 1)).reduce(merged, {});
    result = merged(result, beside);
  }
  return result;
}

// The values that a schema lists, as [value, title]; null if it lists none.
export function listed(schema) {
  if (Array.isArray(schema.enum)) {
    const names = Array.isArray(schema.enumNames) ? schema.enumNames : [];
    return schema.enum.map((value, place) => [value, String(names[place] ?? shownValue(value))]);
  }
  const variants = schema.oneOf || schema.anyOf;
  if (
    Array.isArray(variants) &&
    variants.length &&
    variants.every((variant) => isObject(variant) && "const" in variant)
  ) {
    return variants.map((variant) => [variant.const, String(variant.title ?? shownValue(variant.const))]);
  }
  return null;
}

function shownValue(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}

// The variants of a union, resolved; null if the schema is none. Several types at one place are a union.
export function variants(schema, root) {
  const given = schema.oneOf || schema.anyOf;
  if (Array.isArray(given) && given.length) {
    const { oneOf, anyOf, title, description, default: _, ...beside } = schema;
    return given.map((variant) => merged(beside, resolved(variant, root)));
  }
  if (Array.isArray(schema.type)) {
    return schema.type.length === 1 ? null : schema.type.map((type) => ({ ...schema, type, title: undefined }));
  }
  return null;
}

export function typeOf(schema) {
  const type = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (typeof type === "string") return type;
  if (isObject(schema.properties) || isObject(schema.additionalProperties)) return "object";
  if (schema.items !== undefined || Array.isArray(schema.prefixItems)) return "array";
  return null;
}

// A word or two on what a schema takes, such as "text", "whole number", "list of numbers".
export function summary(schema, root, depth = 0) {
  const found = resolved(schema, root);
  if ("const" in found) return shownValue(found.const);
  if (listed(found)) return "choice";
  const several = variants(found, root);
  if (several) {
    return depth > 1
      ? "union"
      : [...new Set(several.map((variant) => variant.title || summary(variant, root, depth + 1)))].join(" or ");
  }
  const type = typeOf(found);
  if (type === "string") return isFile(found) ? "file" : found.format || "text";
  if (type === "integer") return "whole number";
  if (type === "boolean") return "yes or no";
  if (type === "array") {
    return isObject(found.items) && depth < 2 ? `list of ${summary(found.items, root, depth + 1)}` : "list";
  }
  return type || "any JSON";
}

export function isFile(schema) {
  return schema.contentEncoding === "base64" || ["byte", "binary", "base64"].includes(schema.format);
}

// The limits of a schema, in words.
export function limits(schema) {
  const found = [];
  const add = (name, text) => {
    if (schema[name] !== undefined) found.push(text(schema[name]));
  };
  const range = (low, high, unit) => {
    const [from, to] = [schema[low], schema[high]];
    if (from !== undefined && to !== undefined)
      found.push(from === to ? `exactly ${from}${unit}` : `${from} to ${to}${unit}`);
    else if (from !== undefined) found.push(`at least ${from}${unit}`);
    else if (to !== undefined) found.push(`at most ${to}${unit}`);
  };
  range("minimum", "maximum", "");
  add("exclusiveMinimum", (limit) => `more than ${limit}`);
  add("exclusiveMaximum", (limit) => `less than ${limit}`);
  add("multipleOf", (step) => `a multiple of ${step}`);
  range("minLength", "maxLength", " characters");
  add("pattern", (pattern) => `matches ${pattern}`);
  range("minItems", "maxItems", " items");
  range("minProperties", "maxProperties", " members");
  if (schema.uniqueItems === true) found.push("each once");
  return found;
}

// Returns null for a pattern that only the server checks: one that could take hours (with a repeated group, or with
// many repetitions), one that is long or for a long value, or one in the syntax of another language.
function patternOf(text, value) {
  const costly = /\)[*+?{]/.test(text) || (text.match(/[*+]|,\}/g) || []).length > 3;
  if (costly || text.length > 500 || value.length > 500) return null;
  try {
    return new RegExp(text, "u");
  } catch {
    return null;
  }
}

const TYPES = {
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number",
  integer: (value) => typeof value === "number" && Number.isInteger(value),
  boolean: (value) => typeof value === "boolean",
  null: (value) => value === null,
  array: Array.isArray,
  object: isObject,
};

// Returns the rules of a schema that a value breaks, as [{path: [...], text}]. The server alone checks keywords that no
// form shows.
export function problems(schema, value, root, path = [], depth = 0) {
  const found = resolved(schema, root);
  const list = [];
  const add = (text) => list.push({ path, text });
  if (depth > DEEPEST * 2) return list;
  if (found.not && isObject(found.not) && Object.keys(found.not).length === 0) add("no value is allowed here");
  if ("const" in found && !equal(found.const, value)) add(`must be ${shownValue(found.const)}`);
  if (Array.isArray(found.enum) && !found.enum.some((one) => equal(one, value))) add("is none of the values listed");
  const types = found.type === undefined ? [] : [found.type].flat();
  if (types.length && !types.some((type) => (TYPES[type] || (() => true))(value))) {
    add(`must be ${types.map((type) => summary({ ...found, type, enum: undefined }, root)).join(" or ")}`);
    return list;
  }
  for (const word of ["anyOf", "oneOf"]) {
    if (Array.isArray(found[word]) && found[word].length) {
      const each = found[word].map((variant) => problems(variant, value, root, path, depth + 1));
      if (each.every((one) => one.length)) {
        list.push(...each.reduce((best, one) => (one.length < best.length ? one : best)));
      }
    }
  }
  if (typeof value === "string") checkText(found, value, add);
  if (typeof value === "number") checkNumber(found, value, add);
  if (Array.isArray(value)) {
    if (value.length < (found.minItems ?? 0)) add(`needs at least ${found.minItems} items`);
    if (value.length > (found.maxItems ?? Infinity)) add(`has more than ${found.maxItems} items`);
    if (
      found.uniqueItems === true &&
      value.some((one, place) => value.slice(0, place).some((other) => equal(one, other)))
    ) {
      add("has an item twice");
    }
    const first = Array.isArray(found.prefixItems) ? found.prefixItems : [];
    value.forEach((item, place) => {
      const schemaOfItem = first[place] ?? found.items;
      if (isObject(schemaOfItem)) list.push(...problems(schemaOfItem, item, root, [...path, place], depth + 1));
    });
  }
  if (isObject(value)) checkMembers(found, value, root, path, depth, list);
  return list;
}

function checkText(schema, value, add) {
  const length = [...value].length;
  if (length < (schema.minLength ?? 0))
    add(length === 0 ? "is required" : `needs at least ${schema.minLength} characters`);
  if (length > (schema.maxLength ?? Infinity)) add(`has more than ${schema.maxLength} characters`);
  const pattern = typeof schema.pattern === "string" ? patternOf(schema.pattern, value) : null;
  if (pattern && !pattern.test(value)) add(`does not match ${schema.pattern}`);
  if (schema.format === "email" && !/^[^@\s]+@[^@\s]+$/.test(value)) add("is not an email address");
  if (schema.format === "uri" && !URL.canParse(value)) add("is not a URI");
  if (schema.format === "date" && !/^\d{4}-\d{2}-\d{2}$/.test(value)) add("is not a date, such as 2026-01-31");
  if (schema.format === "date-time" && !/^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}/.test(value)) {
    add("is not a time, such as 2026-01-31T12:00:00Z");
  }
}

function checkNumber(schema, value, add) {
  if (value < (schema.minimum ?? -Infinity)) add(`must be at least ${schema.minimum}`);
  if (value > (schema.maximum ?? Infinity)) add(`must be at most ${schema.maximum}`);
  if (value <= (schema.exclusiveMinimum ?? -Infinity)) add(`must be more than ${schema.exclusiveMinimum}`);
  if (value >= (schema.exclusiveMaximum ?? Infinity)) add(`must be less than ${schema.exclusiveMaximum}`);
  if (schema.multipleOf > 0) {
    const times = value / schema.multipleOf;
    if (Math.abs(times - Math.round(times)) > 1e-9) add(`must be a multiple of ${schema.multipleOf}`);
  }
}

function checkMembers(schema, value, root, path, depth, list) {
  const properties = isObject(schema.properties) ? schema.properties : {};
  for (const name of Array.isArray(schema.required) ? schema.required : []) {
    if (!Object.hasOwn(value, name)) list.push({ path: [...path, name], text: "is required" });
  }
  for (const [name, member] of Object.entries(value)) {
    if (Object.hasOwn(properties, name))
      list.push(...problems(properties[name], member, root, [...path, name], depth + 1));
    else if (schema.additionalProperties === false) list.push({ path: [...path, name], text: "is not in the schema" });
    else if (isObject(schema.additionalProperties)) {
      list.push(...problems(schema.additionalProperties, member, root, [...path, name], depth + 1));
    }
  }
  const count = Object.keys(value).length;
  if (count < (schema.minProperties ?? 0)) list.push({ path, text: `needs at least ${schema.minProperties} members` });
  if (count > (schema.maxProperties ?? Infinity))
    list.push({ path, text: `has more than ${schema.maxProperties} members` });
}
