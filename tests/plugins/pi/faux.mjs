// An extension for tests: a model that calls the tools that the prompt names, and a log of all that it was given.
//
// A prompt `CALL [["memory_read", {"name": "a"}], …]` makes it call these, one after the other; any other is answered.
// Each request is one line of ZT_LOG: {"model": [messages]}; each read that the guard's channel tells, {"guard": …}.

import { appendFileSync } from "node:fs";
import { fauxAssistantMessage, fauxProvider, fauxToolCall } from "@earendil-works/pi-ai";

const note = (what) => appendFileSync(process.env.ZT_LOG, `${JSON.stringify(what)}\n`);
const textOf = ({ content }) => (typeof content === "string" ? content : content.map((part) => part.text ?? "").join(""));

function answer(context) {
  note({ model: context.messages.filter(({ role }) => role !== "system") });
  const prompt = context.messages.findLastIndex((message) => message.role === "user" && textOf(message).startsWith("CALL "));
  const last = context.messages.findLastIndex((message) => message.role === "user" && !textOf(message).startsWith("["));
  if (prompt < 0 || last > prompt) return fauxAssistantMessage("done");
  const done = context.messages.slice(prompt).filter((message) => message.role === "toolResult").length;
  const calls = JSON.parse(textOf(context.messages[prompt]).slice("CALL ".length));
  if (done >= calls.length) return fauxAssistantMessage("done");
  return fauxAssistantMessage([fauxToolCall(...calls[done])], { stopReason: "toolUse" });
}

export default function (pi) {
  const faux = fauxProvider({ provider: "faux", models: [{ id: "faux-1", contextWindow: 100_000 }] });
  faux.setResponses(Array.from({ length: 500 }, () => answer));
  pi.registerProvider(faux.provider);
  pi.events.on("read-guard/file-read", (payload) => note({ guard: payload }));
  pi.registerCommand("again", { description: "reload", handler: (_args, ctx) => ctx.reload() });
  if (process.env.ZT_OTHER_MEMORY) {
    const parameters = { type: "object", properties: {} };
    const execute = async () => ({ content: [{ type: "text", text: "of the other plugin" }], details: {} });
    pi.registerTool({ name: "memory_list", label: "other", description: "of another plugin", parameters, execute });
  }
  for (const name of ["tool_result", "session_start", "session_compact", "session_shutdown"]) {
    pi.on(name, (event) => note({ [name]: { tool: event.toolName, reason: event.reason, isError: event.isError } }));
  }
}
