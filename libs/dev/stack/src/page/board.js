// The deals of a developer as columns, and the actions on a deal.

import { api } from "./api.js";
import { actionButton, ask, attempt, choice, empty, heading, say } from "./ask.js";
import { coalesce, el, show } from "./dom.js";
import { subscribe } from "./feed.js";
import { day, short, t } from "./i18n.js";
import { project } from "./project.js";
import { actor, may, nameOf } from "./session.js";

const OWN = "/api/v1/crm";
const PLATFORM = "/api/platform-manager/crm";
// The step groups to which the action `move` moves a deal.
const MOVE_GROUPS = ["Application", "Booking", "Contract"];
const OVERRIDE_TARGETS = ["Application", "Booking", "Sale", "Cancelled"];
const section = document.getElementById("board");
let board = null;
let opened = null;

const overrides = () => may("crm.deals.manage@platform");
const reads = () => overrides() || may("crm.deals.care@platform") || may("crm.deals.manage-own") || may("crm.deals.read-own");
const prefix = () => (overrides() || may("crm.deals.care@platform") ? PLATFORM : OWN);

// The path prefix under which this person changes deals, or null without the permission.
export const changePrefix = () => (overrides() ? PLATFORM : may("crm.deals.manage-own") ? OWN : null);

export function open(deal) {
  opened = deal;
  return refresh();
}

const text = (name, value) => el("textarea", { name, required: true, maxlength: 2000, rows: 2 }, value);

// Each action gets the template of the deal's path, its parameters and the deal.
const ACTIONS = {
  book: (deal, path) => api.post(`${deal}/booking`, { path, body: {} }),
  cancel: async (deal, path) => {
    const asked = await ask(t("action.cancel"), ["word.reason", text("reason", t("reason.cancel"))]);
    return asked && api.post(`${deal}/cancel`, { path, body: { Reason: asked.reason } });
  },
  move: async (deal, path, { StepId }) => {
    const steps = board.Columns.filter((column) => MOVE_GROUPS.includes(column.Group) && !column.ArchivedAt && column.StepId !== StepId);
    const asked = await ask(t("action.move"), ["word.step", choice("step", steps.map((step) => [step.StepId, step.Name]))]);
    return asked && api.post(`${deal}/move-step`, { path, body: { StepId: asked.step } });
  },
  contract: async (deal, path) => {
    const of = (list, key) => list.map((value) => [value, t(`${key}.${value}`)]);
    const asked = await ask(t("action.contract"),
      ["word.contract", choice("contract", of(["Ddu", "Dkp", "Assignment"], "contract"))],
      ["word.payment", choice("payment", of(["Cash", "Mortgage", "Installment"], "payment"))]);
    return asked && api.put(`${deal}/contract`, { path, body: { ContractType: asked.contract, PaymentMethod: asked.payment } });
  },
  complete: async (deal, path) => {
    const number = el("input", { name: "number", required: true, maxlength: 64, value: "77:01:0001001:1234-77/001/2026-1" });
    const asked = await ask(t("action.complete"), ["word.registry", number]);
    return asked && api.post(`${deal}/complete`, { path, body: { RegistryRecordNumber: asked.number } });
  },
  override: async (deal, path, { Status }) => {
    const targets = OVERRIDE_TARGETS.filter((status) => status !== Status).map((status) => [status, t(`deal.${status}`)]);
    const asked = await ask(t("action.override"),
      ["word.status", choice("status", targets)], ["word.comment", text("comment", t("reason.override"))]);
    return asked && api.post(`${deal}/override-status`, { path, body: { TargetStatus: asked.status, Comment: asked.comment } });
  },
};

// The actions that the status permits. The service checks the permissions.
function actionsFor({ Status, BookingExpiresAt }) {
  if (Status === "Completed" || !changePrefix()) return [];
  if (Status === "Cancelled") return overrides() ? ["override"] : [];
  return [
    !BookingExpiresAt && "book", "move", "contract", Status === "Sale" && !overrides() && "complete",
    overrides() && "override", "cancel",
  ].filter(Boolean);
}

async function carryOut(name, deal) {
  const done = await ACTIONS[name](`${changePrefix()}/deals/{deal_id}`, { deal_id: deal.DealId }, deal);
  if (done) say(t("board.done", { n: deal.Number, action: t(`action.${name}`) }));
}

function card(deal) {
  const isOpen = deal.DealId === opened;
  const toggle = () => {
    opened = isOpen ? null : deal.DealId;
    draw();
  };
  const until = deal.BookingExpiresAt && t("board.until", { day: day(deal.BookingExpiresAt) });
  return el("li", { "data-deal": deal.DealId, "data-number": deal.Number, class: isOpen ? "open" : "" },
    el("button", { type: "button", class: "card", "aria-expanded": String(isOpen), "data-keep": deal.DealId, click: toggle },
      el("b", {}, `№ ${deal.Number ?? "–"}`), el("span", {}, short(deal.Amount)),
      el("small", {}, `${nameOf(deal.ClientUserId)} · ${nameOf(deal.AgentUserId)}`), until && el("small", {}, until)),
    isOpen && el("menu", {}, actionsFor(deal).map((name) => actionButton(name, () => carryOut(name, deal)))));
}

function column(one) {
  const totals = one.Totals.map(short).join(", ");
  return el("div", { class: "column", "data-group": one.Group },
    el("h3", {}, el("span", {}, one.Name), el("span", { class: "count" }, String(one.TotalCount))),
    el("p", { class: "totals" }, totals || " "), el("ul", {}, one.Items.map(card)));
}

function draw() {
  show(section, heading("board.title"), el("div", { class: "columns" }, board.Columns.map(column)));
}

export const refresh = coalesce(async () => {
  if (!actor()) return empty(section, "board.title", t("board.guest"));
  if (!reads()) return empty(section, "board.title", t("board.stranger", { name: actor() }));
  const TenantId = prefix() === PLATFORM ? project?.DeveloperId : undefined;
  if (prefix() === PLATFORM && !TenantId) return empty(section, "board.title", t("board.none"));
  board = await attempt(() => api.get(`${prefix()}/board`, { query: { PageSize: 20, TenantId } }));
  if (board) draw();
}, 0);

subscribe((event) => {
  if (!event || event.topic.startsWith("platform.crm.")) refresh().catch(() => {});
});
