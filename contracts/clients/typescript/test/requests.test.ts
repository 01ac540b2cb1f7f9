import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import test from "node:test";
import { createClient, problem, ProblemError } from "@platform/api";
import { hangUp, json, refuse, serve } from "./server.js";

const chat_id = "01932b4e-7c1a-7d3e-9f00-5c0fa8b1d2e3";
const favorite = "/api/v1/favorites/{property_object_id}";
const upload = "/api/v1/developers/feed-imports/{feed_import_id}/file";

const errorOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(() => assert.fail("no error"), (error: unknown) => error);

async function codeOf(work: Promise<unknown>): Promise<string> {
  const error = await errorOf(work);
  assert.ok(error instanceof Error);
  return problem(error) ? error.code : error.name;
}

const busy = (seconds: string) => (response: ServerResponse) =>
  refuse(response, 503, "SERVICE_UNAVAILABLE", { "Retry-After": seconds });

test("request_has_path_query_body_and_language", async (context) => {
  const { baseUrl, seen } = await serve(context, (response) => json(response, 200, { Items: [] }));
  const api = createClient({ baseUrl: `${baseUrl}/`, language: "ru", token: () => "abc" });
  await api.get("/api/v1/public/property-objects", { query: { Rooms: [1, 2], PriceFrom: 5 } });
  await api.put("/api/messenger/chats/{chat_id}/read", { path: { chat_id: "a/b" }, body: { Sequence: 3 } });
  assert.deepEqual(seen.map(({ method, url, body }) => [method, url, body]), [
    ["GET", "/api/v1/public/property-objects?Rooms=1%2C2&PriceFrom=5", ""],
    ["PUT", "/api/messenger/chats/a%2Fb/read", '{"Sequence":3}'],
  ]);
  assert.equal(seen[1]?.headers.authorization, "Bearer abc");
  assert.equal(seen[1]?.headers["accept-language"], "ru");
  assert.equal(seen[1]?.headers["content-type"], "application/json");
});

test("missing_path_parameter_is_rejected_before_sending", async (context) => {
  const { baseUrl, seen } = await serve(context, (response) => json(response, 200, {}));
  const api = createClient({ baseUrl });
  for (const post_id of ["", ".", ".."]) {
    await assert.rejects(api.get("/api/v1/posts/{post_id}", { path: { post_id } }), /^TypeError: .* needs `post_id`$/);
  }
  assert.equal(seen.length, 0);
});

test("responses_are_json_text_or_nothing", async (context) => {
  const { baseUrl } = await serve(context, (response, { url }) => {
    if (url.includes("statement")) response.writeHead(200, { "Content-Type": "text/csv" }).end("a;b");
    else response.writeHead(204).end();
  });
  const api = createClient({ baseUrl });
  const statement = "/api/v1/my/payouts/{payout_id}/statement";
  assert.equal(await api.get(statement, { path: { payout_id: chat_id }, query: { Format: "csv" } as never }), "a;b");
  assert.equal(await api.put(favorite, { path: { property_object_id: chat_id } }), undefined);
  const { response } = await api.request("put", favorite, { path: { property_object_id: chat_id } });
  assert.equal(response.status, 204);
});

// UTF-8 has no such bytes, so reading them as a text would lose them.
const bytes = Uint8Array.of(0x50, 0x4b, 0x80, 0xff, 0x00);

test("spreadsheet_arrives_unchanged", async (context) => {
  const { baseUrl } = await serve(context, (response) => {
    const type = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";
    response.writeHead(200, { "Content-Type": type }).end(bytes);
  });
  const file = await createClient({ baseUrl }).get("/api/v1/crm/exports/deals", { query: { Format: "Xlsx" } });
  assert.ok(file instanceof Blob);
  assert.deepEqual(new Uint8Array(await file.arrayBuffer()), bytes);
});

