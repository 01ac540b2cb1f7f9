// The chats of the signed-in person: messages, cards about the deal, and calls. The event stream of messenger updates them.

import { get, headers, post, put } from "./api.js";
import { attempt, empty, heading } from "./ask.js";
import { answer, call, update } from "./call.js";
import { calm, el, show } from "./dom.js";
import { t, time } from "./i18n.js";
import { actor, leaving, me, nameOf } from "./session.js";

const API = "/api/messenger";
const AGAIN_MS = 1000;
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
    const found = get(`/api/v1/public/property-objects/${id}`).then((object) => `№ ${object.Number}`);
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
    type: "button", "data-chat": chat.Id, "data-keep": chat.Id, "aria-pressed": String(chat.Id === opened?.Id), click: () => attempt(() => choose(chat)),
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

async function choose(chat) {
  opened = chat;
  messages = (await get(`${API}/chats/${chat.Id}/messages?PageSize=50`)).Items;
  draw();
  await read();
}

async function read() {
  const last = messages[0]?.Sequence ?? 0;
  if (opened.ReadSequence >= last) return;
  opened.ReadSequence = last;
  await put(`${API}/chats/${opened.Id}/read`, { Sequence: last });
}

async function send() {
  const said = draft;
  draft = "";
  keep(await post(`${API}/chats/${opened.Id}/messages`, { Text: said, ClientMessageId: crypto.randomUUID() }));
}

// Adds a message or replaces its older version.
function keep(message) {
  if (message.ChatId !== opened?.Id) return;
  const place = messages.findIndex((one) => one.Sequence <= message.Sequence);
  const known = messages[place]?.Sequence === message.Sequence;
  messages.splice(place < 0 ? messages.length : place, known ? 1 : 0, message);
  draw();
  attempt(read);
}

const refresh = calm(async () => {
  chats = (await get(`${API}/chats?PageSize=30`)).Items;
  await Promise.all(chats.map(number));
  opened = chats.find((chat) => chat.Id === opened?.Id) ?? null;
  if (chats.length === 0) return empty(section, "chat.title", t("chat.none", { name: actor() }));
  if (!opened) return choose(chats[0]);
  messages = (await get(`${API}/chats/${opened.Id}/messages?PageSize=50`)).Items;
  draw();
  return read();
});

// Handles one event of the stream.
function take(block) {
  const lines = block.split("\n");
  const field = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
  const [name, data] = [field("event"), field("data")];
  if (!name) return field("id");
  if (name === "conference") update(JSON.parse(data));
  else if (name === "message") {
    keep(JSON.parse(data));
    refresh();
  } else if (name !== "read") refresh();
  return field("id");
}

// Reads the stream with `fetch`, because `EventSource` sends no token.
async function listen() {
  let last;
  while (!leaving.signal.aborted) {
    try {
      const sent = await headers();
      const stream = await fetch(`${API}/stream`, {
        headers: { ...sent, ...(last && { "Last-Event-ID": last }) }, signal: leaving.signal,
      });
      if (!stream.ok) throw new Error(stream.status);
      section.dataset.state = "live";
      const reader = stream.body.pipeThrough(new TextDecoderStream()).getReader();
      let came = "";
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        const blocks = (came + part.value).split("\n\n");
        came = blocks.pop();
        for (const block of blocks) last = take(block) ?? last;
      }
    } catch {
      section.dataset.state = "away";
    }
    await new Promise((done) => setTimeout(done, AGAIN_MS));
  }
}

export async function load() {
  if (!actor()) return empty(section, "chat.title", t("chat.guest"));
  listen();
  await refresh();
  const live = chats.find((chat) => chat.LiveConferenceId);
  if (live) await answer(live.LiveConferenceId);
}
