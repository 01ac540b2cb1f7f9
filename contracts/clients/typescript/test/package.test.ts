import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import test from "node:test";

const LICENSES = ["Apache-2.0", "ISC", "MIT", "(MIT OR CC0-1.0)", "Python-2.0"];

const read = async (file: string) => JSON.parse(await readFile(file, "utf8"));

test("package_has_no_runtime_dependencies", async () => {
  const { dependencies, peerDependencies } = await read("package.json");
  assert.deepEqual([dependencies, peerDependencies], [undefined, undefined]);
});

test("tools_have_permissive_licenses", async () => {
  const { packages } = await read("package-lock.json");
  for (const [name, { license }] of Object.entries<{ license?: string }>(packages)) {
    assert.ok(LICENSES.includes(license ?? ""), `${name}: ${license}`);
  }
});

// `AbortSignal.any` has been in Node since this version.
test("oldest_node_has_what_the_client_calls", async () => {
  assert.equal((await read("package.json")).engines.node, ">=20.3");
});
