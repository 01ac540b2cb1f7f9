import { REPEATABLE } from "./generated/repeatable.js";
import { pages } from "./lists.js";
import { stream, type StreamEvent, type StreamOptions } from "./stream.js";
import { Failure, transport, type ClientOptions, type Outgoing, type Reply } from "./transport.js";
import type { Arguments, Data, Item, ListPath, Method, PathOf } from "./types.js";

/** The items of a page while a whole list is read. */
const PAGE_SIZE = 100;

type Call<M extends Method> = <P extends PathOf<M>>(path: P, ...init: Arguments<M, P>) => Promise<Data<M, P>>;

/** The operations of all services. A refusal is thrown as a `ProblemError`. */
export interface Client {
  get: Call<"get">;
  post: Call<"post">;
  put: Call<"put">;
  delete: Call<"delete">;
  /** Sends a request, and returns the response with the body. */
  request<M extends Method, P extends PathOf<M>>(method: M, path: P, ...init: Arguments<M, P>):
    Promise<{ data: Data<M, P>; response: Response }>;
  /** Reads a list page by page. A list without a cursor ends at 10,000 items. */
  pages<P extends ListPath>(path: P, ...init: Arguments<"get", P>): AsyncGenerator<Data<"get", P>, void>;
  /** Reads a list item by item, in pages of 100 items. A list without a cursor ends at 10,000 items. */
  items<P extends ListPath>(path: P, ...init: Arguments<"get", P>): AsyncGenerator<Item<P>, void>;
  /** Follows the chats and calls of the user, and reconnects until the signal is aborted. */
  stream(options?: StreamOptions): AsyncGenerator<StreamEvent, void>;
}

// The parts of a request, without the types of its operation.
interface Parts {
  path?: Record<string, unknown>;
  query?: Record<string, unknown>;
  body?: unknown;
  signal?: AbortSignal;
  headers?: Record<string, string>;
  idempotencyKey?: string;
}

/** Returns a client of the whole platform. */
export function createClient(options: ClientOptions = {}): Client {
  const send = transport(options);
  const language: Record<string, string> = options.language ? { "Accept-Language": options.language } : {};

  async function request(method: Method, path: string, parts: Parts = {}) {
    // The names of the caller's headers may have other capitals.
    const headers = new Headers(parts.headers);
    if (options.language && !headers.has("Accept-Language")) headers.set("Accept-Language", options.language);
    const { signal } = parts;
    const outgoing: Outgoing = { method: method.toUpperCase(), path: address(path, parts), headers, signal };
    if (parts.body !== undefined) {
      headers.set("Content-Type", "application/json");
      outgoing.body = JSON.stringify(parts.body);
    }
    // Another operation ignores the key, and a repeat would change something again.
    if (method === "post" && REPEATABLE.has(path)) {
      const key = parts.idempotencyKey ?? newKey();
      if (key !== undefined && !headers.has("Idempotency-Key")) headers.set("Idempotency-Key", key);
      outgoing.hasKey = headers.has("Idempotency-Key");
    }
    const reply = await send(outgoing).catch(unwrap);
    return { data: decode(reply), response: reply.response };
  }

  const call = (method: Method) => async (path: string, parts?: Parts) => (await request(method, path, parts)).data;
  const get = call("get");
  const list = (path: string, parts: Parts = {}, least: Record<string, unknown> = {}) =>
    pages((query) => get(path, { ...parts, query }), { ...least, ...parts.query });

  async function* items(path: string, parts?: Parts) {
    for await (const page of list(path, parts, { PageSize: PAGE_SIZE })) {
      yield* (page as { Items: unknown[] }).Items;
    }
  }

  const client = {
    get, post: call("post"), put: call("put"), delete: call("delete"), request, items,
    pages: (path: string, parts?: Parts) => list(path, parts),
    stream: (settings: StreamOptions = {}) => stream(send, language, settings),
  };
  // The types of `Client` come from the documents, which the code above does not read.
  return client as Client;
}

// Pages without TLS on another host than localhost have no `randomUUID`.
const newKey = (): string | undefined => globalThis.crypto?.randomUUID?.();

function unwrap(failure: unknown): never {
  throw failure instanceof Failure ? failure.error : failure;
}

/** Returns the path with its parameters and its query. */
function address(template: string, { path = {}, query = {} }: Parts): string {
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = path[name];
    const text = String(value ?? "");
    // A URL drops the segments of dots, and then names another operation.
    if (["", ".", ".."].includes(text)) throw new TypeError(`${template} needs \`${name}\``);
    return encodeURIComponent(text);
  });
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    const isEmpty = Array.isArray(value) && value.length === 0;
    if (value !== undefined && value !== null && !isEmpty) search.set(name, String(value));
  }
  return search.size > 0 ? `${filled}?${search}` : filled;
}

function decode({ response, text }: Reply): unknown {
  if (response.status === 204) return undefined;
  return /^application\/json\b/i.test(response.headers.get("content-type") ?? "") ? JSON.parse(text) : text;
}
