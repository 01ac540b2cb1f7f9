// These functions are compiled and never called: each line is a promise of the types.

import type { Body, Client, CodeOf, Data, Init, Item, ProblemCode } from "@platform/api";
import { problem } from "@platform/api";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const yes = <T extends true>(_?: T) => {};

export async function requests(api: Client) {
  const posts = await api.get("/api/v1/posts");
  yes<Equal<typeof posts.TotalCount, number>>();
  const done = await api.put("/api/v1/favorites/{property_object_id}", { path: { property_object_id: "x" } });
  yes<Equal<typeof done, undefined>>();
  await api.post("/api/messenger/conferences/{conference_id}/leave", { path: { conference_id: "x" } });
  await api.post("/api/v1/selections", { body: { Title: "x" }, idempotencyKey: "k" });

  const file = await api.get("/api/v1/crm/exports/deals");
  yes<Equal<typeof file, string | Blob>>();
  const upload = "/api/v1/developers/feed-imports/{feed_import_id}/file";
  const feed = await api.put(upload, { path: { feed_import_id: "x" }, body: new Blob() });
  yes<Equal<typeof feed.Id, string>>();
  // @ts-expect-error A text is no file.
  await api.put(upload, { path: { feed_import_id: "x" }, body: "x" });

  // @ts-expect-error There is no such path.
  await api.get("/api/v1/post");
  // @ts-expect-error The path has no such method.
  await api.delete("/api/v1/posts");
  // @ts-expect-error The path has a parameter.
  await api.get("/api/v1/posts/{post_id}");
  // @ts-expect-error The parameter has another name.
  await api.get("/api/v1/posts/{post_id}", { path: { id: "x" } });
  // @ts-expect-error The list has no such parameter.
  await api.get("/api/v1/posts", { query: { Pages: 2 } });
  // @ts-expect-error The list has no such order.
  await api.get("/api/v1/posts", { query: { Sort: "Size" } });
  await api.get("/api/v1/posts", { query: { Query: undefined } });
  // @ts-expect-error The body is missing.
  await api.post("/api/v1/selections");
  // @ts-expect-error The title is a text.
  await api.post("/api/v1/selections", { body: { Title: 1 } });
  // @ts-expect-error The operation has no body.
  await api.get("/api/v1/posts", { body: {} });
  // @ts-expect-error Only a POST has a key.
  await api.get("/api/v1/posts", { idempotencyKey: "k" });
  const path = { post_id: "x" };
  // @ts-expect-error This POST creates nothing, and accepts no key.
  await api.post("/api/v1/posts/{post_id}/publish", { path, idempotencyKey: "k" });
  // @ts-expect-error Services call the internal operations, and no client does.
  await api.get("/api/v1/internal/users/{user_id}/claims", { path: { user_id: "x" } });
  // @ts-expect-error The stream has a function of its own.
  await api.get("/api/messenger/stream");
  // @ts-expect-error A single entity is no list.
  api.items("/api/v1/posts/{post_id}", { path: { post_id: "x" } });
}

export function problems(error: unknown) {
  if (problem(error, "MESSENGER_CONFERENCE_ALREADY_ACTIVE")) {
    yes<Equal<typeof error.code, "MESSENGER_CONFERENCE_ALREADY_ACTIVE">>();
    const id: string | undefined = error.problem.conferenceId;
    return id;
  }
  if (problem(error, "MESSENGER_CHAT_CLOSED", "MESSENGER_CHAT_LEFT")) {
    yes<Equal<typeof error.code, "MESSENGER_CHAT_CLOSED" | "MESSENGER_CHAT_LEFT">>();
    return error.problem.errors[0]?.field;
  }
  if (problem(error, "HTTP_502", "MESSENGER_CHAT_FULL")) {
    yes<Equal<typeof error.code, "HTTP_502" | "MESSENGER_CHAT_FULL">>();
    return error.problem.title;
  }
  if (problem(error, "HTTP_503")) return error.problem.title;
  // @ts-expect-error There is no such code.
  return problem(error, "MESSENGER_CHAT_CLOSE");
}

const send = "/api/messenger/chats/{chat_id}/messages";

export type Promises = [
  Item<typeof send>["Sequence"],
  Body<"post", typeof send>["Text"],
  Data<"get", typeof send>["HasMore"],
  Init<"post", typeof send>["path"],
];
yes<"MESSENGER_CHAT_CLOSED" extends CodeOf<"post", typeof send> ? true : false>();
yes<"NEWS_POST_NOT_FOUND" extends CodeOf<"post", typeof send> ? false : true>();
yes<string extends ProblemCode ? false : true>();
