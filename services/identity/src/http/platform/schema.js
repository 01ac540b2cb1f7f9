// Schemas: a line for a value, and a list of members for an object, which opens on demand.

import { element, inline } from "./dom.js";

/** Returns what a reference points to, or the value itself. */
export function resolve(api, value) {
  if (!value?.$ref) return value ?? {};
  const target = value.$ref.split("/").slice(1).reduce((inner, name) => inner?.[name], api);
  return { ...target, ...(value.description && { description: value.description }) };
}

const nameOf = ({ $ref }) => $ref?.split("/").pop();
const isNull = (schema) => schema.type === "null";

/** Returns the choices of a schema without `null`. */
const choices = (schema) => (schema.oneOf ?? schema.anyOf ?? []).filter((choice) => !isNull(choice));

const isNullable = (schema) =>
  [schema.type].flat().includes("null") || (schema.oneOf ?? schema.anyOf ?? []).some(isNull);

/** Returns the schema that a value has if it is not null. */
function valueOf(api, schema) {
  const found = resolve(api, schema);
  const [only, ...others] = choices(found);
  return only && !others.length ? valueOf(api, only) : found;
}

/** Returns the type of a schema in a few words. */
export function typeOf(api, schema) {
  const found = resolve(api, schema);
  const variants = choices(found);
  const nullable = isNullable(found) ? " or null" : "";
  if (variants.length === 1) return typeOf(api, variants[0]) + nullable;
  if (variants.length) return `one of ${variants.map((one) => nameOf(one) ?? typeOf(api, one)).join(", ")}${nullable}`;
  const type = [found.type].flat().filter((name) => name && name !== "null").join(" or ");
  if (type === "array") return `list of ${typeOf(api, found.items ?? {})}${nullable}`;
  if (type === "object" || found.properties || found.allOf) return (nameOf(schema) ?? "object") + nullable;
  return (found.format ? `${type} (${found.format})` : type || "any value") + nullable;
}

/** Returns the limits of a value, such as "1 to 200 characters". */
function limitsOf(schema) {
  const range = (low, high, unit) => {
    if (low === undefined && high === undefined) return undefined;
    if (low === undefined) return `at most ${high}${unit}`;
    return high === undefined ? `at least ${low}${unit}` : `${low} to ${high}${unit}`;
  };
  return [
    range(schema.minLength, schema.maxLength, " characters"),
    range(schema.minItems, schema.maxItems, " items"),
    range(schema.minimum, schema.maximum, ""),
    schema.pattern && `matches ${schema.pattern}`,
    schema.default !== undefined && `default ${JSON.stringify(schema.default)}`,
  ].filter(Boolean).join(", ");
}

/** Returns the description, the limits and the values of a schema. */
export function aboutValue(api, schema) {
  const [outer, value] = [resolve(api, schema), valueOf(api, schema)];
  const items = value.items ? valueOf(api, value.items) : {};
  const values = (value.enum ?? items.enum ?? []).filter((one) => one !== null);
  const limits = limitsOf(value);
  return element("div", {},
    inline(outer.description ?? value.description ?? ""),
    limits && element("div", { className: "limits" }, limits),
    values.length ? element("div", { className: "values" }, values.map((one) => element("code", {}, `${one}`))) : null,
    value.deprecated || outer.deprecated ? element("span", { className: "deprecated" }, "deprecated") : null);
}

/** Returns the properties of an object, with those of its parts, and the names of the required ones. */
function membersOf(api, schema) {
  const found = valueOf(api, schema);
  const parts = (found.allOf ?? []).map((part) => membersOf(api, part));
  return {
    properties: Object.assign({}, ...parts.map((part) => part.properties), found.properties),
    required: [...parts.flatMap((part) => part.required), ...(found.required ?? [])],
  };
}

/** Returns the schemas inside a value that have members: an object, its variants, or items. */
function inside(api, schema) {
  const found = valueOf(api, schema);
  if (found.type === "array" || found.items) return inside(api, found.items ?? {});
  const variants = choices(found);
  if (variants.length) return variants.map((variant) => [nameOf(variant) ?? "variant", variant]);
  return Object.keys(membersOf(api, found).properties).length ? [[nameOf(schema) ?? "members", found]] : [];
}

function memberList(api, schema) {
  const { properties, required } = membersOf(api, schema);
  return element("dl", { className: "members" }, Object.entries(properties).map(([name, member]) => [
    element("dt", {},
      element("code", {}, name),
      element("span", { className: "type" }, typeOf(api, member)),
      required.includes(name) ? element("span", { className: "required" }, "required") : null),
    element("dd", {}, aboutValue(api, member), inside(api, member).map(([title, inner]) => folded(api, title, inner))),
  ]));
}

/** Returns a closed list of members, which is made when it opens, since schemas may be recursive. */
function folded(api, title, schema) {
  const details = element("details", {}, element("summary", {}, title));
  const fill = () => details.append(memberList(api, schema));
  details.addEventListener("toggle", fill, { once: true });
  return details;
}

/** Returns a schema with its first level open. */
export function schemaView(api, schema) {
  const variants = inside(api, schema);
  const head = element("p", {}, element("span", { className: "type" }, typeOf(api, schema)));
  if (!variants.length) return element("div", {}, head, aboutValue(api, schema));
  if (variants.length === 1) return element("div", {}, head, memberList(api, variants[0][1]));
  return element("div", {}, head, variants.map(([title, variant]) => folded(api, title, variant)));
}
