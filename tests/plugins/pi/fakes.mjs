// What the plugin meets in the unit tests: a world of files, a daemon and a host, all as small as they can be.

import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";

import plugin, * as our from "../../../zcsyncd/plugins/pi/zcsyncd.js";

/** Wait for a fact, a second at most. */
export async function until(fact, what) {
  for (const deadline = Date.now() + 5_000; Date.now() < deadline; await new Promise((resolve) => setTimeout(resolve, 5))) {
    if (fact()) return;
  }
  assert.fail(`${what} did not come`);
}

/** A home, a project and its memory; everything goes with the test. */
export function world(t, files = {}) {
  const home = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), "zp")));
  t.after(() => fs.rmSync(home, { recursive: true, force: true }));
  const cwd = path.join(home, "code", "app");
  fs.mkdirSync(path.join(cwd, ".pi"), { recursive: true });
  const dir = path.join(home, ".zcode", "cli", "memories", "projects", our.directoryName(cwd).name, "memory");
  const made = { home, cwd, dir, address: path.join(home, "bus.sock") };
  Object.assign(process.env, { HOME: home, ZCSYNCD_SOCKET: made.address });
  for (const name of ["PI_CODING_AGENT_DIR", "ZCODE_STORAGE_DIR", "ZCODE_DATA_BASE_DIR"]) delete process.env[name];
  for (const [name, text] of Object.entries(files)) put(path.join(dir, name), text);
  return made;
}

export function put(file, text) {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, text);
}

export const fact = (name, body = "Body.\n") => `---\nname: ${name}\ndescription: About ${name}\nmetadata:\n  node_type: memory\n  type: user\n---\n\n${body}`;

/** A daemon that says what `answers` say (a value, or a function of the parameters), and remembers what it was asked. */
export class Daemon {
  asked = [];
  sockets = new Set();
  constructor(at, answers = {}) {
    this.at = at;
    this.answers = {
      hello: { protocol: 1, ready: true, dir: at.dir },
      "dirs.resolve": { dir: at.dir, computedDir: at.dir, source: "computed", others: [], warnings: [] },
      "audit.get": { total: 0, findings: [] },
      "events.subscribe": { subscription: 1, cursor: "a:1" },
      "session.news": { token: "t", text: "" },
      ...answers,
    };
  }
  async listen(t) {
    this.server = net.createServer((socket) => this.serve(socket));
    await new Promise((resolve) => this.server.listen(this.at.address, resolve));
    t.after(() => this.close());
    return this;
  }
  serve(socket) {
    this.sockets.add(socket);
    socket.on("error", () => {});
    let rest = "";
    socket.setEncoding("utf8").on("data", (text) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop();
      for (const line of lines) this.answer(socket, JSON.parse(line));
    });
  }
  answer(socket, { id, method, params }) {
    this.asked.push([method, params]);
    if (this.hung) return;
    let answer = this.answers[method] ?? {};
    if (typeof answer === "function") answer = answer(params);
    const told = answer.error ? { error: answer.error } : { result: answer };
    this.write(socket, { jsonrpc: "2.0", id, ...told });
  }
  /** In two halves, in the middle of a character where there is one; one line after the other. */
  write(socket, message) {
    const bytes = Buffer.from(`${JSON.stringify(message)}\n`);
    const at = bytes.findIndex((byte) => byte > 0x7f) + 1 || 5;
    socket.turn = (socket.turn ?? Promise.resolve()).then(async () => {
      socket.write(bytes.subarray(0, at));
      await new Promise((resolve) => setImmediate(resolve));
      socket.write(bytes.subarray(at));
    });
  }
  tell(topic, data) {
    for (const socket of this.sockets) this.write(socket, { jsonrpc: "2.0", method: "event", params: { topic, data, dir: this.at.dir } });
  }
  of(method) {
    return this.asked.filter(([asked]) => asked === method).map(([, params]) => params);
  }
  close() {
    for (const socket of this.sockets) socket.destroy();
    this.sockets.clear();
    return new Promise((resolve) => this.server.close(resolve));
  }
}

/** A host: hooks on one emitter, the extensions' bus on the other. */
export class Host {
  hooks = new EventEmitter();
  events = new EventEmitter();
  tools = new Map();
  commands = new Map();
  sent = [];
  entries = [];
  notes = [];
  status = [];
  guard = [];
  constructor(t, at, { others = [], omp = false } = {}) {
    this.at = at;
    this.ctx = {
      cwd: at.cwd,
      hasUI: true,
      ui: { notify: (text, level) => this.notes.push([level, text]), setStatus: (_key, text) => this.status.push(text) },
      sessionManager: { getSessionId: () => this.id, getBranch: () => this.entries, buildContextEntries: () => this.entries },
    };
    this.id = "s-1";
    this.events.on(our.READ_CHANNEL, (payload) => this.guard.push(payload));
    plugin({
      ...(omp && { zod: {}, logger: {} }),
      events: this.events,
      on: (name, act) => this.hooks.on(name, (event, done) => done.push(act(event, this.ctx))),
      registerTool: (tool) => this.tools.set(tool.name, tool),
      registerCommand: (name, command) => this.commands.set(name, command),
      getAllTools: () => [...others.map((name) => ({ name })), ...this.tools.values()],
      sendMessage: (message, options) => this.sent.push([message, options]),
      appendEntry: (customType, data) => this.entries.push({ type: "custom", customType, data }),
    });
    t.after(() => this.fire("session_shutdown", { reason: "quit" }));
  }
  async fire(name, event = {}) {
    const done = [];
    this.hooks.emit(name, event, done);
    const answers = await Promise.all(done);
    return answers.find((answer) => answer !== undefined);
  }
  start(reason = "startup", more = {}) {
    return this.fire("session_start", { reason, ...more });
  }
  /** The person says something; gives what the plugin puts before the model with it. */
  async prompt(event = { messageType: "user", prompt: "x" }) {
    const answer = await this.fire("before_agent_start", event);
    const messages = [...this.sent.splice(0).map(([message]) => message), ...(answer ? [answer.message] : [])];
    for (const message of messages) {
      this.entries.push({ type: "custom_message", ...message });
      await this.fire("message_start", { message: { role: "custom", ...message } });
    }
    this.entries.push({ type: "message" });
    return messages;
  }
  async tool(name, params = {}) {
    const answer = await this.tools.get(name).execute("id", params, undefined, undefined, this.ctx);
    return answer.content[0].text;
  }
  command(args) {
    return this.commands.get("memory").handler(args, this.ctx);
  }
}
