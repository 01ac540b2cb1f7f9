// Puts a demo actor's token where Swagger UI looks for it (its `persistAuthorization`): the API pages of all
// areas are of this origin.

const KEPT = "authorized";
const ACTOR = "actor";
const buttons = [...document.querySelectorAll("[data-actor]")];
const note = document.getElementById("signed-in");

const token = () => JSON.parse(localStorage.getItem(KEPT) ?? "{}").person?.value;

function show() {
  const actor = token() && localStorage.getItem(ACTOR);
  for (const button of buttons) button.ariaPressed = String(button.dataset.actor === actor);
  note.hidden = !actor;
  note.querySelector("strong").textContent = actor ?? "";
}

async function signIn(actor) {
  const answer = await fetch(`/stack/tokens/${actor}`, { method: "POST" });
  if (!answer.ok) throw new Error(`no token for ${actor}: ${answer.status}`);
  const schema = { type: "http", scheme: "bearer", bearerFormat: "JWT" };
  const person = { name: "person", schema, value: await answer.text() };
  localStorage.setItem(KEPT, JSON.stringify({ person }));
  localStorage.setItem(ACTOR, actor);
  show();
}

function signOut() {
  localStorage.removeItem(KEPT);
  localStorage.removeItem(ACTOR);
  show();
}

for (const button of buttons) button.addEventListener("click", () => signIn(button.dataset.actor));
document.getElementById("copy").addEventListener("click", () => navigator.clipboard.writeText(token()));
document.getElementById("sign-out").addEventListener("click", signOut);
show();
