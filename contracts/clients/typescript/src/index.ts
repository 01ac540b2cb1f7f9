export { createClient, type Client } from "./client.js";
export { problem, ProblemError } from "./problem.js";
export type { StreamEvent, StreamOptions } from "./stream.js";
export type { ClientOptions } from "./transport.js";
export type {
  Body, CodeOf, Data, FieldError, FileBody, Init, Item, ListPath, Method, PathOf, Paths, Problem, ProblemCode, Query,
  RequestOptions,
} from "./types.js";
