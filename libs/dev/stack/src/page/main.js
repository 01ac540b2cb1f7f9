// Starts the page: the person first, then each view. A view that fails shows its error; the others continue.

import * as board from "./board.js";
import * as chat from "./chat.js";
import { attempt, heading } from "./ask.js";
import { el, show } from "./dom.js";
import { follow } from "./feed.js";
import * as grid from "./grid.js";
import { LANGUAGES, language, setLanguage, t } from "./i18n.js";
import * as imports from "./imports.js";
import * as money from "./money.js";
import { actor, services, loadPeople, people, signIn, signOut, token } from "./session.js";

// Returns a handler that runs `work` and reloads the page, since every view belongs to the signed-in person.
const reloadAfter = (work) => () => attempt(async () => {
  await work();
  location.reload();
});

function top() {
  const buttons = [...people.values()].map(({ name, about, may }) =>
    el("button", {
      type: "button", "data-actor": name, title: `${about} (${may})`, "aria-pressed": String(name === actor()),
      click: reloadAfter(() => signIn(name)),
    }, el("b", {}, name), el("small", {}, t(`person.${name}`))));
  const languages = LANGUAGES.map((one) =>
    el("button", { type: "button", "data-language": one, "aria-pressed": String(one === language), click: () => setLanguage(one) }, one.toUpperCase()));
  const signed = actor() && [
    el("button", { type: "button", id: "copy", click: async () => navigator.clipboard.writeText(await token()) }, t("top.copy")),
    el("button", { type: "button", id: "sign-out", click: reloadAfter(signOut) }, t("top.out")),
  ];
  show(document.getElementById("top"),
    el("h1", {}, t("top.title")), el("div", { class: "tools" }, signed, languages),
    el("div", { class: "people", role: "group", "aria-label": t("top.who") }, buttons));
}

function list() {
  show(document.getElementById("services"), heading("services.title"),
    el("ul", {}, services.map(({ name, about, ready }) => el("li", {},
      el("a", { href: `/docs/${name}/` }, name), el("span", { class: ready ? "ready" : "away" }, t(ready ? "services.ready" : "services.away")),
      el("small", {}, language === "en" ? about : t(`service.${name}`))))),
    el("pre", {}, t("services.terminal")));
}

await attempt(loadPeople);
top();
list();
await attempt(grid.load);
follow();
await Promise.all([board.refresh, money.load, chat.load, imports.load].map(attempt));
document.body.dataset.ready = "true";
