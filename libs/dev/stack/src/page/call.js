// Calls over LiveKit. The stack serves the client of LiveKit, which is loaded with the first call.

import { api } from "./api.js";
import { actionButton, say } from "./ask.js";
import { el, show } from "./dom.js";
import { t } from "./i18n.js";
import { me, nameOf } from "./session.js";

const CONFERENCE = "/api/messenger/conferences/{conference_id}";
const box = document.getElementById("call");
let conference = null;
let room = null;
const media = el("div", { class: "media" });

const hostId = () => conference.Participants.find(({ Role }) => Role === "Host").UserId;
const mine = () => conference?.Participants.find((participant) => participant.UserId === me());

export async function call(chat, kind) {
  update(await api.post("/api/messenger/chats/{chat_id}/conferences", { path: { chat_id: chat }, body: { Media: kind } }));
  await join();
}

// Shows a call that was already running when the page was opened.
export async function answer(id) {
  update(await api.get(CONFERENCE, { path: { conference_id: id } }));
}

// Applies a version of a conference unless a newer one is shown.
export function update(card) {
  if (conference && card.Id !== conference.Id && card.Status === "Ended") return;
  if (conference?.Id === card.Id && card.Version < conference.Version) return;
  conference = card.Status === "Ended" ? null : card;
  if (!conference || mine()?.State !== "Joined") hangUp();
  draw();
}

function draw() {
  const state = mine()?.State;
  box.hidden = !["Invited", "Joined"].includes(state);
  if (box.hidden) return;
  box.dataset.state = state;
  const change = async (command) => update(await api.post(`${CONFERENCE}/${command}`, { path: { conference_id: conference.Id } }));
  const host = nameOf(hostId());
  const others = conference.Participants.map(({ UserId, State }) => el("span", { class: "pill", "data-person": nameOf(UserId), "data-state": State }, `${nameOf(UserId)}: ${t(`participant.${State}`)}`));
  const invited = [actionButton("join", join, { class: "main" }), actionButton("decline", () => change("decline"))];
  const joined = [
    actionButton("leave", () => change("leave")),
    hostId() === me() && actionButton("end", () => change("end"), { class: "main" }),
  ];
  show(box, el("b", {}, t(state === "Invited" ? "call.rings" : "call.on", { who: host })), el("span", { class: "people" }, others),
    el("menu", {}, state === "Invited" ? invited : joined), media);
}

async function join() {
  const path = { conference_id: conference.Id };
  const access = await api.post(`${CONFERENCE}/join`, { path });
  update(await api.get(CONFERENCE, { path }));
  try {
    await connect(access);
  } catch (error) {
    box.dataset.media = "none";
    say(t("call.silent", { why: error.message }), true);
  }
}

function loadClient() {
  return new Promise((done, failed) => {
    if (window.LivekitClient) return done();
    const script = el("script", { src: "/stack/livekit-client.js", load: () => done(), error: () => failed(new Error(t("call.client"))) });
    return document.head.append(script);
  });
}

async function connect({ Url, Token }) {
  await loadClient();
  const { Room, RoomEvent } = window.LivekitClient;
  const own = new Room({ adaptiveStream: true });
  room = own;
  const count = () => { box.dataset.tracks = String(media.children.length); };
  own.on(RoomEvent.TrackSubscribed, (track) => { media.append(track.attach()); count(); });
  own.on(RoomEvent.TrackUnsubscribed, (track) => { for (const element of track.detach()) element.remove(); count(); });
  own.on(RoomEvent.Disconnected, () => { if (room === own) hangUp(); });
  await own.connect(Url, Token);
  box.dataset.media = "connected";
  await own.localParticipant.setMicrophoneEnabled(true);
  if (conference?.Media === "Video") await own.localParticipant.setCameraEnabled(true);
}

function hangUp() {
  const ended = room;
  room = null;
  media.replaceChildren();
  delete box.dataset.media;
  delete box.dataset.tracks;
  ended?.disconnect();
}
