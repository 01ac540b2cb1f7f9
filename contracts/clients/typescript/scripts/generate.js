// Writes src/generated from the OpenAPI documents: the types of each service, and the list of
// creations that accept an `Idempotency-Key`.

import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import openapiTS, { astToString } from "openapi-typescript";
import { parse } from "yaml";

const services = (await readdir(new URL("../../../../services/", import.meta.url))).sort();
const documents = new URL("../../../openapi/", import.meta.url);
const target = new URL("../src/generated/", import.meta.url);

// Operations that users and guests cannot call.
const isPublic = (path) => !path.startsWith("/api/v1/internal/") && !path.includes("/webhooks/");

// Removes the examples, which are most of the text and no help in an editor.
function withoutExamples(value) {
  if (Array.isArray(value)) return value.map(withoutExamples);
  if (value === null || typeof value !== "object") return value;
  const kept = Object.entries(value).filter(([name, inner]) => !isExample(name, inner));
  return Object.fromEntries(kept.map(([name, inner]) => [name, withoutExamples(inner)]));
}

// A property of a schema may have the name `example`, and then it is a schema itself.
function isExample(name, value) {
  if (name === "examples") return true;
  return name === "example" && !(value !== null && typeof value === "object" && "type" in value);
}

const resolve = (document, { $ref, ...value }) =>
  $ref ? $ref.split("/").slice(1).reduce((inner, name) => inner[name], document) : value;

function repeatable(document) {
  const posts = Object.entries(document.paths).filter(([, item]) => item.post);
  const accepts = ({ parameters = [] }) =>
    parameters.some((parameter) => resolve(document, parameter).name === "Idempotency-Key");
  return posts.filter(([, { post }]) => accepts(post)).map(([path]) => path);
}

await rm(target, { recursive: true, force: true });
await mkdir(target, { recursive: true });
const keyed = [];
for (const service of services) {
  const document = withoutExamples(parse(await readFile(new URL(`${service}.yaml`, documents), "utf8")));
  document.paths = Object.fromEntries(Object.entries(document.paths).filter(([path]) => isPublic(path)));
  const types = await openapiTS(document, { defaultNonNullable: false, silent: true });
  await writeFile(new URL(`${service}.ts`, target), astToString(types));
  keyed.push(...repeatable(document));
}

const imports = services.map((service) => `import type { paths as ${service} } from "./${service}.js";`);
await writeFile(new URL("paths.ts", target), `${imports.join("\n")}

/** The paths of all services. */
export interface Paths extends ${services.join(", ")} {}
`);
await writeFile(new URL("repeatable.ts", target), `/** The paths whose \`POST\` accepts an \`Idempotency-Key\`. */
export const REPEATABLE: ReadonlySet<string> = new Set([
${keyed.sort().map((path) => `  ${JSON.stringify(path)},`).join("\n")}
]);
`);
