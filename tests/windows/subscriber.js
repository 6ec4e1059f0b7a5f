// A subscriber without any of our code: finds the pipe by endpoint.json, subscribes, prints each event on a line.
// usage: node subscriber.js ENDPOINT_JSON
const fs = require("fs");
const net = require("net");

const { address } = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const socket = net.connect(address);
const ask = (id, method, params) => socket.write(JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\n");
let unread = "";

socket.setEncoding("utf8");
socket.on("connect", () => {
  ask(1, "hello", { protocol: [1], client: { name: "node", version: process.version, pid: process.pid } });
  ask(2, "events.subscribe", { topics: ["memory/*"] });
});
socket.on("data", (data) => {
  const lines = (unread + data).split("\n");
  unread = lines.pop();
  for (const line of lines) {
    const message = JSON.parse(line);
    if (message.error) throw new Error(line);
    if (message.id === 2) console.log(JSON.stringify({ subscribed: true, platform: process.platform }));
    if (message.method === "event") console.log(JSON.stringify(message.params));
  }
});
socket.on("close", () => console.log(JSON.stringify({ closed: true })));
