// The plugin on Node's own test runner: a fake host of two emitters, a fake daemon on a real socket, real files.

import assert from "node:assert/strict";
import fs from "node:fs";
import net from "node:net";
import path from "node:path";
import test from "node:test";

import * as our from "../../../zcsyncd/plugins/pi/zcsyncd.js";
import { Daemon, Host, fact, put, until, world } from "./fakes.mjs";

const VECTORS = path.join(import.meta.dirname, "..", "..", "vectors");

const index = (text, hash = our.hashOf(text)) => ({ text, truncated: false, lines: 1, units: text.length, textHash: hash });

test("a fresh session starts, is given the index once, and says so", async (t) => {
  const at = world(t, { "MEMORY.md": "- [a](a.md) — é\n" });
  const daemon = await new Daemon(at, { "memory.index": index("- [a](a.md) — é") }).listen(t);
  const host = new Host(t, at);
  await host.start();
  const [message] = await host.prompt();
  assert.equal(message.customType, our.INJECTED);
  assert.equal(message.display, false);
  assert.match(message.content, /memory_read/);
  assert.match(message.content, /- \[a\]\(a\.md\) — é$/);
  assert.deepEqual(await host.prompt(), []);
  assert.deepEqual(daemon.of("hello").map(({ session }) => session.reason), ["start", "start"]);
  assert.equal(daemon.of("hello")[0].session.host, "pi");
  assert.deepEqual(host.status.slice(-1), ["memory: ok"]);
});

test("a run that an extension started is given nothing", async (t) => {
  const at = world(t, { "MEMORY.md": "- [a](a.md)\n" });
  const host = new Host(t, at);
  await host.start();
  assert.deepEqual(await host.prompt({ messageType: "custom", message: {} }), []);
});

test("news goes with the person's prompt, is confirmed when the host has taken it, and the index does not come again", async (t) => {
  const at = world(t, { "MEMORY.md": "- [a](a.md)\n" });
  const daemon = await new Daemon(at, { "memory.index": index("one") }).listen(t);
  const host = new Host(t, at);
  await host.start();
  await host.prompt();
  daemon.answers["memory.index"] = index("two");
  daemon.answers["session.news"] = { token: "t1", text: "what is new" };
  await host.fire("before_agent_start", { messageType: "user" });
  assert.deepEqual(host.sent.map(([, options]) => options), [{ deliverAs: "nextTurn" }]);
  assert.deepEqual(daemon.of("session.confirm"), []);
  const [[message]] = host.sent;
  assert.equal(message.content, "what is new");
  await host.fire("message_start", { message: { role: "custom", ...message } });
  assert.deepEqual(daemon.of("session.confirm"), [{ token: "t1", told: true }]);
});

test("in omp, which has taken what waits before the hook, the news is the hook's answer", async (t) => {
  const at = world(t, { "MEMORY.md": "- [a](a.md)\n" });
  const daemon = await new Daemon(at, { "memory.index": index("one") }).listen(t);
  const host = new Host(t, at, { omp: true });
  await host.start();
  await host.prompt();
  daemon.answers["session.news"] = { token: "t1", text: "what is new" };
  const answer = await host.fire("before_agent_start", { prompt: "x" });
  assert.equal(answer.message.content, "what is new");
  assert.deepEqual(host.sent, []);
  assert.equal(daemon.of("hello")[0].session.host, "omp");
});

test("with news switched off a changed index comes again", async (t) => {
  const at = world(t, { "MEMORY.md": "- [a](a.md)\n" });
  put(path.join(at.cwd, ".pi", "zcode-memory.json"), '{"news": false}');
  const daemon = await new Daemon(at, { "memory.index": index("one") }).listen(t);
  const host = new Host(t, at);
  await host.start();
  await host.prompt();
  assert.deepEqual(await host.prompt(), []);
  daemon.answers["memory.index"] = index("two");
  assert.match((await host.prompt())[0].content, /two$/);
  assert.deepEqual(daemon.of("session.news"), []);
});

