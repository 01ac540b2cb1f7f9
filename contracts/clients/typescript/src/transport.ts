import { isProblem, refusal, retryAfter } from "./problem.js";

/** The options of a client. */
export interface ClientOptions {
  /** The base URL of the platform. Without one the client calls the origin of its page. */
  baseUrl?: string;
  /** Returns the token of the signed-in user, or nothing for a guest. */
  token?: () => Token | Promise<Token>;
  /**
   * Renews the token that `token` returns. The client calls it after a 401 of a request with a
   * token, once for all requests that had the same one, and repeats each of them once. It does not
   * call it after a 401 of a request without a token.
   */
  refresh?: () => unknown;
  /** The language of titles and details, such as `ru`. */
  language?: string;
  /** How often a request is repeated, 2 by default. 0 turns repeats off. */
  retries?: number;
  /** The longest `Retry-After` that the client waits for, 5 s by default. */
  maxWaitMs?: number;
  /**
   * The timeout of one attempt, 30 s by default. It covers the wait for `token` or `refresh`, the
   * request and the whole response.
   */
  timeoutMs?: number;
  /** Receives every response, for example to log the header `Deprecation`. */
  onResponse?: (response: Response) => void;
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch;
}

type Token = string | null | undefined;

/** A request as the transport sends it. */
export interface Outgoing {
  method: string;
  path: string;
  headers: Headers;
  body?: BodyInit | undefined;
  signal?: AbortSignal | undefined;
  timeoutMs?: number | undefined;
  retries?: number | undefined;
  /** The operation takes effect once for its `Idempotency-Key`. */
  hasKey?: boolean;
  /** The body is read by the caller, without a timeout. */
  streams?: boolean;
}

/** A successful response. The text of a stream and of a file is empty. */
export interface Reply {
  response: Response;
  text: string;
  file?: Blob;
}

/**
 * A lost connection or a refusal. Other errors come from the functions of the application or from
 * its options, and are thrown without a repeat.
 */
export class Failure {
  constructor(readonly error: unknown) {}
}

/** Calls `fetch` or reads a body, which fails when the network is lost. */
export async function exchange<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw new Failure(error);
  }
}

/** Sends a request, and throws a `Failure` after the last attempt. */
export type Send = (request: Outgoing) => Promise<Reply>;

const BACKOFF_MS = 200;
/** A timer with more than 2^31 ms ends at once. */
const MAX_SLEEP_MS = 3_600_000;
/** A repeated `PUT` stores the same values. A repeated `DELETE` returns 404, as if nothing had been deleted. */
const REPEATABLE_METHODS = ["GET", "PUT"];

/** Returns a function that sends requests with tokens, and repeats them where the contract allows. */
export function transport(options: ClientOptions): Send {
  const { baseUrl = "", retries = 2, maxWaitMs = 5_000, timeoutMs = 30_000 } = options;
  const base = baseUrl.replace(/\/+$/, "");
  const renew = refresher(options);

  // `fetch` would report an invalid URL as a lost connection.
  function validate(url: string) {
    // `localhost:8080` is a URL with the scheme `localhost`.
    if (/^(?!https?:)[\w+.-]+:/i.test(base)) throw new TypeError(`${base} is no URL of HTTP`);
    // Another `fetch` may know the origin of a path.
    if (base || !options.fetch) new Request(url);
  }

  async function attempt(request: Outgoing, signal: AbortSignal, token: Token): Promise<Reply> {
    const { method, path, body, streams } = request;
    const headers = new Headers(request.headers);
    if (token) headers.set("Authorization", `Bearer ${token}`);
    validate(base + path);
    const init = { method, headers, signal, ...(body !== undefined && { body }) };
    const response = await exchange(() => (options.fetch ?? fetch)(base + path, init));
    options.onResponse?.(response);
    if (response.ok && streams) return { response, text: "" };
    if (response.ok && !isText(response)) return { response, text: "", file: await exchange(() => response.blob()) };
    return { response, text: await exchange(() => response.text()) };
  }

  // The end of one attempt, with its wait for the token.
  const limit = (request: Outgoing): AbortSignal => AbortSignal.any([
    ...(request.signal ? [request.signal] : []),
    ...(request.streams ? [] : [AbortSignal.timeout(request.timeoutMs ?? timeoutMs)]),
  ]);

  // One attempt, and one more with a new token.
  async function authorized(request: Outgoing): Promise<Reply> {
    const first = limit(request);
    const token = await until(first, () => options.token?.());
    const reply = await attempt(request, first, token);
    if (reply.response.status !== 401 || !token) return reply;
    const second = limit(request);
    const renewed = await until(second, () => renew(token));
    return renewed && renewed !== token ? attempt(request, second, renewed) : reply;
  }

  return async function send(request) {
    for (let repeats = 0; ; repeats += 1) {
      request.signal?.throwIfAborted();
      let wait: number | undefined;
      let failure: Failure;
      try {
        const reply = await authorized(request);
        // A response 304 answers the caller's own `If-None-Match`.
        if (reply.response.ok || reply.response.status === 304) return reply;
        failure = new Failure(refusal(reply.response, reply.text));
        wait = waitAfter(reply, request, repeats);
      } catch (error) {
        request.signal?.throwIfAborted();
        if (!(error instanceof Failure)) throw error;
        failure = error;
        wait = isRepeatable(request) ? backoff(repeats) : undefined;
      }
      if (wait === undefined || wait > maxWaitMs || repeats >= (request.retries ?? retries)) throw failure;
      await sleep(wait, request.signal);
    }
  };
}

