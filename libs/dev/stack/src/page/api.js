// Calls of the public APIs with the token of the person of this tab.

import { language } from "./i18n.js";
import { token } from "./session.js";

// An error answer of a service, with its text in the language of the page.
export class Refusal extends Error {
  constructor(status, problem) {
    const fields = (problem?.errors ?? []).map((error) => `${error.field}: ${error.message}`);
    super([problem?.detail ?? problem?.title ?? `HTTP ${status}`, ...fields].join("; "));
    this.status = status;
    this.code = problem?.code;
  }
}

export async function headers() {
  const bearer = await token();
  return { "Accept-Language": language, ...(bearer && { Authorization: `Bearer ${bearer}` }) };
}

async function call(method, path, body) {
  const sent = await headers();
  if (body !== undefined) sent["Content-Type"] = "application/json";
  const answer = await fetch(path, { method, headers: sent, body: body && JSON.stringify(body) });
  const text = await answer.text();
  const json = /json/.test(answer.headers.get("content-type") ?? "") && text ? JSON.parse(text) : null;
  if (!answer.ok) throw new Refusal(answer.status, json);
  return json;
}

export const get = (path) => call("GET", path);
export const post = (path, body) => call("POST", path, body);
export const put = (path, body) => call("PUT", path, body);
