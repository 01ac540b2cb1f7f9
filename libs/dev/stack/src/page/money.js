// Sales by month, commissions and payouts of an agent. The person who pays sees the payouts of all agents.

import { api } from "./api.js";
import { actionButton, empty, heading, say } from "./ask.js";
import { coalesce, el, show, svg } from "./dom.js";
import { subscribe } from "./feed.js";
import { day, money, month, short, t } from "./i18n.js";
import { actor, may, nameOf } from "./session.js";

const PLATFORM = "/api/platform-manager/agent";
const PARTS = ["Pending", "Approved", "InPayout", "Paid"];
const section = document.getElementById("money");
const [WIDTH, HEIGHT, TOP, GAP] = [480, 120, 18, 6];

const pays = () => may("agent.payouts.manage@platform");
const earns = () => may("agent.cabinet.use") || may("agent.cabinet.use@platform");

function bars(months) {
  const sums = months.map((one) => one.SalesVolume[0]?.AmountMinor ?? 0);
  const most = Math.max(...sums, 1);
  const step = WIDTH / months.length;
  const label = (x, y, text, cls, anchor = "middle") => svg("text", { x, y, class: cls, "text-anchor": anchor }, text);
  return svg("svg", { viewBox: `0 0 ${WIDTH} ${TOP + HEIGHT + 18}`, role: "img", "aria-label": t("money.plot") },
    months.flatMap((one, index) => {
      const height = Math.max((sums[index] / most) * HEIGHT, 2);
      const x = index * step;
      return [
        svg("rect", { x: x + GAP / 2, y: TOP + HEIGHT - height, width: step - GAP, height, rx: 3, class: sums[index] ? "bar" : "bar none" }),
        sums[index] > 0 && label(x + step - GAP / 2, TOP + HEIGHT - height - 5, short(one.SalesVolume[0]), "value", "end"),
        label(x + step / 2, TOP + HEIGHT + 13, month(one.Month), "month"),
      ];
    }));
}

function balance(one) {
  const sum = PARTS.reduce((all, part) => all + Math.max(one[part].AmountMinor, 0), 0) || 1;
  let x = 0;
  const rects = PARTS.map((part) => {
    const width = (Math.max(one[part].AmountMinor, 0) / sum) * WIDTH;
    const rect = svg("rect", { x, y: 0, width, height: 14, class: `part-${part}` }, svg("title", {}, `${t(`money.${part}`)}: ${money(one[part])}`));
    x += width;
    return rect;
  });
  return [
    svg("svg", { viewBox: `0 0 ${WIDTH} 14`, role: "img", "aria-label": t("money.balance"), class: "balance" }, rects),
    el("dl", {}, PARTS.map((part) => el("div", { class: `part-${part}` }, el("dt", {}, t(`money.${part}`)), el("dd", { "data-part": part }, money(one[part]))))),
  ];
}

function payout(one) {
  const change = (command, body) => api.post(`${PLATFORM}/payouts/{payout_id}/${command}`, { path: { payout_id: one.Id }, body });
  const at = one.PaidAt ?? one.SentAt ?? one.CreatedAt;
  const buttons = [];
  if (pays() && one.Status === "Scheduled") buttons.push(actionButton("send", () => change("send", { Reference: t("money.reference") })));
  if (pays() && one.Status === "InTransit") buttons.push(actionButton("paid", () => change("confirm", {})));
  return el("li", { "data-payout": one.Status }, el("span", {}, day(at)), pays() && el("span", {}, nameOf(one.AgentUserId)),
    el("b", {}, money(one.Net)), el("span", { class: "pill" }, t(`payout.${one.Status}`)), buttons);
}

async function pay() {
  const now = new Date();
  const from = new Date(now - 30 * 24 * 3600 * 1000);
  const body = { RunKey: `page-${now.getTime()}`, PeriodFrom: from.toISOString(), PeriodTo: now.toISOString(), WithholdingBps: 1300 };
  await api.post(`${PLATFORM}/payouts`, { body });
  say(t("money.running"));
}

const refresh = coalesce(async () => {
  if (!actor()) return empty(section, "money.title", t("money.guest"));
  if (!earns() && !pays()) return empty(section, "money.title", t("money.stranger", { name: actor() }));
  if (pays()) {
    const payouts = await api.get(`${PLATFORM}/payouts`, { query: { PageSize: 8 } });
    return show(section, heading("money.payouts", actionButton("pay", pay)), list(payouts.Items));
  }
  const [done, summary, payouts] = await Promise.all([
    api.get("/api/v1/my/agent-performance"),
    api.get("/api/v1/my/commission-summary"),
    api.get("/api/v1/my/payouts", { query: { PageSize: 5 } }),
  ]);
  const cycle = done.MeanCycleDays === null ? "" : t("money.cycle", { days: done.MeanCycleDays ?? 0 });
  const figures = t("money.figures", { deals: done.DealsTotal, sales: done.SalesCount });
  return show(section, heading("money.title"), el("p", { class: "figures" }, [figures, cycle].filter(Boolean).join(" · ")),
    bars(done.Monthly), summary.Balances.flatMap(balance), list(payouts.Items));
});

function list(items) {
  if (items.length === 0) return el("p", { class: "empty" }, t("money.none"));
  return el("ul", { class: "payouts" }, items.map(payout));
}

export const load = refresh;

subscribe((event) => {
  const ours = event && (event.topic.startsWith("platform.agent.") || event.topic.startsWith("platform.crm."));
  if (!event || ours) refresh().catch(() => {});
});
