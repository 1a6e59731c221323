// How far a group is behind, in the last hour: all its topics together, and those that are the furthest behind.
import { html } from "../vendor/preact.js";
import { LastHour } from "./history.js";

const TOPICS_SHOWN = 5;

export function Lag({ group }) {
  return html`<${LastHour} query=${{ group }} measures=${["lag"]} linesOf=${shownLines} />`;
}

/** A group with one topic has one line: its sum says the same. */
function shownLines(lines) {
  const topics = lines.filter((line) => line.name);
  if (topics.length <= 1) return topics.map(labelled);
  const last = (line) => line.values.findLast((value) => value !== null) ?? 0;
  const furthest = [...topics].sort((one, other) => last(other) - last(one)).slice(0, TOPICS_SHOWN);
  return [...lines.filter((line) => !line.name), ...furthest].map(labelled);
}

const labelled = ({ name, values }) => ({ label: name || "all topics", values });
