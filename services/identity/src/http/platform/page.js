// The page of the whole API: a list of all operations, and the selected one.

import { code, element, inline, prose, section, table } from "./dom.js";
import { operationView, permissionsOf, problemsOf, titleOf } from "./operation.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const content = document.getElementById("content");
const list = document.getElementById("operations");
const search = document.getElementById("search");

function entriesOf(api) {
  const services = new Map(api["x-tagGroups"].flatMap(({ name, tags }) => tags.map((tag) => [tag, name])));
  return Object.entries(api.paths).flatMap(([path, item]) => METHODS.filter((method) => item[method]).map((method) => {
    const operation = item[method];
    const [tag] = operation.tags;
    const codes = problemsOf(api, operation).map((problem) => problem.code);
    const words = [method, path, operation.operationId, operation.summary, tag, ...permissionsOf(operation), ...codes];
    return { path, method, operation, tag, service: services.get(tag), text: words.join(" ").toLowerCase() };
  }));
}

function link(entry) {
  const { operation, method } = entry;
  entry.link = element("a", { href: `#${operation.operationId}`, className: operation.deprecated ? "old" : "" },
    element("span", { className: `method ${method}` }, method.toUpperCase()), titleOf(operation));
  return element("li", {}, entry.link);
}

/** Shows the operations by service and tag. */
function showList(api, entries) {
  for (const { name, tags } of api["x-tagGroups"]) {
    const groups = tags.map((tag) => {
      const links = entries.filter((entry) => entry.tag === tag).map(link);
      return element("div", { className: "tag" }, element("h3", {}, tag), element("ul", {}, links));
    });
    const service = element("details", { className: "service" }, element("summary", {}, name), groups);
    service.dataset.service = name;
    list.append(service);
  }
}

/** Hides the operations that do not have all words of the search. */
function filter(entries) {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const entry of entries) entry.link.parentElement.hidden = !words.every((word) => entry.text.includes(word));
  for (const group of list.querySelectorAll(".tag, .service")) group.hidden = !group.querySelector("li:not([hidden])");
  if (words.length) for (const service of list.querySelectorAll(".service")) service.open = true;
}

function overview(api, entries) {
  const about = new Map(api.tags.map((tag) => [tag.name, tag.description ?? ""]));
  const old = entries.filter(({ operation }) => operation.deprecated);
  return [
    element("h1", {}, api.info.title, " ", element("small", {}, api.info.version)),
    prose(api.info.description),
    element("p", {}, `${entries.length} operations. `, element("a", { href: "/openapi.json" }, "openapi.json"), " has all of them for generators of clients."),
    old.length ? section("Deprecated", element("ul", {}, old.map(({ operation }) =>
      element("li", {}, element("a", { href: `#${operation.operationId}` }, titleOf(operation)))))) : null,
    section("Services", api["x-tagGroups"].map(({ name, tags }) => element("div", {},
      element("h3", {}, name, " ", element("a", { className: "hint", href: `/docs/${name}/` }, "page that sends requests")),
      table(["Group", "Content"], tags.map((tag) => ({ cells: [tag, inline(about.get(tag) ?? "")] })))))),
    section("Signing in", element("p", {}, inline("An operation that guests cannot call needs the header `Authorization: Bearer` with a token of the issuer, which is valid for an hour at most.")),
      element("p", {}, "A problem has the member ", code("code"), ", which programs read. The search finds the operations that return a code.")),
  ].filter(Boolean);
}

function show(api, entries) {
  const id = decodeURIComponent(location.hash.slice(1));
  const entry = entries.find(({ operation }) => operation.operationId === id);
  for (const other of entries) other.link.removeAttribute("aria-current");
  if (entry) {
    entry.link.setAttribute("aria-current", "page");
    entry.link.closest("details").open = true;
    entry.link.scrollIntoView({ block: "nearest" });
  }
  content.replaceChildren(...(entry ? operationView(api, entry) : overview(api, entries)).flat(Infinity));
  document.title = entry ? `${titleOf(entry.operation)} – ${api.info.title} API` : `${api.info.title} API`;
  scrollTo(0, 0);
  document.body.dataset.shown = entry ? id : "overview";
}

async function start() {
  const response = await fetch("/openapi.json");
  if (!response.ok) throw new Error(`The server returned ${response.status} for openapi.json`);
  const api = await response.json();
  const entries = entriesOf(api);
  showList(api, entries);
  search.addEventListener("input", () => filter(entries));
  addEventListener("hashchange", () => show(api, entries));
  show(api, entries);
  document.body.dataset.ready = "true";
  performance.mark("shown");
}

start().catch((error) => content.replaceChildren(element("p", { className: "deprecated" }, `The document cannot be shown. ${error.message}`)));
