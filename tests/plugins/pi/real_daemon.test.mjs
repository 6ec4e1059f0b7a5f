// The plugin in a fake host, with a real daemon that test_plugin.py has started: what is said fits what is heard.

import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import test from "node:test";

import * as our from "../../../zcsyncd/plugins/pi/zcsyncd.js";
import { Host, until } from "./fakes.mjs";

const { ZT_CWD: cwd, ZT_DIR: dir } = process.env;

test("two sessions of one project: a write, its news, a stale write, a fork, a compaction", async (t) => {
  const one = new Host(t, { cwd });
  const other = new Host(t, { cwd });
  other.id = "s-other";
  await one.start();
  await other.start();
  assert.match((await one.prompt())[0].content, /\[A title\]\(old\.md\)/);
  assert.equal((await other.prompt()).length, 1);
  assert.match(await one.tool("memory_read", { name: "old" }), /Body/);
  assert.equal(one.guard[0].contentHash, our.hashOf(fs.readFileSync(path.join(dir, "old.md"))));

  const asked = { name: "told", description: "What is told", type: "project", body: "B" };
  assert.match(await other.tool("memory_write", asked), /Created told\.md; an entry was added/);
  assert.match(fs.readFileSync(path.join(dir, "MEMORY.md"), "utf8"), /- \[told\]\(told\.md\) — What is told/);
  const [news] = await one.prompt();
  assert.equal(news.customType, our.NEWS);
  assert.match(news.content, /told\.md/);
  assert.deepEqual(await one.prompt(), []);
  assert.deepEqual(await other.prompt(), [], "its own write is no news");

  await other.tool("memory_write", { ...asked, name: "old", mode: "upsert" });
  await assert.rejects(one.tool("memory_write", { ...asked, name: "old", mode: "upsert" }), /Read the fact again/);
  await assert.rejects(one.tool("memory_write", { ...asked }), /told/);
  assert.match(await one.tool("memory_list"), /2 facts/);

  one.entries.splice(0);
  await one.fire("session_compact");
  assert.equal((await one.prompt())[0].customType, our.INJECTED);
  await one.fire("tool_call", { toolName: "write", input: { path: path.join(dir, "old.md") } });
  await one.fire("tool_result", { toolName: "read", input: { path: path.join(dir, "old.md") }, details: undefined });
  await one.command("repair");
  await one.command("status");
  await until(() => one.notes.some(([, text]) => /connected[^]*Injection: done/.test(text)), "the status page");
  assert.ok(one.notes.every(([level]) => level !== "error"), JSON.stringify(one.notes));
});
