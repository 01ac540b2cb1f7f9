import { ProblemError } from "./problem.js";
import { backoff, exchange, Failure, sleep, type Send } from "./transport.js";
import type { Data, Item } from "./types.js";

interface Event<T extends string, D> {
  type: T;
  /** The position of the event. A stream that is opened with it continues after the event. */
  id: string;
  data: D;
}

/** An event of the stream. */
export type StreamEvent =
  /** The first event of a connection. */
  | Event<"ready", { Resumed: boolean }>
  /** The first event of a connection that cannot resume. Read the lists again. */
  | Event<"reset", Record<string, never>>
  | Event<"chat", Data<"get", "/api/messenger/chats/{chat_id}">>
  | Event<"chat-removed", { ChatId: string }>
  | Event<"message", Item<"/api/messenger/chats/{chat_id}/messages">>
  | Event<"read", { ChatId: string; UserId: string; ReadSequence: number }>
  | Event<"conference", Data<"get", "/api/messenger/conferences/{conference_id}">>;

const TYPES: ReadonlySet<string> = new Set<StreamEvent["type"]>(
  ["ready", "reset", "chat", "chat-removed", "message", "read", "conference"],
);

/** The options of a stream. */
export interface StreamOptions {
  /** Ends the stream. */
  signal?: AbortSignal;
  /** The `id` of the last event that was received, for example before a reload. */
  lastEventId?: string;
  /** Receives `live` with the first event of a connection, and `away` when it is lost. */
  onState?: (state: "live" | "away") => void;
}

/** The platform sends a comment every 15 s. A connection without data for this time is dead. */
const SILENCE_MS = 45_000;
const SILENT = new Failure(new Error("The connection is silent"));
const RECONNECT_MS = 500;
const MAX_RECONNECT_MS = 30_000;
/** A connection that ends sooner after its first data is a failure, such as a stream too many. */
const STABLE_MS = 10_000;

/** Yields the events of the stream over successive connections. */
export async function* stream(
  send: Send, headers: Record<string, string>, { signal, lastEventId, onState }: StreamOptions,
): AsyncGenerator<StreamEvent, void> {
  let position = lastEventId;
  let isLive = false;
  const become = (live: boolean) => {
    if (live !== isLive) onState?.(live ? "live" : "away");
    isLive = live;
  };
  for (let failures = 0; !signal?.aborted; failures += 1) {
    let opened: number | undefined;
    let least = 0;
    try {
      const resume = position === undefined ? {} : { "Last-Event-ID": position };
      const sent = new Headers({ ...headers, ...resume, Accept: "text/event-stream" });
      for await (const event of connection(send, sent, signal, () => (opened ??= Date.now()))) {
        become(true);
        position = event.id || position;
        if (isKnown(event)) yield event;
      }
    } catch (error) {
      if (signal?.aborted) break;
      if (!(error instanceof Failure)) throw error;
      if (error.error instanceof ProblemError) least = delayAfter(error.error);
    } finally {
      become(false);
    }
    if (opened !== undefined && Date.now() - opened > STABLE_MS) failures = 0;
    await sleep(Math.max(least, backoff(failures, RECONNECT_MS, MAX_RECONNECT_MS)), signal).catch(() => {});
  }
}

// An event of a newer platform moves the position only.
const isKnown = (event: Event<string, unknown>): event is StreamEvent => TYPES.has(event.type);

/** Returns the least delay after a refusal, or throws the refusal if a repeat does not help. */
function delayAfter(error: ProblemError): number {
  if (error.status < 500 && error.status !== 429) throw error;
  return (error.retryAfter ?? 0) * 1_000;
}

/** Yields the events of one connection, which ends with the generator, and reports its data. */
async function* connection(
  send: Send, headers: Headers, signal: AbortSignal | undefined, onData: () => void,
): AsyncGenerator<Event<string, unknown>, void> {
  const own = new AbortController();
  const signals = AbortSignal.any(signal ? [signal, own.signal] : [own.signal]);
  // The time that the caller takes for an event is no silence.
  const heard = async <T>(work: Promise<T>): Promise<T> => {
    const silence = setTimeout(() => own.abort(SILENT), SILENCE_MS);
    return work.finally(() => clearTimeout(silence));
  };
  try {
    const path = "/api/messenger/stream";
    const { response } = await heard(send({ method: "GET", path, headers, signal: signals, streams: true }));
    if (!response.body) return;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    const next = () => heard(exchange(() => reader.read()));
    for (let part = await next(); !part.done; part = await next()) {
      onData();
      // A line break of two characters may arrive in two parts.
      const blocks = (text + part.value).replace(/\r\n/g, "\n").split("\n\n");
      text = blocks.pop() ?? "";
      for (const block of blocks) {
        const event = parse(block);
        if (event) yield event;
      }
    }
  } finally {
    own.abort();
  }
}

function parse(block: string): Event<string, unknown> | undefined {
  const fields = { event: "", id: "", data: "" };
  for (const line of block.split("\n")) {
    // A text may have U+2028 and U+2029, which `.` leaves out without the flag.
    const [, name, value = ""] = /^(event|id|data)(?:: ?(.*))?$/s.exec(line) ?? [];
    if (name === "event" || name === "id") fields[name] = value;
    else if (name === "data") fields.data += fields.data ? `\n${value}` : value;
  }
  return fields.event ? { type: fields.event, id: fields.id, data: JSON.parse(fields.data || "{}") } : undefined;
}
