import type { Problem, ProblemCode } from "./types.js";

/** A refusal of the platform, or a response of something in front of it. */
export class ProblemError<C extends string = string> extends Error {
  override readonly name = "ProblemError";
  /** The stable name of the problem, or `HTTP_502` if the response has no problem. */
  readonly code: C;
  readonly status: number;

  constructor(
    /** The body of the response. */
    readonly problem: Problem<C>,
    /** Seconds until the request may be repeated, if the response says so. */
    readonly retryAfter: number | undefined = undefined,
  ) {
    const { code, title, detail, errors } = problem;
    super([`${code}: ${title}`, detail, ...errors.map(fault)].filter(Boolean).join("; "));
    this.code = problem.code;
    this.status = problem.status;
  }
}

const fault = ({ field, message }: { field: string; message: string }) => `${field}: ${message}`;

/**
 * Returns whether an error is a refusal with one of these codes, or any refusal without codes.
 * A response without a problem has a code such as `HTTP_502`.
 * The error is then narrowed to the codes.
 */
export function problem<C extends ProblemCode | `HTTP_${number}`>(
  error: unknown, ...codes: C[]
): error is ProblemError<C> {
  return error instanceof ProblemError && (codes.length === 0 || codes.some((code) => code === error.code));
}

/** Returns the error of a response with this text. */
export function refusal(response: Response, text: string): ProblemError {
  const seconds = retryAfter(response);
  if (isProblem(response)) {
    try {
      return new ProblemError(JSON.parse(text), seconds);
    } catch {
      // A response that was cut off or changed on its way.
    }
  }
  const { pathname } = new URL(response.url || "http://unknown/");
  const code = `HTTP_${response.status}`;
  return new ProblemError({
    type: "about:blank", title: response.statusText || code, status: response.status, detail: null,
    instance: pathname, code, traceId: null, errors: [],
  }, seconds);
}

export const isProblem = (response: Response): boolean =>
  /^application\/problem\+json\b/i.test(response.headers.get("content-type") ?? "");

/** Returns `Retry-After` in seconds. */
export function retryAfter(response: Response): number | undefined {
  const text = response.headers.get("retry-after") ?? "";
  return /^\d+$/.test(text) ? Number(text) : undefined;
}