test("enabled false: the tools stay, nothing is injected; injectIndex false: news only", async (t) => {
  const at = world(t, { "MEMORY.md": "- [a](a.md)\n" });
  await new Daemon(at, { "session.news": { token: "t", text: "news" } }).listen(t);
  const settings = path.join(at.home, ".pi", "agent", "extensions", "zcode-memory.json");
  put(settings, '{"enabled": false}');
  const host = new Host(t, at);
  await host.start();
  assert.deepEqual(await host.prompt(), []);
  assert.equal(host.tools.size, 3);
  put(settings, '{"injectIndex": false}');
  await host.start("reload");
  assert.deepEqual((await host.prompt()).map((message) => message.content), ["news"]);
});

test("after a compaction that took the index away it comes again, and the daemon hears compact, then start", async (t) => {
  const at = world(t, { "MEMORY.md": "- [a](a.md)\n" });
  const daemon = await new Daemon(at, { "memory.index": index("one") }).listen(t);
  const host = new Host(t, at);
  await host.start();
  await host.prompt();
  host.entries.splice(0);
  await host.fire("session_compact", {});
  assert.equal((await host.prompt()).length, 1);
  assert.deepEqual(daemon.of("hello").map(({ session }) => session.reason), ["start", "start", "compact", "start"]);
});

test("a fork names its parent; reload and resume attach; the marker is found again", async (t) => {
  const at = world(t, { "MEMORY.md": "- [a](a.md)\n" });
  const daemon = await new Daemon(at, { "memory.index": index("one") }).listen(t);
  const host = new Host(t, at);
  await host.start();
  await host.prompt();
  put(path.join(at.home, "parent.jsonl"), '{"type":"session","id":"s-1"}\n');
  host.id = "s-2";
  await host.start("fork", { previousSessionFile: path.join(at.home, "parent.jsonl") });
  assert.deepEqual(await host.prompt(), []);
  await host.start("reload");
  const said = daemon.of("hello").slice(2).map(({ session }) => [session.id, session.reason, session.parent]);
  assert.deepEqual(said, [["s-2", "fork", "s-1"], ["s-2", "attach", undefined]]);
});

test("an entry of the plugin that was here before counts as the index", () => {
  const manager = { buildContextEntries: () => [{ type: "custom", customType: our.INJECTED, data: { hash: "abc" } }] };
  assert.equal(our.findMarker(manager), "abc");
  const compacted = [
    { id: "1", type: "custom_message", customType: our.INJECTED, details: { hash: "abc" } },
    { id: "2", type: "message" },
    { id: "3", type: "compaction", firstKeptEntryId: "2" },
  ];
  assert.equal(our.findMarker({ getBranch: () => compacted }), null);
});

test("reads are told to the guard before the tool returns, whole ones with a hash, cut ones without", async (t) => {
  const at = world(t, { "MEMORY.md": "x\n" });
  const told = { file: "a.md", absolutePath: path.join(at.dir, "a.md"), name: "a", description: "d", type: "user", body: "B", truncated: null, mtimeMs: 5, sizeBytes: 6, contentHash: "cc" };
  const daemon = await new Daemon(at, { "memory.read": (asked) => ({ ...told, truncated: asked.name === "b" ? "lines" : null, restLine: 9 }) }).listen(t);
  const host = new Host(t, at);
  await host.start();
  assert.match(await host.tool("memory_read", { name: "a" }), /B$/);
  assert.match(await host.tool("memory_read", { name: "b" }), /from line 9/);
  const state = { absolutePath: told.absolutePath, mtimeMs: 5, sizeBytes: 6 };
  assert.deepEqual(host.guard, [{ ...state, kind: "full", contentHash: "cc" }, { ...state, kind: "truncated" }]);
  daemon.tell("memory/changed", { changes: [{ kind: "updated", file: "a.md" }] });
  daemon.tell("memory/audit", { appeared: [{ key: "k", severity: "error", message: "M" }], cleared: [] });
  await until(() => host.notes.some(([level]) => level === "error"), "the alarm");
  assert.equal(host.guard.length, 2);
});

test("a listener of the guard's channel that throws hurts nobody", async (t) => {
  const at = world(t, { "MEMORY.md": "x\n", "a.md": fact("a") });
  const host = new Host(t, at);
  host.events.on(our.READ_CHANNEL, () => {
    throw new Error("ctx is stale");
  });
  await host.start();
  assert.match(await host.tool("memory_read", { name: "a" }), /Body/);
});

