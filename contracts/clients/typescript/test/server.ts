// An HTTP server whose responses a test decides.

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";

/** A request as it arrived. */
export interface Seen {
  method: string;
  url: string;
  headers: IncomingMessage["headers"];
  body: string;
  bytes: Buffer;
}

/** Answers the request with this number, beginning with 0. */
export type Answer = (response: ServerResponse, request: Seen, number: number) => unknown;

/** Starts a server for one test. Returns its URL and the requests that arrive. */
export async function serve(context: TestContext, answer: Answer): Promise<{ baseUrl: string; seen: Seen[] }> {
  const seen: Seen[] = [];
  const server = createServer(async (incoming, response) => {
    const parts: Buffer[] = [];
    for await (const part of incoming) parts.push(part);
    const bytes = Buffer.concat(parts);
    const { method = "", url = "", headers } = incoming;
    const request = { method, url, headers, body: bytes.toString(), bytes };
    seen.push(request);
    await answer(response, request, seen.length - 1);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen };
}

export function json(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}) {
  response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(JSON.stringify(body));
}

export function refuse(response: ServerResponse, status: number, code: string, headers: Record<string, string> = {}) {
  const body = {
    type: "urn:problem:x", title: "A title", status, detail: null, instance: "/", code, traceId: null, errors: [],
  };
  response.writeHead(status, { "Content-Type": "application/problem+json", ...headers }).end(JSON.stringify(body));
}

/** Closes the connection without a response. */
export const hangUp = (response: ServerResponse) => response.socket?.destroy();
