// Tests against a running platform with the data of the demo, at `PLATFORM_URL`.

import assert from "node:assert/strict";
import test from "node:test";
import { createClient, problem, type Client, type StreamEvent } from "@platform/api";

const baseUrl = process.env.PLATFORM_URL ?? "http://127.0.0.1:8080";

async function tokenOf(name: string): Promise<string> {
  const response = await fetch(`${baseUrl}/stack/tokens/${name}`, { method: "POST" });
  assert.equal(response.status, 200, `no token of ${name}`);
  return response.text();
}

async function clientOf(name: string): Promise<Client> {
  const token = await tokenOf(name);
  return createClient({ baseUrl, token: () => token });
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found = [];
  for await (const item of items) found.push(item);
  return found;
}

const objects = "/api/v1/public/property-objects";

async function inFirstProject(api: Client): Promise<{ ProjectId: string }> {
  const [project] = (await api.get("/api/v1/public/projects")).Items;
  assert.ok(project, "the demo has a project");
  return { ProjectId: project.Id };
}

test("guest_reads_the_catalog_page_by_page_and_by_cursor", async () => {
  const api = createClient({ baseUrl });
  const list = await api.get("/api/v1/public/projects");
  const projects = await all(api.items("/api/v1/public/projects"));
  assert.equal(projects.length, list.TotalCount);

  const query = await inFirstProject(api);
  const pages = await all(api.pages(objects, { query: { ...query, PageSize: 7 } }));
  const ids = pages.flatMap(({ Items }) => Items.map(({ Id }) => Id));
  const whole = await all(api.items(objects, { query }));
  assert.ok(pages.length > 1);
  assert.deepEqual(ids, whole.map(({ Id }) => Id));
  assert.equal(new Set(ids).size, ids.length);
});

test("list_of_several_values_filters_by_each", async () => {
  const api = createClient({ baseUrl });
  const Status = ["Available", "Booked"] as const;
  const found = await all(api.items(objects, { query: { ...await inFirstProject(api), Status } }));
  assert.ok(found.length > 0);
  for (const object of found) assert.ok(Status.some((status) => status === object.Status));
});

test("rejected_token_is_renewed_and_the_request_repeated", async () => {
  let token = "expired";
  let renewals = 0;
  const refresh = async () => {
    renewals += 1;
    token = await tokenOf("anna");
  };
  const api = createClient({ baseUrl, token: () => token, refresh });
  await Promise.all([api.get("/api/v1/selections"), api.get("/api/v1/favorites"), api.get("/api/messenger/unread")]);
  assert.equal(renewals, 1);
});

test("repeated_creation_returns_the_first_response", async () => {
  const api = await clientOf("anna");
  const idempotencyKey = crypto.randomUUID();
  const create = (Title: string) => api.post("/api/v1/selections", { body: { Title }, idempotencyKey });
  const selection = await create("Two rooms");
  const path = { selection: selection.Id };
  try {
    assert.equal((await create("Two rooms")).Id, selection.Id);
    await assert.rejects(create("Three rooms"), (error) => problem(error, "SELECTIONS_IDEMPOTENCY_KEY_REUSED"));
    await api.put("/api/v1/selections/{selection}", { path, body: { Title: "Four rooms", Description: null } });
    const stale = { Title: "Five rooms", Description: null, Version: selection.Version };
    await assert.rejects(
      api.put("/api/v1/selections/{selection}", { path, body: stale }),
      (error) => problem(error, "SELECTIONS_CONCURRENCY_CONFLICT"),
    );
  } finally {
    await api.delete("/api/v1/selections/{selection}", { path });
  }
});

test("refusal_is_in_the_language_of_the_client", async () => {
  const api = createClient({ baseUrl, language: "ru" });
  const error = await api.get("/api/messenger/unread").catch((thrown: unknown) => thrown);
  assert.ok(problem(error, "UNAUTHORIZED"));
  assert.match(error.problem.title, /[А-я]/);
});

test("stream_receives_a_message_and_resumes_after_it", { timeout: 20_000 }, async () => {
  const [anna, dmitri] = [await clientOf("anna"), await clientOf("dmitri")];
  const theirs = await dmitri.get("/api/messenger/chats", { query: { PageSize: 100 } });
  const known = new Set(theirs.Items.map(({ Id }) => Id));
  const chat = (await all(anna.items("/api/messenger/chats"))).find(({ Id, Kind }) => Kind === "Deal" && known.has(Id));
  assert.ok(chat, "anna and dmitri share a deal");
  const path = { chat_id: chat.Id };
  const messages = "/api/messenger/chats/{chat_id}/messages";
  const say = (Text: string) => dmitri.post(messages, { path, body: { Text, ClientMessageId: crypto.randomUUID() } });
  const isMessage = (event: StreamEvent, id: string) => event.type === "message" && event.data.Id === id;

  let position = "";
  let sent: Awaited<ReturnType<typeof say>> | undefined;
  for await (const event of anna.stream()) {
    position = event.id;
    if (event.type === "ready") sent = await say("The keys are here.");
    if (sent && isMessage(event, sent.Id)) break;
  }
  const missed = await say("Come at five.");
  const types = [];
  for await (const event of anna.stream({ lastEventId: position })) {
    types.push(event.type);
    if (event.type === "ready") assert.equal(event.data.Resumed, true);
    if (isMessage(event, missed.Id)) break;
  }
  assert.equal(types[0], "ready");

  const newest = [];
  for await (const message of anna.items(messages, { path, query: { PageSize: 1 } })) {
    newest.push(message.Text);
    if (newest.length === 2) break;
  }
  assert.deepEqual(newest, ["Come at five.", "The keys are here."]);
});
