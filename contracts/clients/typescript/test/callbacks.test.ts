import assert from "node:assert/strict";
import test, { type TestContext } from "node:test";
import { createClient, problem, type ClientOptions, type StreamOptions } from "@platform/api";
import { json, refuse, serve } from "./server.js";

/** A function of the application that throws what a lost connection would throw. */
const broken = (context: TestContext) => context.mock.fn((): never => {
  throw new TypeError("broken");
});

/** Reads the stream until it ends, for 2 s at most. */
async function follow(options: ClientOptions, settings: StreamOptions = {}) {
  const signal = AbortSignal.timeout(2_000);
  for await (const _ of createClient(options).stream({ signal, ...settings })) continue;
}

for (const name of ["token", "refresh", "onResponse"] as const) {
  test(`error_of_${name}_is_thrown_at_once`, async (context) => {
    const { baseUrl } = await serve(context, (response) => refuse(response, 401, "UNAUTHORIZED"));
    const call = broken(context);
    const options = { baseUrl, token: () => "old", [name]: call };
    await assert.rejects(createClient(options).get("/api/messenger/unread"), /broken/);
    assert.equal(call.mock.callCount(), 1);
    await assert.rejects(follow(options), /broken/);
    assert.equal(call.mock.callCount(), 2);
  });
}

test("error_of_onState_ends_the_stream", async (context) => {
  const { baseUrl } = await serve(context, (response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" }).write("event: ready\nid: 1\ndata: {}\n\n");
  });
  const onState = broken(context);
  await assert.rejects(follow({ baseUrl }, { onState }), /broken/);
  assert.equal(onState.mock.callCount(), 1);
});

test("refusal_that_refresh_receives_ends_the_stream", async (context) => {
  const { baseUrl, seen } = await serve(context, (response, { url }) => {
    if (url.includes("stream")) refuse(response, 401, "UNAUTHORIZED");
    else refuse(response, 503, "SERVICE_UNAVAILABLE");
  });
  const refresh = () => createClient({ baseUrl, retries: 0 }).get("/api/messenger/unread");
  const ended = follow({ baseUrl, token: () => "old", refresh });
  await assert.rejects(ended, (error) => problem(error, "SERVICE_UNAVAILABLE"));
  assert.equal(seen.length, 2);
});

for (const baseUrl of ["http://[", "127.0.0.1:8080", "localhost:8080"]) {
  test(`base_url_${baseUrl}_is_rejected_before_sending`, async (context) => {
    const fetch = broken(context);
    await assert.rejects(createClient({ baseUrl, fetch }).get("/api/messenger/unread"), TypeError);
    await assert.rejects(follow({ baseUrl, fetch }), TypeError);
    assert.equal(fetch.mock.callCount(), 0);
  });
}

test("missing_base_url_is_an_error_without_a_page", async () => {
  await assert.rejects(follow({}), TypeError);
});

test("fetch_that_knows_the_origin_receives_a_path", async (context) => {
  const fetch = context.mock.fn(async (_: unknown) => Response.json({}));
  await createClient({ fetch }).get("/api/messenger/unread");
  assert.equal(fetch.mock.calls[0]?.arguments[0], "/api/messenger/unread");
});

test("error_of_fetch_is_repeated_and_thrown_unchanged", async (context) => {
  const fetch = broken(context);
  const api = createClient({ baseUrl: "http://x", fetch });
  await assert.rejects(api.get("/api/messenger/unread"), /^TypeError: broken$/);
  assert.equal(fetch.mock.callCount(), 3);
});

test("body_that_is_cut_off_is_read_again", async (context) => {
  const { baseUrl, seen } = await serve(context, (response, _, number) => {
    if (number > 0) return json(response, 200, { UnreadChats: 1 });
    response.writeHead(200, { "Content-Type": "application/json", "Content-Length": "100" }).write("{");
    return setTimeout(() => response.socket?.destroy(), 20);
  });
  await createClient({ baseUrl }).get("/api/messenger/unread");
  assert.equal(seen.length, 2);
});
