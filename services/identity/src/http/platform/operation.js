// One operation: who may call it, what it takes, and what it returns.

import { code, element, inline, prose, section, table } from "./dom.js";
import { aboutValue, resolve, schemaView, typeOf } from "./schema.js";

const isProblem = (status) => Number(status) >= 400;

const mediaOf = (body) => Object.entries(body.content ?? {});

/** Returns the problems of an operation: status, code and title. */
export function problemsOf(api, operation) {
  const responses = Object.entries(operation.responses ?? {}).filter(([status]) => isProblem(status));
  return responses.flatMap(([status, response]) => mediaOf(resolve(api, response)).flatMap(([, media]) =>
    Object.entries(media.examples ?? {}).map(([name, example]) => {
      const { code: problem = name, title = "", detail } = resolve(api, example).value ?? {};
      return { status, code: problem, title, detail };
    })));
}

/** Returns the summary of an operation without its full stop. */
export const titleOf = ({ summary, operationId }) => (summary ?? operationId).replace(/\.$/, "");

export const permissionsOf = (operation) => operation["x-permission"] ?? [];

function callers(operation) {
  const isOpen = (operation.security ?? []).some((scheme) => !Object.keys(scheme).length);
  return section("Who may call it",
    element("p", { id: "callers" }, inline(operation["x-callers"] ?? "users with the permission")),
    permissionsOf(operation).length
      ? element("p", { id: "permissions" }, permissionsOf(operation).map((name) => element("code", { className: "permission" }, name)))
      : null,
    element("p", { className: "hint" }, isOpen ? "Works without a token." : inline("Needs `Authorization: Bearer` with a user's token.")));
}

function parameters(api, operation, shared) {
  const all = [...shared, ...(operation.parameters ?? [])].map((parameter) => resolve(api, parameter));
  if (!all.length) return null;
  const rows = all.map((parameter) => ({
    cells: [
      [code(parameter.name), parameter.required ? element("span", { className: "required" }, "required") : null,
        parameter.deprecated ? element("span", { className: "deprecated" }, "deprecated") : null],
      parameter.in,
      typeOf(api, parameter.schema ?? {}),
      [inline(parameter.description ?? ""), aboutValue(api, { ...resolve(api, parameter.schema), description: "" })],
    ],
  }));
  return section("Parameters", table(["Name", "In", "Type", "Description"], rows));
}

function exampleOf(media) {
  const example = media.example ?? Object.values(media.examples ?? {})[0]?.value;
  if (example === undefined) return null;
  const text = typeof example === "string" ? example : JSON.stringify(example, null, 2);
  return element("details", {}, element("summary", {}, "Example"), element("pre", {}, text));
}

const content = (api, body) => mediaOf(body).map(([type, media]) =>
  element("div", { className: "media" },
    element("p", { className: "hint" }, code(type)),
    media.schema ? schemaView(api, media.schema) : null,
    exampleOf(media)));

function request(api, operation) {
  if (!operation.requestBody) return null;
  const body = resolve(api, operation.requestBody);
  return section(body.required === false ? "Body, optional" : "Body", prose(body.description), content(api, body));
}

function successes(api, operation) {
  const responses = Object.entries(operation.responses ?? {}).filter(([status]) => !isProblem(status));
  return responses.map(([status, response]) => {
    const found = resolve(api, response);
    return section(`Response ${status}`, element("p", {}, inline(found.description ?? "")), content(api, found));
  });
}

function problems(api, operation) {
  const rows = problemsOf(api, operation).map(({ status, code: problem, title, detail }) => ({
    code: problem,
    cells: [status, code(problem), [title, detail ? element("div", { className: "hint" }, detail) : null]],
  }));
  return rows.length ? section("Problems", table(["Status", "Code", "Meaning"], rows)) : null;
}

/** Returns a command that calls the operation. */
function command(operation, method, path) {
  const media = mediaOf(operation.requestBody ?? {})[0];
  const lines = [`curl --request ${method.toUpperCase()} '${location.origin}${path}'`];
  if (!(operation.security ?? []).some((scheme) => !Object.keys(scheme).length)) {
    lines.push("--header \"Authorization: Bearer $TOKEN\"");
  }
  if (media?.[0] === "application/json" && media[1].example !== undefined) {
    lines.push(`--json '${JSON.stringify(media[1].example).replaceAll("'", "'\\''")}'`);
  }
  return section("Call it", element("pre", {}, lines.join(" \\\n  ")));
}

/** Returns the view of an operation. */
export function operationView(api, { operation, method, path, service }) {
  return [
    element("h1", {}, titleOf(operation)),
    element("p", { className: "route" }, element("span", { className: `method ${method}` }, method.toUpperCase()), code(path)),
    operation.deprecated
      ? element("p", { className: "deprecated", id: "deprecated" }, "Deprecated. Its responses have the headers Deprecation and Sunset.")
      : null,
    // The last paragraph names the callers, which have a section of their own.
    prose((operation.description ?? "").replace(/(^|\n\n)Callers: [^\n]*$/, "")),
    callers(operation),
    parameters(api, operation, api.paths[path].parameters ?? []),
    request(api, operation),
    successes(api, operation),
    problems(api, operation),
    command(operation, method, path),
    element("p", { className: "hint" }, "Service ", code(service), ", operation ", code(operation.operationId), ". ",
      element("a", { href: `/docs/${service}/` }, "Try it on the page of the service"), "."),
  ].filter(Boolean);
}
