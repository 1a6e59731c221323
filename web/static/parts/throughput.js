// What is written to a topic, or to the whole cluster, in the last hour; and how fast brokers respond, where their metrics are named.
import { html } from "../vendor/preact.js";
import { LastHour } from "./history.js";

/** `topic` is a name; without one it is about all topics that the reader may see. */
export function Throughput({ topic = "" }) {
  const linesOf = (lines) => lines.map((line) => ({ label: line.name || topic || "all topics", values: line.values }));
  return html`<${LastHour} query=${topic ? { topic } : {}} measures=${["records"]} linesOf=${linesOf} />`;
}
