// A client of the zcsyncd bus (docs/protocol.md) for Node 20 and later, without dependencies.
//
//     import { Bus, follow } from "./zcsyncd.mjs";
//
//     const bus = await Bus.open();
//     const { dirs } = await bus.call("dirs.list");
//     bus.close();
//
//     const following = follow({ topics: ["memory/*"], onEvent: (event) => … });

import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { homedir } from "node:os";
import { join } from "node:path";

const BACK_OFF_MS = [100, 5_000];
const PULSE_MS = 30_000;
const LINE_CHARACTERS = 1_048_576;

/** What cannot be done now, and why: `word` is the stable word of the protocol, or `no-daemon`. */
export class BusError extends Error {
  constructor(word, message, data = {}) {
    super(message);
    this.name = "BusError";
    this.word = word;
    this.data = data;
  }
}

/** Where the daemon listens: ZCSYNCD_SOCKET, else what a running one wrote down. Throws a BusError when neither tells. */
export function findAddress(env = process.env) {
  if (env.ZCSYNCD_SOCKET) return env.ZCSYNCD_SOCKET;
  const file = join(stateDirectory(env), "endpoint.json");
  try {
    const { address } = JSON.parse(readFileSync(file, "utf8"));
    if (typeof address === "string") return address;
  } catch {
    // Missing, or nonsense: both mean that no daemon has said where it is.
  }
  throw new BusError("no-daemon", `no daemon: there is no ${file}; start one with \`zcsyncd run\``);
}

function stateDirectory(env) {
  const home = env.HOME || homedir();
  if (env.ZCSYNCD_STATE_DIR) return env.ZCSYNCD_STATE_DIR;
  if (process.platform === "win32") return join(env.LOCALAPPDATA || join(home, "AppData", "Local"), "zcsyncd");
  if (process.platform === "darwin") return join(home, "Library", "Application Support", "zcsyncd");
  return join(env.XDG_STATE_HOME || join(home, ".local", "state"), "zcsyncd");
}

/** One connection. Answers come in the order asked; events come between them. */
export class Bus {
  #socket;
  #rest = "";
  #number = 0;
  #waiting = new Map();
  #ended = null;
  #options;

  /**
   * Connect. `onEvent` gets each event's params (what it throws is not caught here), `onEnd` the reason once the
   * connection is gone; `deadlineMs` is how
   * long connecting and each answer may take; with `background` an open connection does not keep the process alive.
   */
  static open({ address = findAddress(), deadlineMs = 2_000, onEvent, onEnd, background = false } = {}) {
    return new Promise((resolve, reject) => {
      const socket = connect(address);
      const timer = setTimeout(() => socket.destroy(new Error(`no answer within ${deadlineMs} ms`)), deadlineMs);
      const failed = (error) => {
        clearTimeout(timer);
        reject(new BusError("no-daemon", `no daemon at ${address}: ${error.message}`));
      };
      socket.once("error", failed);
      socket.once("connect", () => {
        clearTimeout(timer);
        socket.off("error", failed);
        if (background) socket.unref();
        resolve(new Bus(socket, { address, deadlineMs, onEvent, onEnd, background }));
      });
    });
  }

