import assert from "node:assert/strict";
import test from "node:test";
import { createClient, problem } from "@platform/api";
import { json, refuse, serve, type Answer } from "./server.js";

const accepts = (token: string): Answer => (response, { headers }) => {
  if (headers.authorization === `Bearer ${token}`) json(response, 200, {});
  else refuse(response, 401, "UNAUTHORIZED");
};

test("expired_token_is_renewed_once_for_all_requests", async (context) => {
  const { baseUrl, seen } = await serve(context, accepts("new"));
  let token = "old";
  let renewals = 0;
  const refresh = async () => {
    renewals += 1;
    await new Promise((done) => setTimeout(done, 20));
    token = "new";
  };
  const api = createClient({ baseUrl, token: async () => token, refresh });
  const selection = { Title: "x" };
  await Promise.all([
    ...Array.from({ length: 5 }, () => api.get("/api/messenger/unread")),
    api.post("/api/v1/selections", { body: selection }),
  ]);
  assert.equal(renewals, 1);
  assert.equal(seen.length, 12);
  const keys = new Set(seen.map(({ headers }) => headers["idempotency-key"]).filter(Boolean));
  assert.equal(keys.size, 1);
});

test("token_that_is_rejected_again_is_an_error", async (context) => {
  const { baseUrl, seen } = await serve(context, accepts("never"));
  let number = 0;
  const refresh = () => {
    number += 1;
  };
  const api = createClient({ baseUrl, token: () => `token-${number}`, refresh });
  await assert.rejects(api.get("/api/messenger/unread"), (error) => problem(error, "UNAUTHORIZED"));
  assert.deepEqual([number, seen.length], [1, 2]);
});

test("renewal_without_a_new_token_is_tried_at_the_next_request", async (context) => {
  const { baseUrl, seen } = await serve(context, accepts("never"));
  let renewals = 0;
  const refresh = () => {
    renewals += 1;
  };
  const api = createClient({ baseUrl, token: () => "old", refresh });
  for (const expected of [1, 2]) {
    await assert.rejects(api.get("/api/messenger/unread"), (error) => problem(error, "UNAUTHORIZED"));
    assert.deepEqual([renewals, seen.length], [expected, expected]);
  }
});

test("failed_renewal_is_the_error_of_every_waiting_request", async (context) => {
  // Both requests are refused before the renewal ends.
  let release = () => {};
  const both = new Promise<void>((done) => {
    release = done;
  });
  const { baseUrl } = await serve(context, async (response, _, number) => {
    if (number === 1) release();
    await both;
    refuse(response, 401, "UNAUTHORIZED");
  });
  let renewals = 0;
  const refresh = async () => {
    renewals += 1;
    await new Promise((done) => setTimeout(done, 500));
    throw new Error("sign in again");
  };
  const api = createClient({ baseUrl, token: () => "old", refresh });
  const all = await Promise.allSettled([api.get("/api/messenger/unread"), api.get("/api/v1/favorites")]);
  for (const one of all) assert.match(String(one.status === "rejected" && one.reason), /sign in again/);
  assert.equal(renewals, 1);
});

test("guest_is_not_renewed", async (context) => {
  const { baseUrl, seen } = await serve(context, accepts("never"));
  const api = createClient({ baseUrl, token: () => null, refresh: () => assert.fail("a guest has no token") });
  await assert.rejects(api.get("/api/messenger/unread"), (error) => problem(error, "UNAUTHORIZED"));
  assert.equal(seen[0]?.headers.authorization, undefined);
});

for (const name of ["token", "refresh"] as const) {
  const never = () => new Promise<never>(() => {});

  test(`signal_ends_the_wait_for_${name}`, { timeout: 5_000 }, async (context) => {
    const { baseUrl } = await serve(context, accepts("new"));
    const stop = new AbortController();
    const api = createClient({ baseUrl, token: () => "old", [name]: never });
    setTimeout(() => stop.abort(new Error("stopped")), 50);
    await assert.rejects(api.get("/api/messenger/unread", { signal: stop.signal }), /stopped/);
  });

  test(`timeout_ends_the_wait_for_${name}`, { timeout: 5_000 }, async (context) => {
    const { baseUrl, seen } = await serve(context, accepts("new"));
    const api = createClient({ baseUrl, timeoutMs: 100, token: () => "old", [name]: never });
    await assert.rejects(api.get("/api/messenger/unread"), { name: "TimeoutError" });
    assert.equal(seen.length, name === "token" ? 0 : 1);
  });
}

test("renewal_goes_on_after_a_request_has_left", { timeout: 5_000 }, async (context) => {
  const { baseUrl } = await serve(context, accepts("new"));
  let token = "old";
  let renewals = 0;
  const refresh = async () => {
    renewals += 1;
    await new Promise((done) => setTimeout(done, 300));
    token = "new";
  };
  const api = createClient({ baseUrl, token: () => token, refresh });
  const stop = new AbortController();
  const left = api.get("/api/messenger/unread", { signal: stop.signal });
  const stays = api.get("/api/v1/favorites");
  setTimeout(() => stop.abort(new Error("stopped")), 100);
  await assert.rejects(left, /stopped/);
  await stays;
  assert.equal(renewals, 1);
});