for (const [name, body] of [["blob", new Blob([bytes])], ["buffer", bytes.buffer], ["view", bytes]] as const) {
  test(`${name}_is_sent_unchanged_and_repeated`, async (context) => {
    const { baseUrl, seen } = await serve(context, (response, _, number) => {
      if (number === 0) return hangUp(response);
      return json(response, 200, {});
    });
    const path = { feed_import_id: chat_id };
    await createClient({ baseUrl }).put(upload, { path, body });
    assert.deepEqual(seen.map(({ bytes: sent }) => new Uint8Array(sent)), [bytes, bytes]);
    assert.equal(seen[0]?.headers["content-type"], "application/octet-stream");
  });
}

test("media_type_of_a_file_is_that_of_the_caller", async (context) => {
  const { baseUrl, seen } = await serve(context, (response) => json(response, 200, {}));
  const init = { path: { feed_import_id: chat_id }, body: bytes, headers: { "content-type": "application/xml" } };
  await createClient({ baseUrl }).put(upload, init);
  assert.equal(seen[0]?.headers["content-type"], "application/xml");
});

test("not_modified_has_no_data", async (context) => {
  const { baseUrl, seen } = await serve(context, (response, { headers }) => {
    if (headers["if-none-match"] === 'W/"a"') return response.writeHead(304, { ETag: 'W/"a"' }).end();
    return json(response, 200, { Items: [] }, { ETag: 'W/"a"' });
  });
  const api = createClient({ baseUrl });
  const first = await api.request("get", "/api/v1/posts");
  const headers = { "If-None-Match": first.response.headers.get("etag") ?? "" };
  const again = await api.request("get", "/api/v1/posts", { headers });
  assert.deepEqual([again.response.status, again.data, seen.length], [304, undefined, 2]);
});

test("refusal_is_a_problem_with_its_code", async (context) => {
  const { baseUrl } = await serve(context, (response) => refuse(response, 409, "MESSENGER_CHAT_CLOSED"));
  const error = await errorOf(createClient({ baseUrl }).get("/api/messenger/unread"));
  assert.ok(problem(error) && problem(error, "MESSENGER_CHAT_LEFT", "MESSENGER_CHAT_CLOSED"));
  assert.equal(problem(error, "MESSENGER_CHAT_LEFT"), false);
  assert.equal(problem(new Error("MESSENGER_CHAT_CLOSED")), false);
  assert.equal(error.message, "MESSENGER_CHAT_CLOSED: A title");
});

test("response_of_a_proxy_is_an_error_with_its_status", async (context) => {
  const { baseUrl } = await serve(context, (response) => response.writeHead(502).end("<h1>Bad gateway</h1>"));
  const error = await errorOf(createClient({ baseUrl, retries: 0 }).get("/api/messenger/unread"));
  assert.ok(error instanceof ProblemError);
  assert.deepEqual([error.code, error.status], ["HTTP_502", 502]);
});

test("refused_load_is_repeated_after_retry_after", async (context) => {
  const { baseUrl, seen } = await serve(context, (response, _, number) => {
    if (number === 0) refuse(response, 503, "SERVICE_UNAVAILABLE", { "Retry-After": "0" });
    else if (number === 1) refuse(response, 429, "RATE_LIMITED", { "Retry-After": "0" });
    else json(response, 200, {});
  });
  const path = { path: { post_id: chat_id } };
  await createClient({ baseUrl }).post("/api/v1/posts/{post_id}/publish", path);
  assert.equal(seen.length, 3);
});

test("long_retry_after_is_left_to_the_caller", async (context) => {
  const { baseUrl, seen } = await serve(context, busy("12"));
  const error = await errorOf(createClient({ baseUrl }).get("/api/messenger/unread"));
  assert.ok(problem(error, "SERVICE_UNAVAILABLE"));
  assert.equal(error.retryAfter, 12);
  assert.equal(seen.length, 1);
});

test("repeats_end_after_two", async (context) => {
  const { baseUrl, seen } = await serve(context, busy("0"));
  assert.equal(await codeOf(createClient({ baseUrl }).get("/api/messenger/unread")), "SERVICE_UNAVAILABLE");
  assert.equal(seen.length, 3);
  assert.equal(await codeOf(createClient({ baseUrl, retries: 0 }).get("/api/messenger/unread")), "SERVICE_UNAVAILABLE");
  assert.equal(seen.length, 4);
});

