// The events of Kafka with topic, key, publisher and consumers. Views subscribe and reload their data.

import { heading } from "./ask.js";
import { el, show } from "./dom.js";
import { t, time } from "./i18n.js";
import { leaving } from "./session.js";

const MAX_EVENTS = 60;
const section = document.getElementById("feed");
const list = el("ol", { "aria-live": "off", tabindex: 0 });
const subscribers = [];
const state = el("span", { class: "state" });

// Calls `subscriber` with each event, and with null after a (re)connect, when events may have been missed.
export const subscribe = (subscriber) => subscribers.push(subscriber);

function about({ topic, payload: p, to }) {
  const changes = p?.ToStatus ?? p?.To ?? p?.Status ?? p?.EndReason;
  const from = p?.FromStatus ?? p?.From;
  const what = [p?.Number && `№ ${p.Number}`, from && changes ? `${from} → ${changes}` : changes].filter(Boolean).join(" ");
  const names = to.length ? to.join(", ") : t("feed.no_consumer");
  return { what, names, short: topic.replace(/^platform\.\w+\.|^external\./, "").replace(/\.v\d+$/, "") };
}

function row(event) {
  const { what, names, short } = about(event);
  const payload = JSON.stringify(event.payload, null, 1);
  return el("li", { "data-topic": event.topic, class: `of-${event.from}` },
    el("details", {},
      el("summary", {},
        el("time", {}, time(Date.now())),
        el("span", { class: "topic" }, short),
        el("span", { class: "what" }, what),
        el("span", { class: "way" }, `${event.from} → ${names}`),
        el("code", { title: event.key }, event.key.slice(-12))),
      el("p", {}, event.topic), el("pre", {}, payload)));
}

export function follow() {
  list.append(el("li", { class: "empty" }, t("feed.empty")));
  show(section, heading("feed.title", state), list);
  const stream = new EventSource("/stack/events");
  leaving.signal.addEventListener("abort", () => stream.close());
  stream.addEventListener("ready", () => {
    state.textContent = t("feed.live");
    section.dataset.state = "live";
    for (const subscriber of subscribers) subscriber(null);
  });
  stream.addEventListener("error", () => {
    state.textContent = t("feed.away");
    section.dataset.state = "away";
  });
  stream.addEventListener("message", ({ data }) => {
    const event = JSON.parse(data);
    list.querySelector(".empty")?.remove();
    list.prepend(row(event));
    while (list.children.length > MAX_EVENTS) list.lastChild.remove();
    for (const subscriber of subscribers) subscriber(event);
  });
}
