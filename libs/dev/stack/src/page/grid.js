// The grid of a building from the public catalog: one row for each floor, one cell for each object, coloured by status.

import { api } from "./api.js";
import { actionButton, ask, choice, empty, heading, say } from "./ask.js";
import { coalesce, el, show } from "./dom.js";
import { subscribe } from "./feed.js";
import { money, short, t } from "./i18n.js";
import { chooseProject, project } from "./project.js";
import { idOf, people } from "./session.js";
import { changePrefix, open } from "./board.js";

const STATUSES = ["Available", "Reserved", "Booked", "Sold", "Unavailable"];
const section = document.getElementById("grid");
let projects = [];
let building = null;
let chosen = null;

const objects = () => (building?.Grid ?? []).flatMap((part) => part.Floors).flatMap((floor) => floor.Objects);
const rooms = (object) => (object.IsStudio ? t("rooms.studio") : object.Rooms ? t("rooms.some", { n: object.Rooms }) : t(`kind.${object.Kind}`));

function describe(object) {
  const status = t(`status.${object.Status}`);
  return `№ ${object.Number}, ${rooms(object)}, ${object.AreaTotal} m², ${money(object.Price)}, ${status}`;
}

function cell(object) {
  return el("button", {
    type: "button", class: "cell", title: describe(object), "aria-label": describe(object),
    "data-status": object.Status, "data-number": object.Number, "data-keep": object.Id,
    "aria-pressed": String(object.Id === chosen),
    click: () => { chosen = object.Id === chosen ? null : object.Id; draw(); },
  }, el("b", {}, object.Number), el("span", {}, object.IsStudio ? "S" : String(object.Rooms ?? "")), el("small", {}, short(object.Price)));
}

async function makeDeal(object) {
  const ids = [...people.values()].map((person) => [person.id, person.name]);
  const asked = await ask(t("grid.deal", { n: object.Number }),
    ["word.client", choice("client", ids, idOf("anna"))],
    ["word.agent", choice("agent", [["", "–"], ...ids], idOf("igor"))]);
  if (!asked) return;
  const body = { PropertyObjectId: object.Id, ClientUserId: asked.client, AgentUserId: asked.agent || null, RequestId: crypto.randomUUID() };
  const deal = await api.post(`${changePrefix()}/deals`, { body });
  say(t("grid.made", { n: object.Number }));
  open(deal.DealId);
}

function details() {
  const object = objects().find((one) => one.Id === chosen);
  if (!object) return el("p", { class: "empty details" }, t("grid.choose"));
  const sells = ["Available", "Reserved", "Booked"].includes(object.Status);
  return el("p", { class: "details" }, el("span", { class: "pill", "data-status": object.Status }, t(`status.${object.Status}`)), describe(object),
    changePrefix() && sells && actionButton("deal", () => makeDeal(object), { class: "main" }));
}

function picker(name, options, value, change) {
  return el("select", { "aria-label": t(`word.${name}`), "data-keep": name, change: (event) => change(event.target.value) },
    options.map((one) => el("option", { value: one.Id, selected: one.Id === value }, one.Name)));
}

function draw() {
  if (!building) return;
  const counts = Map.groupBy(objects(), (object) => object.Status);
  const legend = STATUSES.map((status) => el("span", { class: "pill", "data-status": status }, `${t(`status.${status}`)} ${counts.get(status)?.length ?? 0}`));
  const parts = building.Grid.map((part) => el("div", { class: "part", role: "group", "aria-label": t("grid.part", { n: part.Section }) },
    part.Floors.map((floor) => el("div", { class: "floor" }, el("span", { class: "number" }, String(floor.Floor)), floor.Objects.map(cell)))));
  show(section, heading("grid.title",
    picker("project", projects, project.Id, (id) => choose(id)),
    picker("building", project.Buildings, building.Id, (id) => choose(project.Id, id))),
  el("p", { class: "legend" }, legend), el("div", { class: "house" }, parts), details());
}

const readBuilding = (id) =>
  api.get("/api/v1/public/projects/{project_id}/buildings/{building_id}", { path: { project_id: project.Id, building_id: id } });

async function choose(projectId, buildingId) {
  await chooseProject(projectId);
  const id = buildingId ?? project.Buildings[0]?.Id;
  building = id ? await readBuilding(id) : null;
  if (!building) return empty(section, "grid.title", t("grid.none"));
  draw();
}

const refresh = coalesce(async () => {
  if (!building) return load();
  building = await readBuilding(building.Id);
  draw();
}, 0);

export async function load() {
  projects = (await api.get("/api/v1/public/projects", { query: { PageSize: 50, Sort: "PublishedAt" } })).Items;
  if (projects.length === 0) return empty(section, "grid.title", t("grid.none"));
  await choose(projects[0].Id);
}

subscribe((event) => {
  const ours = event?.topic === "platform.chessboard.property-object-upserted.v1" && event.payload.BuildingId === building?.Id;
  if (!event || ours || (!building && event.topic.startsWith("platform.chessboard."))) refresh().catch(() => {});
});