test("how much the host's read tool showed, from input and details alike", () => {
  const cases = [
    [{}, undefined, null, "full"],
    [{ offset: 1 }, {}, null, "full"],
    [{ limit: 5 }, undefined, null, "partial"],
    [{ offset: 2 }, undefined, null, "partial"],
    [{}, { truncation: { truncated: true } }, null, "truncated"],
    [{}, { truncation: { truncated: false } }, null, "full"],
    [{}, {}, "1-20", "partial"],
    [{}, { summary: { lines: 3 } }, null, "partial"],
  ];
  for (const [input, details, selector, kind] of cases) assert.equal(our.readKind(input, details, selector), kind);
});

test("the host's own reads and writes below memory are reported, an intent goes before a write, all else is left alone", async (t) => {
  const at = world(t, { "MEMORY.md": "x\n", "a.md": fact("a") });
  const daemon = await new Daemon(at, { "write.intent": { stale: true, conflicts: [] } }).listen(t);
  const host = new Host(t, at);
  await host.start();
  const file = path.join(at.dir, "a.md");
  await host.fire("tool_call", { toolName: "edit", input: { path: file } });
  await host.fire("tool_result", { toolName: "edit", input: { path: file } });
  await host.fire("tool_result", { toolName: "read", input: { path: `~/${path.relative(at.home, file)}`, limit: 2 } });
  await host.fire("tool_result", { toolName: "read", input: { path: path.join(at.cwd, "README.md") } });
  await host.fire("tool_result", { toolName: "read", input: { path: file }, isError: true });
  assert.deepEqual(daemon.of("write.intent"), [{ path: file }]);
  assert.deepEqual(daemon.of("readState.report").map(({ path: name, kind, contentHash }) => [name, kind, Boolean(contentHash)]), [
    [file, "full", true],
    [file, "partial", false],
  ]);
  assert.deepEqual(host.guard, []);
  assert.ok(host.notes.some(([, text]) => text.includes("has changed since")));
});

test("an error is notified once per key; those that were there are only counted", async (t) => {
  const at = world(t, { "MEMORY.md": "x\n" });
  const old = { key: "old", severity: "error", message: "Old" };
  const daemon = await new Daemon(at, { "audit.get": { total: 1, findings: [old] } }).listen(t);
  const host = new Host(t, at);
  await host.start();
  await until(() => host.status.at(-1) === "memory: 1 error", "the count");
  const appeared = [old, { key: "new", severity: "error", message: "New" }, { key: "w", severity: "warning", message: "W" }, { key: "p", severity: "error", message: "P", pending: true }];
  daemon.tell("memory/audit", { appeared, cleared: [] });
  daemon.tell("memory/audit", { appeared: [], cleared: [{ key: "new" }, old] });
  daemon.tell("memory/audit", { appeared, cleared: [] });
  daemon.tell("memory/audit", { appeared: [], cleared: appeared });
  await until(() => host.status.at(-1) === "memory: ok" && host.status.length > 5, "the end of it");
  assert.deepEqual(host.notes.filter(([level]) => level === "error"), [["error", "Memory: New"]]);
});

test("no daemon: told once, the index and facts come from the disk, a write is refused with the reason", async (t) => {
  const at = world(t, { "MEMORY.md": "- [a](a.md)\n", "a.md": fact("a"), "sub/b.md": fact("b", "x\n".repeat(300)) });
  const host = new Host(t, at);
  await host.start();
  assert.equal((await host.prompt()).length, 1);
  assert.deepEqual(await host.prompt(), []);
  assert.match(await host.tool("memory_list"), /2 facts[^]*- a \(a\.md\) \[user\]: About a/);
  assert.match(await host.tool("memory_read", { name: "b" }), /Cut here/);
  assert.deepEqual(host.guard.map(({ kind }) => kind), ["truncated"]);
  await assert.rejects(host.tool("memory_write", { name: "n", description: "d", type: "user", body: "b" }), /Nothing was written/);
  await assert.rejects(host.tool("memory_read", { name: "none" }), /memory_list/);
  assert.equal(host.notes.filter(([, text]) => text.includes("not running")).length, 1);
  put(path.join(at.dir, "MEMORY.md"), "- [z](z.md)\n");
  assert.match((await host.prompt())[0].content, /z\.md/);
});