/** Returns a function that renews a rejected token once, and returns the present token. */
function refresher({ token, refresh }: ClientOptions): (rejected: string) => Promise<Token> {
  let latest: { rejected: string; done: Promise<unknown> } | undefined;
  return async (rejected) => {
    const present = await token?.();
    if (!refresh || present !== rejected) return present;
    if (latest?.rejected !== rejected) {
      latest = { rejected, done: Promise.resolve().then(refresh) };
    }
    const own = latest;
    const forget = () => {
      if (latest === own) latest = undefined;
    };
    try {
      await own.done;
    } catch (error) {
      forget();
      throw error;
    }
    const renewed = await token?.();
    // A later 401 may try again.
    if (renewed === rejected) forget();
    return renewed;
  };
}

/** Returns whether a body is JSON, XML or another text. UTF-8 would destroy the bytes of a file. */
const isText = (response: Response): boolean =>
  /^$|^text\/|[/+](json|xml)\b/i.test(response.headers.get("content-type") ?? "");

/** Returns whether the effect of a request is the same if it is sent twice. */
const isRepeatable = ({ method, hasKey = false }: Outgoing): boolean =>
  hasKey || REPEATABLE_METHODS.includes(method);

/** Returns the milliseconds until a refused request is repeated, or nothing if it must not be. */
function waitAfter({ response, text }: Reply, request: Outgoing, repeats: number): number | undefined {
  const { status } = response;
  const seconds = retryAfter(response);
  const wait = seconds === undefined ? backoff(repeats) : seconds * 1_000;
  // The service asks for a repeat. A proxy cannot know whether a repeat is safe.
  if (isProblem(response) && (status === 503 || status === 429) && seconds !== undefined) return wait;
  if (status === 409) return /IDEMPOTENCY_KEY_IN_USE/.test(text) ? backoff(repeats) : undefined;
  // Without a response of the service, and after `OUTCOME_UNKNOWN`, the change is made or not.
  const isUnknown = isProblem(response) ? status === 503 : [429, 502, 503, 504].includes(status);
  return isUnknown && isRepeatable(request) ? wait : undefined;
}

/** Returns a time that doubles with each failure, with a random half. */
export const backoff = (failures: number, first = BACKOFF_MS, most = Infinity): number =>
  Math.min(first * 2 ** failures, most) * (0.5 + Math.random() / 2);

/** Returns the result of `work`, or throws the reason of the signal while the work goes on. */
function until<T>(signal: AbortSignal, work: () => T | Promise<T>): Promise<T> {
  return new Promise((done, failed) => {
    const abort = () => failed(signal.reason);
    signal.addEventListener("abort", abort, { once: true });
    Promise.resolve().then(work).then(done, failed).finally(() => signal.removeEventListener("abort", abort));
    if (signal.aborted) abort();
  });
}

/** Waits, for an hour at most, or throws when the signal is aborted. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((done, failed) => {
    signal?.throwIfAborted();
    const abort = () => {
      clearTimeout(timer);
      failed(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      done();
    }, Math.min(ms, MAX_SLEEP_MS));
    signal?.addEventListener("abort", abort, { once: true });
  });
}
