// UriTemplate: the variables of a URI template (RFC 6570), and the URI that values make of it.

const EXPRESSION = /\{([+#./;?&]?)([^{}]+)\}/g;
const STYLES = {
  "": { first: "", between: ",", named: false },
  "+": { first: "", between: ",", named: false, reserved: true },
  "#": { first: "#", between: ",", named: false, reserved: true },
  ".": { first: ".", between: ".", named: false },
  "/": { first: "/", between: "/", named: false },
  ";": { first: ";", between: ";", named: true, bare: true },
  "?": { first: "?", between: "&", named: true },
  "&": { first: "&", between: "&", named: true },
};

function parts(list) {
  return list.split(",").map((text) => {
    const [, name, length, star] = /^([^:*]+)(?::(\d+))?(\*)?$/.exec(text.trim()) || [null, text.trim()];
    return { name, length: length ? Number(length) : null, star: Boolean(star) };
  });
}

// Returns the names of the variables, each once, with whether the URI needs it.
export function variables(template) {
  const found = new Map();
  for (const [, operator, list] of template.matchAll(EXPRESSION)) {
    for (const { name } of parts(list)) found.set(name, found.get(name) || !["?", "&", ";", "#"].includes(operator));
  }
  return [...found].map(([name, required]) => ({ name, required }));
}

function encoded(text, reserved) {
  const plain = encodeURIComponent(text).replace(
    /[!'()*]/g,
    (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return reserved
    ? plain.replace(/%(3A|2F|3F|23|5B|5D|40|21|24|26|27|28|29|2A|2B|2C|3B|3D)/g, decodeURIComponent)
    : plain;
}

// Returns the URI; variables without a value are left out.
export function expand(template, values) {
  return template.replace(EXPRESSION, (_, operator, list) => {
    const style = STYLES[operator];
    const made = parts(list)
      .filter(({ name }) => values[name] !== undefined && values[name] !== "")
      .map(({ name, length, star }) => {
        const text = String(values[name]);
        // With a star, the text is a list with commas, and each of its values is a part of its own.
        const value = (star ? text.split(",") : [text]).map((one) =>
          encoded(length === null ? one : [...one].slice(0, length).join(""), style.reserved),
        );
        if (!style.named) return value.join(star ? style.between : ",");
        return value.map((one) => (one === "" && style.bare ? name : `${name}=${one}`)).join(style.between);
      });
    return made.length ? style.first + made.join(style.between) : "";
  });
}