  constructor(socket, options) {
    this.#socket = socket;
    this.#options = options;
    socket.setEncoding("utf8");
    socket.on("data", (text) => this.#take(text));
    socket.on("error", () => {}); // "close" comes after it and tells
    socket.on("close", () => this.#end(new BusError("no-daemon", `the daemon at ${options.address} has hung up`)));
  }

  /** Ask, and give the result. Rejects with a BusError: what the daemon says, or `no-daemon` after the deadline. */
  call(method, params = {}, deadlineMs = this.#options.deadlineMs) {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = ++this.#number;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(id);
        reject(new BusError("no-daemon", `${method}: no answer within ${deadlineMs} ms`));
      }, deadlineMs);
      if (this.#options.background) timer.unref();
      this.#waiting.set(id, { resolve, reject, timer });
      this.#socket.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
    });
  }

  /** Hang up. Twice is harmless. */
  close() {
    this.#socket.destroy();
    this.#end(new BusError("no-daemon", "the connection was closed"));
  }

  #take(text) {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop();
    for (const line of lines) {
      if (this.#ended) return; // an event's handler has closed us
      let message;
      try {
        message = JSON.parse(line);
      } catch {
        return this.#fail("what answers there does not speak our protocol");
      }
      this.#hear(message);
    }
    if (this.#rest.length > LINE_CHARACTERS) this.#fail("it sent a line that never ends");
  }

  #hear(message) {
    if (message.method === "event") {
      this.#options.onEvent?.(message.params);
      return;
    }
    const asked = this.#waiting.get(message.id);
    const error = message.error && new BusError(message.error.data?.code, message.error.message, message.error.data);
    if (asked) {
      this.#waiting.delete(message.id);
      clearTimeout(asked.timer);
      if (error) asked.reject(error);
      else asked.resolve(message.result);
    } else if (error && message.id === null) {
      this.#end(error); // too many connections, say: the daemon hangs up after it
      this.#socket.destroy();
    }
  }

  #fail(why) {
    this.#socket.destroy();
    this.#end(new BusError("no-daemon", `${this.#options.address}: ${why}`));
  }

  #end(error) {
    if (this.#ended) return;
    this.#ended = error;
    for (const { reject, timer } of this.#waiting.values()) {
      clearTimeout(timer);
      reject(error);
    }
    this.#waiting.clear();
    this.#options.onEnd?.(error);
  }
}

/** Errors that end by themselves. */
const AWAY = new Set(["no-daemon", "overloaded", "not-ready"]);

/**
 * Follow events over restarts of the daemon, each once and in order. Gives `{ cursor, close() }`; the cursor, kept and
 * given as `since`, goes on from there. `bus/gap` among the events means: what is known may be old, read it anew.
 * `onAway` hears of each time the daemon is not there, `onError` of what no waiting ends (and then it is over).
 */
export function follow({ topics = ["*"], since, dirs, cwd, session, address, onEvent, onAway, onError, background }) {
  const following = { cursor: since, close };
  let bus = null;
  let timer = null;
  let pauseMs = BACK_OFF_MS[0];
  let closed = false;
  let said = session;

  function close() {
    closed = true;
    clearTimeout(timer);
    bus?.close();
  }

  function later(ms, act) {
    clearTimeout(timer);
    timer = setTimeout(act, ms);
    if (background) timer.unref();
  }

  function lost(error) {
    clearTimeout(timer);
    bus = null;
    if (closed) return;
    if (!AWAY.has(error.word)) {
      close();
      if (onError) onError(error);
      else throw error;
      return;
    }
    later(pauseMs, begin);
    pauseMs = Math.min(pauseMs * 2, BACK_OFF_MS[1]);
    onAway?.(error);
  }

  function told(event) {
    if (closed) return;
    following.cursor = event.cursor;
    later(PULSE_MS, pulse);
    onEvent(event);
  }

  // In quiet times: does it live? Everything up to the ping's cursor has come, so the place moves on.
  function pulse() {
    const asked = bus;
    asked?.call("ping").then(
      ({ cursor }) => {
        if (asked !== bus || closed) return;
        following.cursor = cursor;
        later(PULSE_MS, pulse);
      },
      () => asked.close(),
    );
  }

  async function begin() {
    let made = null;
    try {
      made = await Bus.open({
        address: address ?? findAddress(),
        background,
        onEvent: told,
        onEnd: (error) => made !== null && made === bus && lost(error),
      });
      if (closed) return made.close();
      await made.call("hello", { client: { name: "zcsyncd.mjs" }, ...(said && { session: said }) });
      if (said) said = { ...said, reason: "attach" }; // a session begins once
      const asked = { topics, dirs, cwd, since: following.cursor };
      const { cursor } = await made.call("events.subscribe", asked);
      // A `since` stays until an event has come: a gap that is on its way would be lost otherwise.
      following.cursor ??= cursor;
      if (closed) return made.close();
      bus = made;
      pauseMs = BACK_OFF_MS[0];
      later(PULSE_MS, pulse);
    } catch (error) {
      made?.close();
      lost(error);
    }
  }

  begin();
  return following;
}
