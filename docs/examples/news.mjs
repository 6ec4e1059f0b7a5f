// What a session has missed, as a hook of a host tells it: prints the text for the model, or nothing.
//
//     node news.mjs HOST ID CWD [REASON]

import { Bus } from "./zcsyncd.mjs";

const [host, id, cwd, reason = "attach"] = process.argv.slice(2);

let bus;
try {
  // A hook must not keep its host waiting: one short deadline for everything.
  bus = await Bus.open({ deadlineMs: 250 });
  await bus.call("hello", { client: { name: "news.mjs" }, session: { host, id, cwd, reason } });
  const { text, token } = await bus.call("session.news");
  if (text) {
    process.stdout.write(`${text}\n`);
    // Here the text has gone out. A hook whose output may still be lost confirms with its next call instead.
    await bus.call("session.confirm", { token, told: true });
  }
} catch {
  // Without a daemon the host works on; it can be told once per session.
} finally {
  bus?.close(); // an open socket would keep Node running
}
