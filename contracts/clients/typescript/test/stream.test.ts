import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import test, { type TestContext } from "node:test";
import { createClient, problem, type StreamEvent } from "@platform/api";
import { refuse, serve } from "./server.js";

const block = (type: string, id: number, data: unknown) =>
  `event: ${type}\nid: ${id}\ndata: ${JSON.stringify(data)}\n\n`;
const open = (response: ServerResponse) => response.writeHead(200, { "Content-Type": "text/event-stream" });
const pause = () => new Promise((done) => setTimeout(done, 10));

async function take(events: AsyncIterable<StreamEvent>, count: number): Promise<StreamEvent[]> {
  const taken = [];
  for await (const event of events) {
    taken.push(event);
    if (taken.length === count) break;
  }
  return taken;
}

test("events_are_read_whatever_the_parts", async (context) => {
  const first = [": heartbeat\n\n", block("ready", 1, { Resumed: false }), block("message", 2, { Text: "Ё\n" })];
  const all = Buffer.from([...first, "event:read\r\nid: 3\r\ndata: {\ndata: }\r\n\r\n"].join(""));
  const { baseUrl, seen } = await serve(context, async (response) => {
    open(response);
    for (const byte of all) {
      response.write(Buffer.of(byte));
      if (byte > 127 || byte === 10 || byte === 13) await pause();
    }
  });
  const events = await take(createClient({ baseUrl, token: () => "abc" }).stream(), 3);
  assert.deepEqual(events.map(({ type, id }) => [type, id]), [["ready", "1"], ["message", "2"], ["read", "3"]]);
  assert.equal(events[1]?.type === "message" && events[1].data.Text, "Ё\n");
  assert.equal(seen[0]?.headers.authorization, "Bearer abc");
  assert.equal(seen[0]?.headers["last-event-id"], undefined);
});

test("stream_resumes_after_the_last_event", async (context) => {
  const { baseUrl, seen } = await serve(context, (response, _, number) => {
    if (number === 1) return refuse(response, 503, "SERVICE_UNAVAILABLE", { "Retry-After": "0" });
    const first = number === 0 ? block("ready", 4, {}) + block("added-later", 5, {}) : block("reset", 9, {});
    return open(response).end(first);
  });
  const states: string[] = [];
  const api = createClient({ baseUrl, retries: 0 });
  const events = await take(api.stream({ lastEventId: "3", onState: (state) => states.push(state) }), 2);
  assert.deepEqual(events.map(({ type }) => type), ["ready", "reset"]);
  assert.deepEqual(seen.map(({ headers }) => headers["last-event-id"]), ["3", "5", "5"]);
  assert.deepEqual(states, ["live", "away", "live", "away"]);
});

test("lost_connection_is_opened_again", async (context) => {
  const { baseUrl, seen } = await serve(context, async (response, _, number) => {
    open(response).write(block("ready", number, {}));
    await pause();
    response.socket?.destroy();
  });
  await take(createClient({ baseUrl }).stream(), 2);
  assert.equal(seen.length, 2);
});

test("short_connections_are_opened_less_and_less_often", async (context) => {
  const times: number[] = [];
  const { baseUrl } = await serve(context, (response, _, number) => {
    times.push(Date.now());
    open(response).end(block("ready", number, {}));
  });
  await take(createClient({ baseUrl }).stream(), 4);
  const waits = times.slice(1).map((time, index) => time - (times[index] ?? 0));
  assert.ok((waits[2] ?? 0) >= 1_000, `${waits}`);
});

test("refused_stream_ends_with_the_problem", async (context) => {
  const { baseUrl, seen } = await serve(context, (response) => refuse(response, 401, "UNAUTHORIZED"));
  await assert.rejects(take(createClient({ baseUrl }).stream(), 1), (error) => problem(error, "UNAUTHORIZED"));
  assert.equal(seen.length, 1);
});

