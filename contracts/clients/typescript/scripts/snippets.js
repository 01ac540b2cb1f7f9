// Makes a test of each page of documentation: snippets/<page>.test.ts runs its blocks from top to
// bottom against the platform at `PLATFORM_URL`. The first `ts` block is the beginning of all
// others. The text of a line `console.log(value); // text` is the expected value.

import { mkdir, readFile, writeFile } from "node:fs/promises";

const PAGES = { clients: "../../../docs/clients.md", readme: "README.md" };
const IMPORT = /^import (type )?\{ (.*) \} from "@platform\/api";\n+/gm;
const LOGGED = /^( *)console\.log\((.*)\); \/\/ (.*)$/gm;

const START = `import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import test from "node:test";
`;
const HELPERS = `
const { PLATFORM_URL = "http://127.0.0.1:8080" } = process.env;
const reached = new Set<string>();

function check(value: unknown, text: string) {
  assert.equal(String(value), text);
  reached.add(text);
}

function run(code: string) {
  execFileSync("bash", ["-euo", "pipefail", "-c", code.replaceAll("http://127.0.0.1:8080", PLATFORM_URL)]);
}
`;

function blocks(page) {
  const found = [];
  let heading = "";
  for (const [, title, language, code] of page.matchAll(/^#+ ([^\n]*)$|^```(\w*)\n(.*?)^```$/gms)) {
    if (title) heading = title;
    else found.push({ name: `${found.length + 1}: ${heading}`, language, code });
  }
  return found;
}

// The statements of a block, with a check of each expected value and of reaching it.
function statements(code) {
  const expected = [...code.matchAll(LOGGED)].map(([, , , text]) => text);
  const checked = code.replaceAll(IMPORT, "").replaceAll('"http://127.0.0.1:8080"', "PLATFORM_URL")
    .replaceAll(LOGGED, (_, space, value, text) => `${space}check(${value}, ${JSON.stringify(text)});`);
  return checked + expected.map((text) => `assert.ok(reached.delete(${JSON.stringify(text)}), "not reached");\n`).join("");
}

function imports(page) {
  const lists = { "": new Set(), "type ": new Set() };
  for (const [, kind = "", list] of page.matchAll(IMPORT)) {
    for (const name of list.split(", ")) lists[kind].add(name);
  }
  const lines = Object.entries(lists).filter(([, names]) => names.size > 0);
  return lines.map(([kind, names]) => `import ${kind}{ ${[...names].join(", ")} } from "@platform/api";\n`).join("");
}

function testOf({ name, language, code }) {
  const body = language === "ts" ? statements(code) : `run(${JSON.stringify(code)});\n`;
  return `\ntest(${JSON.stringify(name)}, async () => {\n${body}});\n`;
}

function render(page) {
  const all = blocks(page);
  const other = all.find(({ language }) => !["ts", "sh"].includes(language));
  if (other) throw new Error(`no test runs the block ${other.name}`);
  const first = all.find(({ language }) => language === "ts");
  const rest = all.filter((block) => block !== first);
  return [START, imports(page), HELPERS, statements(first.code), ...rest.map(testOf)].join("");
}

await mkdir("snippets", { recursive: true });
for (const [name, page] of Object.entries(PAGES)) {
  await writeFile(`snippets/${name}.test.ts`, render(await readFile(page, "utf8")));
}
