import { REPEATABLE } from "./generated/repeatable.js";
import { pages } from "./lists.js";
import { stream, type StreamEvent, type StreamOptions } from "./stream.js";
import { Failure, transport, type ClientOptions, type Outgoing, type Reply } from "./transport.js";
import type { Arguments, Data, FileBody, Item, ListPath, Method, PathOf } from "./types.js";

/** The items of a page while a whole list is read. */
const PAGE_SIZE = 100;

type Call<M extends Method> = <P extends PathOf<M>>(path: P, ...init: Arguments<M, P>) => Promise<Data<M, P>>;

/** The operations of all services. A refusal is thrown as a `ProblemError`. */
export interface Client {
  get: Call<"get">;
  post: Call<"post">;
  put: Call<"put">;
  delete: Call<"delete">;
  /**
   * Sends a request, and returns the response with the body. A response 304, which answers a header
   * `If-None-Match` of the caller, has no data.
   */
  request<M extends Method, P extends PathOf<M>>(method: M, path: P, ...init: Arguments<M, P>):
    Promise<{ data: Data<M, P>; response: Response }>;
  /** Reads a list page by page. A list without a cursor ends at 10,000 items. */
  pages<P extends ListPath>(path: P, ...init: Arguments<"get", P>): AsyncGenerator<Data<"get", P>, void>;
  /** Reads a list item by item, in pages of 100 items. A list without a cursor ends at 10,000 items. */
  items<P extends ListPath>(path: P, ...init: Arguments<"get", P>): AsyncGenerator<Item<P>, void>;
  /**
   * Follows the chats and calls of the user, and reconnects until the signal is aborted. It throws
   * when the platform refuses the stream, and when `token` or `refresh` throws.
   */
  stream(options?: StreamOptions): AsyncGenerator<StreamEvent, void>;
}

// The parts of a request, without the types of its operation.
interface Parts {
  path?: Record<string, unknown>;
  query?: Record<string, unknown>;
  body?: unknown;
  signal?: AbortSignal;
  timeoutMs?: number;
  retries?: number;
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
    const { body, signal, timeoutMs, retries } = parts;
    const address = addressOf(path, parts);
    const outgoing: Outgoing = { method: method.toUpperCase(), path: address, headers, signal, timeoutMs, retries };
    if (isFile(body)) {
      if (!headers.has("Content-Type")) headers.set("Content-Type", "application/octet-stream");
      outgoing.body = body;
    } else if (body !== undefined) {
      headers.set("Content-Type", "application/json");
      outgoing.body = JSON.stringify(body);
    }
    // Another operation ignores the key, and a repeat would change something again.
    if (method === "post" && REPEATABLE.has(path)) {
      if (!headers.has("Idempotency-Key")) headers.set("Idempotency-Key", parts.idempotencyKey ?? newKey());
      outgoing.hasKey = true;
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
const newKey = (): string => crypto.getRandomValues(new Uint32Array(4)).join("-");

const isFile = (body: unknown): body is FileBody =>
  body instanceof Blob || body instanceof ArrayBuffer || ArrayBuffer.isView(body);

function unwrap(failure: unknown): never {
  throw failure instanceof Failure ? failure.error : failure;
}

/** Returns the path with its parameters and its query. */
function addressOf(template: string, { path = {}, query = {} }: Parts): string {
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

function decode({ response, text, file }: Reply): unknown {
  if (response.status === 204 || response.status === 304) return undefined;
  return /^application\/json\b/i.test(response.headers.get("content-type") ?? "") ? JSON.parse(text) : file ?? text;
}
