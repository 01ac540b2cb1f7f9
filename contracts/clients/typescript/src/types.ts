// The types of requests and responses, by method and path. They refer to no schema by its name.

import type { Paths } from "./generated/paths.js";

export type { Paths };

/** The methods of the platform. */
export type Method = "get" | "post" | "put" | "delete";

/** The paths that have a method. The stream has a function of its own. */
export type PathOf<M extends Method> = {
  [P in keyof Paths]: Paths[P][M] extends { responses: unknown } ? P : never;
}[Exclude<keyof Paths, "/api/messenger/stream">];

type Success = 200 | 201 | 204;
// A body of another media type is a file.
type TextType = `text/${string}` | `application/${string}${"json" | "xml"}`;
type Media<C, F> = { [K in keyof C]: K extends TextType ? C[K] : F }[keyof C];
type Content<R> = R extends { content: infer C } ? Media<C, Blob> : undefined;
type RequestContent<R> = R extends { content: infer C } ? Media<C, FileBody> : undefined;

/** A file of a request. A `File` of a form is a `Blob`. */
export type FileBody = Blob | BufferSource;

type Responses<M extends Method, P extends keyof Paths> =
  Paths[P][M] extends { responses: infer R } ? R : never;

/** The body of a successful response: JSON, a text or a file. It is `undefined` for a 204. */
export type Data<M extends Method, P extends PathOf<M>> = {
  [S in keyof Responses<M, P> & Success]: Content<Responses<M, P>[S]>;
}[keyof Responses<M, P> & Success];

/** The body of a request. */
export type Body<M extends Method, P extends PathOf<M>> =
  Paths[P][M] extends { requestBody?: infer B } ? RequestContent<NonNullable<B>> : never;

// Optional parameters may be `undefined`, and lists may be constants.
type Sparse<Q> = {
  [K in keyof Q]: ReadonlyList<Q[K]> | (object extends Pick<Q, K> ? undefined : never);
};
type ReadonlyList<V> = V extends (infer I)[] ? readonly I[] : V;

/** The parameters of a query. */
export type Query<M extends Method, P extends PathOf<M>> =
  Paths[P][M] extends { parameters: { query?: infer Q } } ? Sparse<NonNullable<Q>> : never;

type List = { Items: unknown[] } & ({ TotalCount: number } | { NextCursor?: unknown } | { HasMore: boolean });

/** The paths of lists. */
export type ListPath = { [P in PathOf<"get">]: Data<"get", P> extends List ? P : never }[PathOf<"get">];

/** An item of a list. */
export type Item<P extends ListPath> = Data<"get", P> extends { Items: (infer I)[] } ? I : never;

/** The options of every request. */
export interface RequestOptions {
  /** Cancels the request and its retries. */
  signal?: AbortSignal;
  /** The timeout of one attempt. A large file needs more than the 30 s of the client. */
  timeoutMs?: number;
  /** How often this request is repeated. */
  retries?: number;
  /** Further headers, such as `traceparent`. */
  headers?: Record<string, string>;
}

interface KeyOptions {
  /**
   * The `Idempotency-Key` of this creation. Without one the client chooses a key, which protects
   * its own retries. A key that you store protects a repeat after a reload, too.
   */
  idempotencyKey?: string;
}

type HeaderOf<O> = O extends { parameters: { header?: infer H } } ? NonNullable<H> : never;
type AcceptsKey<O> = [HeaderOf<O>] extends [never] ? false : "Idempotency-Key" extends keyof HeaderOf<O> ? true : false;

// A member that is required, optional or not allowed, as the document says.
type Member<N extends string, T> = [NonNullable<T>] extends [never]
  ? { [K in N]?: never }
  : undefined extends T ? { [K in N]?: NonNullable<T> } : { [K in N]: T };

type ParametersOf<O> = O extends { parameters: infer X } ? X : never;
type Field<T, N extends string> = N extends keyof T ? T[N] : undefined;
type BodyOf<O> = O extends { requestBody: { content: infer C } }
  ? Media<C, FileBody>
  : O extends { requestBody?: infer B } ? RequestContent<NonNullable<B>> | undefined : undefined;

/** The path, query and body of a request. */
export type Init<M extends Method, P extends PathOf<M>> = RequestOptions
  & (AcceptsKey<Paths[P][M]> extends true ? KeyOptions : { idempotencyKey?: never })
  & Member<"path", Field<ParametersOf<Paths[P][M]>, "path">>
  & Member<"query", Sparse<Field<ParametersOf<Paths[P][M]>, "query">>>
  & Member<"body", BodyOf<Paths[P][M]>>;

/** The argument after the path, which only operations without required parts may leave out. */
export type Arguments<M extends Method, P extends PathOf<M>> =
  object extends Init<M, P> ? [init?: Init<M, P>] : [init: Init<M, P>];

type Refused<R> = Exclude<keyof R, Success | 304>;
type Refusals<R> = { [S in Refused<R>]: Content<R[S]> }[Refused<R>];
type AnyRefusal = {
  [P in keyof Paths]: { [M in Method]: Refusals<Responses<M, P>> }[Method];
}[keyof Paths];
type CodeIn<R> = R extends { code: infer C extends string } ? C : never;

/** The codes with which an operation may be refused. */
export type CodeOf<M extends Method, P extends PathOf<M>> = CodeIn<Refusals<Responses<M, P>>>;

/** The codes of all refusals. */
export type ProblemCode = CodeIn<AnyRefusal>;

/** A fault of one value of a request. */
export interface FieldError {
  /** The value as a JSON pointer, such as `/PageSize`. */
  field: string;
  code: string;
  /** The fault in the language of the request. */
  message: string;
}

interface ProblemBody<C extends string> {
  type: string;
  /** The problem in the language of the request. */
  title: string;
  status: number;
  /** The next step in the language of the request. */
  detail: string | null;
  instance: string;
  /** The stable name of the problem, for programs. */
  code: C;
  traceId: string | null;
  errors: FieldError[];
}

// The members that a code adds, such as `conferenceId`.
type Additions<C extends string, R = AnyRefusal> =
  R extends { code: infer K } ? [K & C] extends [never] ? never : Omit<R, keyof ProblemBody<C>> : never;

// A response without a problem has no such member.
type Known<A> = [A] extends [never] ? unknown : A;

/** The body of a refusal (RFC 9457). */
export type Problem<C extends string = string> = ProblemBody<C> & (string extends C ? unknown : Known<Additions<C>>);
