// The signed-in person of this tab. All tabs share the API pages, which use the token of the latest sign-in.

const TOKEN = "token";
const ACTOR = "actor";
// The key under which Swagger UI stores the token (`persistAuthorization`).
const SWAGGER = "authorized";
// A token is renewed this long before it expires.
const MARGIN_MS = 60_000;

// Aborted when the page is left, which closes its streams.
// A browser opens at most six connections to a host, and a page in the back/forward cache would keep those of its streams.
export const leaving = new AbortController();
addEventListener("pagehide", () => leaving.abort());
addEventListener("pageshow", ({ persisted }) => persisted && location.reload());

export const people = new Map();
export let services = [];

export async function loadPeople() {
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

// True if the token contains the permission, `name` or `name@platform`.
export const may = (permission) => (claims().permissions ?? []).includes(permission);

export async function signIn(name) {
  const answer = await fetch(`/stack/tokens/${name}`, { method: "POST" });
  if (!answer.ok) throw new Error(`${name} cannot sign in now (${answer.status}); \`cargo dev status\` shows whether identity runs`);
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

// Replaces the token of the signed-in person.
export const renew = () => signIn(actor());

// A token that is still valid for a while, or null for a guest.
export async function token() {
  if (!actor()) return null;
  if (claims().exp * 1000 < Date.now() + MARGIN_MS) await renew();
  return sessionStorage.getItem(TOKEN);
}
