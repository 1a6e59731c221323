// What the views of groups share.
import { html } from "../vendor/preact.js";
import { count, counted } from "../lib/format.js";

const CLASSES = { Stable: "ok", Empty: "", Dead: "error" };

/** The state of a group as a word, with a colour beside it. */
export function GroupState({ state }) {
  return html`<span class="tag ${CLASSES[state] ?? "warning"}">${state || "unknown"}</span>`;
}

/** How far a group is behind, where it is known; the rest is counted. */
export function GroupLag({ of: { lag, unknown_count, error } }) {
  if (error) return html`<span class="tag warning">not known: ${error}</span>`;
  if (!unknown_count) return count(lag);
  const why = "Nothing is committed there yet, no member of the share group has read there, or the leader does not answer.";
  return html`${count(lag)} <span class="muted" title=${why}>and ${counted(unknown_count, "partition")} not known</span>`;
}

/** The kind of a group; a classic one may have other members than consumers. */
export function kindText({ kind, protocol_type }) {
  const isUsual = !protocol_type || protocol_type === "consumer" || protocol_type === kind;
  return isUsual ? kind : `${kind} (${protocol_type})`;
}