test("a hung daemon costs no more than the deadline, and a daemon that comes back is found", async (t) => {
  const at = world(t, { "MEMORY.md": "- [a](a.md)\n", "a.md": fact("a") });
  const daemon = await new Daemon(at, { "memory.index": index("one") }).listen(t);
  const host = new Host(t, at);
  await host.start();
  daemon.hung = true;
  const began = Date.now();
  assert.equal((await host.prompt()).length, 1);
  assert.ok(Date.now() - began < 4 * our.DEADLINE_MS, "the prompt waits");
  await until(() => host.status.at(-1) === "memory: no daemon", "its absence");
  daemon.hung = false;
  await until(() => host.status.at(-1) === "memory: ok", "its return");
  assert.equal(daemon.of("hello").at(-1).session.reason, "start", "what could not be said is said");
});

test("after the end nothing is heard, twice is harmless, and a stale context is not touched", async (t) => {
  const at = world(t, { "MEMORY.md": "x\n" });
  const daemon = await new Daemon(at).listen(t);
  const host = new Host(t, at);
  await host.start();
  await until(() => daemon.of("audit.get").length, "the connection");
  await host.fire("session_shutdown");
  await host.fire("session_shutdown");
  for (const name of ["ui", "cwd", "sessionManager"]) {
    Object.defineProperty(host.ctx, name, { get: () => assert.fail("ctx is stale") });
  }
  daemon.tell("memory/audit", { appeared: [{ key: "k", severity: "error", message: "M" }], cleared: [] });
  await until(() => [...daemon.sockets].every((socket) => socket.destroyed || socket.readableEnded), "the hang-up");
  assert.deepEqual(host.notes, []);
});

test("what answers nonsense is no daemon", async (t) => {
  const at = world(t, { "MEMORY.md": "- [a](a.md)\n" });
  const server = net.createServer((socket) => socket.on("error", () => {}).end("HTTP/1.1 400\r\n\r\nnull\n"));
  await new Promise((resolve) => server.listen(at.address, resolve));
  t.after(() => server.close());
  const host = new Host(t, at);
  await host.start();
  assert.equal(host.status.at(-1), "memory: no daemon");
  assert.equal((await host.prompt()).length, 1);
});

test("another plugin's memory tools: ours stay away, events and alarms remain", async (t) => {
  const at = world(t, { "MEMORY.md": "- [a](a.md)\n" });
  const daemon = await new Daemon(at).listen(t);
  const host = new Host(t, at, { others: ["memory_write"] });
  await host.start();
  assert.equal(host.tools.size + host.commands.size, 0);
  assert.deepEqual(await host.prompt(), []);
  daemon.tell("memory/audit", { appeared: [{ key: "k", severity: "error", message: "M" }], cleared: [] });
  await until(() => host.notes.length === 1, "the alarm");
});

test("memory_write says what became of it, and a conflict says what to do", async (t) => {
  const at = world(t, { "MEMORY.md": "x\n" });
  const told = { file: "n.md", absolutePath: path.join(at.dir, "n.md"), action: "created", index: "inserted", revision: "r" };
  const daemon = await new Daemon(at, { "memory.write": told }).listen(t);
  const host = new Host(t, at);
  await host.start();
  const asked = { name: "n", description: "d", type: "user", body: "b" };
  assert.match(await host.tool("memory_write", asked), /Created n\.md; an entry was added/);
  assert.deepEqual(daemon.of("memory.write"), [{ ...asked, mode: "create" }]);
  daemon.answers["memory.write"] = { error: { code: -32002, message: "it changed", data: { code: "revision-conflict", hint: "look" } } };
  await assert.rejects(host.tool("memory_write", asked), /it changed\. Read the fact again with memory_read.* look/);
});

