// Prints what happens to facts and indexes, over restarts of the daemon, until interrupted.
//
//     node follow.mjs [CURSOR]      goes on after CURSOR, which the last line told

import { follow } from "./zcsyncd.mjs";

const following = follow({
  topics: ["memory/*"],
  since: process.argv[2],
  onAway: (error) => console.error(`waiting: ${error.message}`),
  onEvent: ({ topic, dir, data }) => {
    if (topic === "bus/gap") console.log("some events are gone: read anew what you rely on");
    for (const { kind, file } of data.changes ?? []) console.log(`${kind} ${file} in ${dir}`);
    for (const { severity, message } of data.appeared ?? []) console.log(`${severity}: ${message}`);
  },
});

for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => {
    following.close();
    console.log(`go on with ${following.cursor}`);
  });
}
