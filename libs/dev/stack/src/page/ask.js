// Dialogs before a call, and notices about its result.

import { explain } from "./api.js";
import { el, show } from "./dom.js";
import { t } from "./i18n.js";

const notice = document.getElementById("notice");
let hiding;

export function say(text, bad = false) {
  notice.textContent = text;
  notice.className = bad ? "bad" : "";
  notice.hidden = false;
  clearTimeout(hiding);
  hiding = setTimeout(() => { notice.hidden = true; }, 6000);
}

// Runs an action of the person and shows an error as a notice.
export async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    say(explain(error), true);
    return undefined;
  }
}

export const actionButton = (name, work, attributes = {}) =>
  el("button", { type: "button", "data-action": name, click: () => attempt(work), ...attributes }, t(`action.${name}`));

export const choice = (name, options, value) =>
  el("select", { name }, options.map(([id, label]) => el("option", { value: id, selected: id === value }, label)));

// Shows a dialog with fields `[label, input]` and returns their values, or null if the person cancels.
export function ask(title, ...fields) {
  return new Promise((answer) => {
    const rows = fields.map(([label, input]) => el("label", {}, t(label), input));
    const form = el("form", { submit: (event) => {
      event.preventDefault();
      dialog.close("yes");
    } },
    el("h2", {}, title), rows,
    el("menu", {},
      el("button", { type: "button", click: () => dialog.close("no") }, t("action.back")),
      el("button", { type: "submit", class: "main", "data-action": "confirm" }, t("action.confirm"))));
    const dialog = el("dialog", { close: () => {
      dialog.remove();
      answer(dialog.returnValue === "yes" ? Object.fromEntries(new FormData(form)) : null);
    } }, form);
    document.body.append(dialog);
    dialog.showModal();
  });
}

export const heading = (key, ...beside) => el("h2", {}, t(key), el("span", { class: "beside" }, ...beside));

export const empty = (section, key, text, ...beside) => show(section, heading(key, ...beside), el("p", { class: "empty" }, text));