test("/memory: status, reload, repair as a dry run, and the usage for all else", async (t) => {
  const at = world(t, { "MEMORY.md": "- [gone](gone.md)\n", "a.md": fact("a") });
  const repair = { diff: "--- a\n+++ b", fixes: [{ does: "mends it" }], applied: false };
  const daemon = await new Daemon(at, { "memory.index": index("one"), "memory.repair": repair }).listen(t);
  const host = new Host(t, at);
  await host.start();
  await host.prompt();
  for (const word of ["", "reload", "repair", "nonsense"]) await host.command(word);
  const [status, reload, mend, usage] = host.notes.map(([, text]) => text);
  assert.match(status, /connected[^]*computed for this[^]*without a file: 1 \(gone\.md\); files without an entry: 1 \(a\.md\)[^]*Injection: done, hash/);
  assert.match(reload, /next prompt/);
  assert.match(mend, /nothing was changed[^]*mends it[^]*\+\+\+ b/);
  assert.deepEqual(daemon.of("memory.repair"), [{ apply: false }]);
  assert.match(usage, /^Usage/);
  assert.equal((await host.prompt()).length, 1, "the index comes again");
});

test("settings: the project's over the global ones, broken ones told and passed over, a dir outside not followed", async (t) => {
  const at = world(t);
  const file = path.join(at.home, ".pi", "agent", "extensions", "zcode-memory.json");
  put(file, '{"injectIndex": false, "dir": "/all"}');
  put(path.join(at.cwd, ".pi", "zcode-memory.json"), '{"dir": "mine"}');
  assert.equal(our.readSettings(at.cwd).dir, path.join(at.cwd, "mine"));
  assert.equal(our.readSettings(at.cwd).injectIndex, false);
  assert.equal(our.readSettings(at.cwd, false).dir, path.resolve("/all"));
  assert.equal(our.resolveDirectory(at.cwd, our.readSettings(at.cwd)).source, "config");
  put(path.join(at.cwd, ".pi", "zcode-memory.json"), '{"dir": "/etc"}');
  const away = our.resolveDirectory(at.cwd, our.readSettings(at.cwd));
  assert.deepEqual([away.dir, away.warnings.length], [null, 1]);
  put(file, "{");
  assert.deepEqual(our.readSettings(at.cwd).broken, [file]);
});

/** What these indexes look like needs ZCode's own Markdown parser, or is decoded by rules that the daemon has: there it is right. */
const LEFT_TO_THE_DAEMON = ["lone-cr-comment", "comment-in-list", "comment-ordered", "comment-in-html", "comment-degenerate-open", "comment-nested-list"];

function bytesOf({ parts, b64 }) {
  if (b64 !== undefined) return Buffer.from(b64, "base64");
  const text = (part) => (typeof part === "string" ? part : Array.from({ length: part.repeat }, (_, at) => part.t.replaceAll("{n}", String(at + (part.start ?? 1)))).join(""));
  return Buffer.from(parts.map(text).join(""));
}

test("what the index looks like is what ZCode makes of it, for every vector", () => {
  const { cases } = JSON.parse(fs.readFileSync(path.join(VECTORS, "index_injection.json"), "utf8"));
  const wrong = [];
  for (const one of cases.filter(({ outputSha256 }) => outputSha256)) {
    const source = our.decode(bytesOf(one));
    const { text } = our.formatIndex(source ?? "");
    if (our.hashOf(text) !== one.outputSha256) wrong.push(one.id);
  }
  assert.deepEqual(wrong.filter((id) => !LEFT_TO_THE_DAEMON.includes(id.replace(/\/.*/, ""))), []);
});

test("directories are named as ZCode names them, for every vector", () => {
  const { cases } = JSON.parse(fs.readFileSync(path.join(VECTORS, "paths.json"), "utf8"));
  const told = cases.filter(({ platform, cwd, workspaceIdentity, dirName }) => dirName && !workspaceIdentity && (platform === "win32" ? /^[A-Za-z]:\\/ : /^\//).test(cwd));
  for (const { platform, cwd, dirName } of told) assert.equal(our.directoryName(cwd, platform).name, dirName, cwd);
  assert.ok(told.length > 20, "there are vectors");
});