test("stream_continues_with_a_new_token", async (context) => {
  const { baseUrl, seen } = await serve(context, (response, { headers }) => {
    if (headers.authorization !== "Bearer new") return refuse(response, 401, "UNAUTHORIZED");
    return open(response).write(block("ready", 1, {}));
  });
  let token = "old";
  const refresh = () => {
    token = "new";
  };
  await take(createClient({ baseUrl, token: () => token, refresh }).stream(), 1);
  assert.equal(seen.length, 2);
});

test("signal_ends_the_stream", async (context) => {
  const { baseUrl } = await serve(context, (response) => open(response).write(block("ready", 1, {})));
  const stop = new AbortController();
  const types = [];
  for await (const { type } of createClient({ baseUrl }).stream({ signal: stop.signal })) {
    types.push(type);
    stop.abort();
  }
  assert.deepEqual(types, ["ready"]);
});

test("end_of_the_loop_closes_the_connection", async (context) => {
  let closed: Promise<unknown> | undefined;
  const { baseUrl } = await serve(context, (response) => {
    closed = new Promise((done) => response.once("close", done));
    open(response).write(block("ready", 1, {}));
  });
  await take(createClient({ baseUrl }).stream(), 1);
  await closed;
});

test("separators_of_lines_are_part_of_a_text", async (context) => {
  const Text = "a\u2028b\u2029c";
  const { baseUrl } = await serve(context, (response) => open(response).write(block("message", 1, { Text })));
  const [event] = await take(createClient({ baseUrl }).stream(), 1);
  assert.equal(event?.type === "message" && event.data.Text, Text);
});

test("slow_failures_are_repeated_less_and_less_often", async (context) => {
  let late = 0;
  const { now } = Date;
  context.mock.method(Date, "now", () => now() + late);
  const times: number[] = [];
  const stop = new AbortController();
  const fetch = async () => {
    times.push(performance.now());
    late += 20_000;
    if (times.length === 4) stop.abort();
    throw new TypeError("no connection");
  };
  const api = createClient({ baseUrl: "http://x", retries: 0, fetch });
  await take(api.stream({ signal: stop.signal }), 1);
  const waits = times.slice(1).map((time, index) => time - (times[index] ?? 0));
  assert.ok((waits[2] ?? 0) >= 1_000, `${waits}`);
});

test("long_wait_does_not_overflow", async (context) => {
  const { baseUrl, seen } = await serve(context, (response) => {
    refuse(response, 503, "SERVICE_UNAVAILABLE", { "Retry-After": "9999999" });
  });
  await take(createClient({ baseUrl }).stream({ signal: AbortSignal.timeout(500) }), 1);
  assert.equal(seen.length, 1);
});

/** Makes the timers of the client a hundred times as fast: a connection is dead after 450 ms. */
function hurry(context: TestContext) {
  const { setTimeout } = globalThis;
  const fast = (work: () => void, ms: number) => setTimeout(work, ms / 100);
  context.mock.method(globalThis, "setTimeout", fast as never);
  return (ms: number) => new Promise<void>((done) => setTimeout(done, ms));
}

test("silent_connection_is_opened_again", { timeout: 10_000 }, async (context) => {
  hurry(context);
  const { baseUrl, seen } = await serve(context, (response, _, number) => {
    open(response).write(block("ready", number, {}));
  });
  await take(createClient({ baseUrl }).stream(), 2);
  assert.equal(seen.length, 2);
});

test("slow_caller_does_not_lose_the_connection", { timeout: 10_000 }, async (context) => {
  const wait = hurry(context);
  const { baseUrl, seen } = await serve(context, (response, _, number) => {
    open(response).write(block("ready", number, {}));
    return wait(1_000).then(() => response.write(block("read", 7, {})));
  });
  const types = [];
  for await (const { type } of createClient({ baseUrl }).stream()) {
    types.push(type);
    if (types.length === 2) break;
    await wait(900);
  }
  assert.deepEqual([types, seen.length], [["ready", "read"], 1]);
});