test("other_refusals_are_not_repeated", async (context) => {
  const codes = ["VALIDATION_FAILED", "MESSENGER_CHAT_CLOSED", "INTERNAL_ERROR"];
  const { baseUrl, seen } = await serve(context, (response, _, number) => {
    refuse(response, [400, 409, 500][number] ?? 0, codes[number] ?? "");
  });
  const api = createClient({ baseUrl });
  for (const code of codes) assert.equal(await codeOf(api.get("/api/messenger/unread")), code);
  assert.equal(seen.length, 3);
});

// What the client does after no response, after an unknown outcome, and after a proxy's error.
for (const [name, fail] of [
  ["lost_connection", hangUp],
  ["unknown_outcome", (response) => refuse(response, 503, "OUTCOME_UNKNOWN")],
  ["error_of_a_proxy", (response) => response.writeHead(504).end()],
  ["busy_proxy", (response) => response.writeHead(503, { "Retry-After": "0" }).end()],
  ["limit_of_a_proxy", (response) => response.writeHead(429, { "Retry-After": "0" }).end()],
  ["limit_of_a_proxy_without_a_time", (response) => response.writeHead(429).end()],
] as [string, typeof hangUp][]) {
  test(`${name}_repeats_only_what_is_repeatable`, async (context) => {
    const { baseUrl, seen } = await serve(context, (response, _, number) => {
      if (number % 2 === 0) return fail(response);
      return json(response, 200, {});
    });
    const api = createClient({ baseUrl });
    await api.get("/api/messenger/unread");
    await api.put(favorite, { path: { property_object_id: chat_id } });
    await api.post("/api/v1/selections", { body: { Title: "x" } });
    const keys = seen.slice(4).map(({ headers }) => headers["idempotency-key"]);
    assert.equal(seen.length, 6);
    assert.ok(keys[0] && keys[0] === keys[1], "the repeat has the key of the first request");

    await assert.rejects(api.post("/api/v1/posts/{post_id}/publish", { path: { post_id: chat_id } }));
    assert.equal(seen.length, 7);
    seen.length = 0;
    await assert.rejects(api.delete(favorite, { path: { property_object_id: chat_id } }));
    assert.equal(seen.length, 1);
  });
}

test("creations_have_keys_and_other_requests_have_none", async (context) => {
  const { baseUrl, seen } = await serve(context, (response) => json(response, 201, {}));
  const api = createClient({ baseUrl });
  const body = { Title: "x" };
  await api.post("/api/v1/selections", { body });
  await api.post("/api/v1/selections", { body });
  await api.post("/api/v1/selections", { body, idempotencyKey: "mine" });
  await api.post("/api/v1/posts/{post_id}/publish", { path: { post_id: chat_id } });
  await api.get("/api/v1/selections");
  const keys = seen.map(({ headers }) => headers["idempotency-key"]);
  assert.match(keys[0] as string, /^\d+(-\d+){3}$/);
  assert.notEqual(keys[0], keys[1]);
  assert.deepEqual(keys.slice(2), ["mine", undefined, undefined]);
});

test("key_in_use_is_repeated", async (context) => {
  const { baseUrl, seen } = await serve(context, (response, _, number) => {
    if (number === 0) refuse(response, 409, "SELECTIONS_IDEMPOTENCY_KEY_IN_USE");
    else json(response, 201, {});
  });
  await createClient({ baseUrl }).post("/api/v1/selections", { body: { Title: "x" } });
  assert.equal(seen.length, 2);
});

// Pages without TLS have no `crypto.randomUUID`.
test("creation_has_a_key_without_randomUUID", async (context) => {
  const { baseUrl, seen } = await serve(context, (response) => json(response, 201, {}));
  context.mock.method(crypto, "randomUUID", () => assert.fail("no such function"));
  await createClient({ baseUrl }).post("/api/v1/selections", { body: { Title: "x" } });
  assert.ok(seen[0]?.headers["idempotency-key"]);
});

