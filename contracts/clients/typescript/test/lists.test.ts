import assert from "node:assert/strict";
import test from "node:test";
import { createClient } from "@platform/api";
import { json, serve, type Answer } from "./server.js";

const queryOf = (url: string) => new URL(url, "http://x").searchParams;
const numbered = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => ({ Id: String(from + index) }));

/** A list of `total` items by `Page` and `PageSize`. */
const paged = (total: number): Answer => (response, { url }) => {
  const query = queryOf(url);
  const [Page, PageSize] = [Number(query.get("Page") ?? 1), Number(query.get("PageSize") ?? 20)];
  const before = (Page - 1) * PageSize;
  const Items = numbered(before, Math.max(0, Math.min(PageSize, total - before)));
  json(response, 200, { Items, Page, PageSize, TotalCount: Math.min(total, 10_000) });
};

test("items_reads_all_pages", async (context) => {
  const { baseUrl, seen } = await serve(context, paged(250));
  const api = createClient({ baseUrl });
  const ids = [];
  for await (const { Id } of api.items("/api/v1/posts", { query: { Query: "sea" } })) ids.push(Number(Id));
  assert.deepEqual(ids, Array.from({ length: 250 }, (_, index) => index));
  assert.deepEqual(seen.map(({ url }) => url), [
    "/api/v1/posts?PageSize=100&Query=sea",
    "/api/v1/posts?PageSize=100&Query=sea&Page=2",
    "/api/v1/posts?PageSize=100&Query=sea&Page=3",
  ]);
});

test("pages_ends_at_10000_items", async (context) => {
  const { baseUrl, seen } = await serve(context, paged(50_000));
  let count = 0;
  const pages = createClient({ baseUrl }).pages("/api/v1/favorites", { query: { PageSize: 4_000 } });
  for await (const page of pages) count += page.Items.length;
  assert.deepEqual([count, seen.length], [8_000, 2]);
});

test("loop_that_ends_reads_no_further_page", async (context) => {
  const { baseUrl, seen } = await serve(context, paged(250));
  for await (const _ of createClient({ baseUrl }).items("/api/v1/posts")) break;
  assert.equal(seen.length, 1);
});

test("cursor_is_passed_back_unchanged", async (context) => {
  const { baseUrl, seen } = await serve(context, (response, { url }) => {
    const NextCursor = { none: "a+/=", "a+/=": "b", b: null }[queryOf(url).get("Cursor") ?? "none"];
    json(response, 200, { Items: numbered(0, 2), NextCursor });
  });
  let count = 0;
  for await (const _ of createClient({ baseUrl }).items("/api/v1/public/property-objects")) count += 1;
  assert.deepEqual([count, seen.length], [6, 3]);
});

test("column_with_a_count_is_read_by_its_cursor", async (context) => {
  const { baseUrl, seen } = await serve(context, (response, { url }) => {
    const NextCursor = queryOf(url).has("Cursor") ? null : "a";
    json(response, 200, { Items: numbered(0, 2), TotalCount: 30, NextCursor });
  });
  let count = 0;
  const path = { step_id: "x" };
  for await (const _ of createClient({ baseUrl }).items("/api/v1/crm/board/columns/{step_id}", { path })) count += 1;
  assert.deepEqual([count, seen.length], [4, 2]);
});

for (const [name, first] of [["BeforeSequence", {}], ["AfterSequence", { AfterSequence: 0 }]] as const) {
  test(`messages_continue_with_${name}`, async (context) => {
    const { baseUrl, seen } = await serve(context, (response, _, number) => {
      const Items = [{ Sequence: 7 + number }, { Sequence: 3 + number }];
      json(response, 200, { Items, HasMore: number < 1, LastSequence: 9 });
    });
    const api = createClient({ baseUrl });
    let count = 0;
    const init = { path: { chat_id: "x" }, query: first };
    for await (const _ of api.items("/api/messenger/chats/{chat_id}/messages", init)) count += 1;
    assert.equal(count, 4);
    assert.equal(queryOf(seen[1]?.url ?? "").get(name), "3");
  });
}
