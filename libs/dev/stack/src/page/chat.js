// The chats of the signed-in person: messages, cards about the deal, and calls. The event stream of messenger updates them.

import { api } from "./api.js";
import { attempt, empty, heading } from "./ask.js";
import { answer, call, update } from "./call.js";
import { coalesce, el, show } from "./dom.js";
import { t, time } from "./i18n.js";
import { actor, leaving, me, nameOf } from "./session.js";

const MESSAGES = "/api/messenger/chats/{chat_id}/messages";
const section = document.getElementById("chat");
const numbers = new Map();
let chats = [];
let opened = null;
let messages = [];
let draft = "";

// The number of the flat of the deal, from the catalog.
async function number(chat) {
  const id = chat.PropertyObjectId;
  if (id && !numbers.has(id)) {
    const found = api.get("/api/v1/public/property-objects/{property_object_id}", { path: { property_object_id: id } }).then((object) => `№ ${object.Number}`);
    numbers.set(id, await found.catch(() => t("chat.hidden")));
  }
  return numbers.get(id);
}

const title = (chat) => numbers.get(chat.PropertyObjectId) ?? chat.Members.filter((member) => member.UserId !== me()).map((member) => nameOf(member.UserId)).join(", ");

function cardOf(card) {
  const status = (name) => t(`deal.${name}`);
  switch (card.Type) {
    case "DealStatusChanged": return t("card.status", { from: status(card.FromStatus), to: status(card.ToStatus), who: nameOf(card.ChangedByUserId) });
    case "MemberAdded": return t("card.added", { who: nameOf(card.UserId) });
    case "MemberRemoved": return t("card.removed", { who: nameOf(card.UserId) });
    case "ConferenceEnded": return t("card.call", { reason: t(`end.${card.EndReason}`), seconds: card.DurationSeconds });
    case "ChatClosed": return t("card.closed");
    default: return card.Type;
  }
}

function line(message) {
  if (message.Card) return el("li", { class: "system", "data-card": message.Card.Type }, cardOf(message.Card), " ", el("time", {}, time(message.CreatedAt)));
  const own = message.SenderUserId === me();
  return el("li", { class: own ? "own" : "other" }, el("small", {}, nameOf(message.SenderUserId)),
    el("p", {}, message.DeletedAt ? t("chat.deleted") : message.Text), el("time", {}, time(message.CreatedAt)));
}

function draw() {
  const list = chats.map((chat) => el("button", {
    type: "button", "data-chat": chat.Id, "data-title": title(chat), "data-keep": chat.Id, "aria-pressed": String(chat.Id === opened?.Id), click: () => attempt(() => choose(chat)),
  }, el("b", {}, title(chat)), el("small", {}, chat.Members.map((member) => nameOf(member.UserId)).join(", ")),
  chat.UnreadCount > 0 && chat.Id !== opened?.Id && el("span", { class: "count" }, String(chat.UnreadCount))));
  const log = el("ol", { class: "log", role: "log", tabindex: 0 }, messages.toReversed().map(line));
  const input = el("input", { name: "text", required: true, maxlength: 4000, autocomplete: "off", placeholder: t("chat.write"), "aria-label": t("chat.write"), "data-keep": "text", input: (event) => { draft = event.target.value; } });
  input.value = draft;
  const form = el("form", { submit: (event) => { event.preventDefault(); attempt(send); } }, input, el("button", { type: "submit", class: "main", "data-action": "send-message" }, t("action.write")));
  const calls = ["Audio", "Video"].map((media) => el("button", { type: "button", "data-action": `call-${media}`, click: () => attempt(() => call(opened.Id, media)) }, t(`call.${media}`)));
  show(section, heading("chat.title", opened?.Kind === "Deal" && calls),
    el("div", { class: "talk" }, el("nav", {}, list), opened && el("div", { class: "said" }, log, form)));
  log.scrollTop = log.scrollHeight;
}

const newest = async (chat) => (await api.get(MESSAGES, { path: { chat_id: chat.Id }, query: { PageSize: 50 } })).Items;

async function choose(chat) {
  opened = chat;
  messages = await newest(chat);
  draw();
  await read();
}

async function read() {
  const last = messages[0]?.Sequence ?? 0;
  if (opened.ReadSequence >= last) return;
  opened.ReadSequence = last;
  await api.put("/api/messenger/chats/{chat_id}/read", { path: { chat_id: opened.Id }, body: { Sequence: last } });
}

async function send() {
  const said = draft;
  draft = "";
  upsertMessage(await api.post(MESSAGES, { path: { chat_id: opened.Id }, body: { Text: said, ClientMessageId: crypto.randomUUID() } }));
}

// Adds a message or replaces its older version.
function upsertMessage(message) {
  if (message.ChatId !== opened?.Id) return;
  const place = messages.findIndex((one) => one.Sequence <= message.Sequence);
  const known = messages[place]?.Sequence === message.Sequence;
  messages.splice(place < 0 ? messages.length : place, known ? 1 : 0, message);
  draw();
  attempt(read);
}

const refresh = coalesce(async () => {
  chats = (await api.get("/api/messenger/chats", { query: { PageSize: 30 } })).Items;
  await Promise.all(chats.map(number));
  opened = chats.find((chat) => chat.Id === opened?.Id) ?? null;
  if (chats.length === 0) return empty(section, "chat.title", t("chat.none", { name: actor() }));
  if (!opened) return choose(chats[0]);
  messages = await newest(opened);
  draw();
  return read();
});

// Handles one event of the stream. All types except `conference` and `read` reload the chats, also `ready`: events before it may have been missed.
function handleEvent({ type, data }) {
  if (type === "conference") update(data);
  if (type === "message") upsertMessage(data);
  if (!["conference", "read"].includes(type)) refresh().catch(() => {});
}

// Follows the stream until the page is left.
async function listen() {
  const onState = (state) => { section.dataset.state = state; };
  for await (const event of api.stream({ signal: leaving.signal, onState })) handleEvent(event);
}

export async function load() {
  if (!actor()) return empty(section, "chat.title", t("chat.guest"));
  attempt(listen);
  await refresh();
  const live = chats.find((chat) => chat.LiveConferenceId);
  if (live) await answer(live.LiveConferenceId);
}
