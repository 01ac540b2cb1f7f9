// The feeds of a developer: the exported one, and the import of a file with its problems and its preview.

import { api } from "./api.js";
import { actionButton, attempt, empty, heading, say } from "./ask.js";
import { el, show } from "./dom.js";
import { language, number, t } from "./i18n.js";
import { ProblemError } from "./platform-api.js";
import { project } from "./project.js";
import { actor, may, token } from "./session.js";

const IMPORTS = "/api/v1/developers/feed-imports";
const IMPORT = `${IMPORTS}/{feed_import_id}`;
const RUNNING = ["Uploaded", "Validating", "Applying"];
// The number of rows that each list shows. The API returns the others on its next pages.
const PAGE_SIZE = 100;
const POLL_MS = 500;
const section = document.getElementById("imports");
let skipRejected = false;

const exportLink = () => project &&
  el("a", { href: `/api/v1/public/developers/${project.DeveloperId}/feed.yrl`, "data-feed": project.DeveloperId }, t("imports.exported"));
const headingLinks = () => [exportLink()].filter(Boolean);
const importPath = ({ Id }) => ({ path: { feed_import_id: Id } });

// The client sends JSON only, and a file is sent as it is.
async function upload(file) {
  const open = (await latest()).find(({ State }) => ["Created", "Uploading"].includes(State));
  const one = open ?? await api.post(IMPORTS, { body: {} });
  const headers = { Authorization: `Bearer ${await token()}`, "Accept-Language": language };
  const answer = await fetch(`${IMPORTS}/${one.Id}/file`, { method: "PUT", headers, body: file });
  if (!answer.ok) throw new ProblemError(await answer.json());
  say(t("imports.sent", { name: file.name }));
  await load();
}

const latest = async () => (await api.get(IMPORTS, { query: { PageSize: 1 } })).Items;

function fileInput() {
  const input = el("input", { type: "file", accept: ".xml,.yrl,.gz", "aria-label": t("imports.file"), change: () => attempt(() => upload(input.files[0])) });
  return el("p", {}, el("label", {}, t("imports.file"), " ", input));
}

const figures = (one, names) => names.filter((name) => one[name] > 0 || name === "OffersCount")
  .map((name) => el("span", { class: "pill" }, `${t(`imports.${name}`)} ${number(one[name])}`));

// Prices are texts of minor units.
const value = ({ Field }, text) => (Field === "Price" && text !== null ? number(text / 100) : text ?? "–");

function change(one) {
  const fields = one.Fields.map((field) => `${t(`field.${field.Field}`)}: ${value(field, field.From)} → ${value(field, field.To)}`);
  return el("li", { "data-change": one.Kind, "data-number": one.Number }, el("b", {}, `№ ${one.Number}`), el("span", { class: "pill" }, t(`change.${one.Kind}`)),
    el("small", {}, fields.join("; ")));
}

async function building(one, of) {
  const path = { feed_import_id: of.Id, building_id: one.BuildingId };
  const changes = (await api.get(`${IMPORT}/buildings/{building_id}/changes`, { path, query: { PageSize: PAGE_SIZE } })).Items;
  const name = project?.Buildings.find(({ Id }) => Id === one.BuildingId)?.Name ?? one.BuildingId.slice(0, 8);
  const counts = figures(one, ["OffersCount", "RejectedCount", "CreatedCount", "UpdatedCount", "UnchangedCount", "KeptCount", "MissingCount"]);
  return el("details", { open: true, "data-building": one.State },
    el("summary", {}, el("b", {}, name), " ", el("span", { class: "pill" }, t(`building.${one.State}`)), counts),
    el("ul", {}, changes.filter(({ Kind }) => Kind !== "Missing").map(change)));
}

function problem(one) {
  return el("li", { "data-problem": one.Code }, el("b", {}, t("imports.line", { n: one.Line })), el("span", {}, `${one.InternalId ?? "–"} · ${one.Element}`),
    el("small", {}, [one.Message, one.Value].filter(Boolean).join(": ")));
}

function actions(one) {
  const apply = () => api.post(`${IMPORT}/apply`, { ...importPath(one), body: { SkipRejected: skipRejected, Version: one.Version } }).then(load);
  const skip = el("label", {}, el("input", { type: "checkbox", name: "skip", checked: skipRejected, change: ({ target }) => { skipRejected = target.checked; } }),
    " ", t("imports.skip"));
  const discard = actionButton("discard", () => api.delete(IMPORT, { ...importPath(one), query: { Version: one.Version } }).then(load));
  if (one.State === "Validated") return [one.RejectedCount > 0 && skip, actionButton("apply", apply, { class: "main" }), discard];
  return ["Created", "Uploading"].includes(one.State) ? [discard] : [];
}

async function result(one) {
  if (!["Validated", "Applying", "Applied"].includes(one.State)) return [];
  const query = { PageSize: PAGE_SIZE };
  const [problems, buildings] = await Promise.all(
    ["problems", "buildings"].map((list) => api.get(`${IMPORT}/${list}`, { ...importPath(one), query })));
  return [
    problems.Items.length > 0 && el("ul", { class: "problems" }, problems.Items.map(problem)),
    ...await Promise.all(buildings.Items.map((each) => building(each, one))),
  ];
}

export async function load() {
  if (!actor()) return empty(section, "imports.title", t("imports.guest"), ...headingLinks());
  if (!may("chessboard.developers.manage")) return empty(section, "imports.title", t("imports.stranger", { name: actor() }), ...headingLinks());
  const [one] = await latest();
  const rows = one ? await result(one) : [];
  const state = one && el("p", {}, el("span", { class: "pill" }, t(`import.${one.State}`)), figures(one, ["OffersCount", "RejectedCount"]),
    one.Refusal && t("imports.refusal", { n: one.Refusal.Line, why: one.Refusal.Message }));
  const takesFile = !one || ["Created", "Uploading", "Applied", "Failed"].includes(one.State);
  section.dataset.state = one?.State ?? "";
  show(section, heading("imports.title", ...headingLinks()), takesFile && fileInput(), state, ...rows, one && el("menu", {}, actions(one)));
  if (one && RUNNING.includes(one.State)) setTimeout(() => attempt(load), POLL_MS);
}
