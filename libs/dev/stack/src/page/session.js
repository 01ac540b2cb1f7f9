// Who this tab is: each has its own person. The API pages, which all tabs share, are signed in as whoever signed in last.

const TOKEN = "token";
const ACTOR = "actor";
// Where Swagger UI looks for it (its `persistAuthorization`).
const SWAGGER = "authorized";
// Before a token ends another one is asked for.
const MARGIN_MS = 60_000;

// Aborted when the page is left: a browser that keeps it for the way back would keep its streams, too, of the six connections that it has.
export const leaving = new AbortController();
addEventListener("pagehide", () => leaving.abort());
addEventListener("pageshow", ({ persisted }) => persisted && location.reload());

export const people = new Map();
export let services = [];

export async function learn() {
  const about = await (await fetch("/stack/about")).json();
  for (const person of about.people) people.set(person.id, person);
  services = about.services;
}

export const nameOf = (id) => people.get(id)?.name ?? (id ? id.slice(0, 8) : "–");
export const idOf = (name) => [...people.values()].find((person) => person.name === name)?.id;
export const actor = () => sessionStorage.getItem(ACTOR);
export const me = () => idOf(actor());

function claims() {
  const token = sessionStorage.getItem(TOKEN);
  if (!token) return {};
  const part = token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
  return JSON.parse(atob(part));
}

// Whether the token gives a permission, `name` or `name@platform`.
export const may = (permission) => (claims().permissions ?? []).includes(permission);

export async function signIn(name) {
  const answer = await fetch(`/stack/tokens/${name}`, { method: "POST" });
  if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
  const value = await answer.text();
  sessionStorage.setItem(TOKEN, value);
  sessionStorage.setItem(ACTOR, name);
  const schema = { type: "http", scheme: "bearer", bearerFormat: "JWT" };
  localStorage.setItem(SWAGGER, JSON.stringify({ person: { name: "person", schema, value } }));
}

export function signOut() {
  sessionStorage.removeItem(TOKEN);
  sessionStorage.removeItem(ACTOR);
  localStorage.removeItem(SWAGGER);
}

// One that is good for a while yet; null of a guest.
export async function token() {
  if (!actor()) return null;
  if (claims().exp * 1000 < Date.now() + MARGIN_MS) await signIn(actor());
  return sessionStorage.getItem(TOKEN);
}