test("request_has_its_own_timeout_and_repeats", async (context) => {
  const { baseUrl, seen } = await serve(context, (response) => {
    setTimeout(() => json(response, 200, {}), 300);
  });
  const api = createClient({ baseUrl, timeoutMs: 100, retries: 0 });
  await api.get("/api/messenger/unread", { timeoutMs: 5_000 });
  assert.equal(seen.length, 1);
  assert.equal(await codeOf(api.get("/api/messenger/unread", { retries: 1 })), "TimeoutError");
  assert.equal(seen.length, 3);
});

test("slow_response_is_a_timeout", async (context) => {
  const { baseUrl, seen } = await serve(context, (response, _, number) => number > 0 && json(response, 200, {}));
  await createClient({ baseUrl, timeoutMs: 100 }).get("/api/messenger/unread");
  assert.equal(seen.length, 2);
  seen.length = 0;
  const once = createClient({ baseUrl, timeoutMs: 100, retries: 0 });
  assert.equal(await codeOf(once.get("/api/messenger/unread")), "TimeoutError");
});

test("signal_ends_a_request_and_its_repeats", async (context) => {
  const { baseUrl, seen } = await serve(context, busy("4"));
  const stop = new AbortController();
  setTimeout(() => stop.abort(new Error("stopped")), 50);
  await assert.rejects(createClient({ baseUrl }).get("/api/messenger/unread", { signal: stop.signal }), /stopped/);
  assert.equal(seen.length, 1);
});

test("key_is_sent_only_where_it_is_accepted", async (context) => {
  const { baseUrl, seen } = await serve(context, hangUp);
  const api = createClient({ baseUrl });
  const path = { post_id: chat_id };
  await assert.rejects(api.post("/api/v1/posts/{post_id}/publish", { path, idempotencyKey: "mine" } as never));
  assert.deepEqual(seen.map(({ headers }) => headers["idempotency-key"]), [undefined]);
  await assert.rejects(api.post("/api/v1/posts/{post_id}/publish", { path, headers: { "Idempotency-Key": "mine" } }));
  assert.equal(seen.length, 2);
});

for (const name of ["Idempotency-Key", "idempotency-key"]) {
  test(`own_header_${name}_is_kept_and_repeated`, async (context) => {
    const { baseUrl, seen } = await serve(context, (response, _, number) => {
      if (number === 0) return hangUp(response);
      return json(response, 201, {});
    });
    const headers = { [name]: "mine", "accept-language": "en", authorization: "Basic x" };
    const api = createClient({ baseUrl, language: "ru", token: () => "abc" });
    await api.post("/api/v1/selections", { body: { Title: "x" }, headers });
    assert.deepEqual(seen.map((request) => request.headers["idempotency-key"]), ["mine", "mine"]);
    assert.equal(seen[0]?.headers["accept-language"], "en");
    assert.equal(seen[0]?.headers["content-type"], "application/json");
    assert.equal(seen[0]?.headers.authorization, "Bearer abc");
  });
}

test("empty_list_is_left_out_of_the_query", async (context) => {
  const { baseUrl, seen } = await serve(context, (response) => json(response, 200, { Items: [] }));
  await createClient({ baseUrl }).get("/api/v1/public/property-objects", { query: { Rooms: [], PriceFrom: 5 } });
  assert.equal(seen[0]?.url, "/api/v1/public/property-objects?PriceFrom=5");
});

test("wait_that_a_proxy_asks_for_is_kept", async (context) => {
  const { baseUrl, seen } = await serve(context, (response) => response.writeHead(502, { "Retry-After": "12" }).end());
  const error = await errorOf(createClient({ baseUrl }).get("/api/messenger/unread"));
  assert.ok(error instanceof ProblemError);
  assert.deepEqual([error.code, error.retryAfter, seen.length], ["HTTP_502", 12, 1]);
});
