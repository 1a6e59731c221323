// Whether a topic or a broker has all replicas that it should have, in words.
import { html } from "../vendor/preact.js";
import { plural } from "../lib/format.js";

/** `behind`: partitions without all replicas in sync; `leaderless`: partitions that nobody can read or write. */
export function ReplicaState({ behind, leaderless = 0 }) {
  if (leaderless) return html`<span class="tag error">${plural(leaderless, "partition")} without leader</span>`;
  if (behind) return html`<span class="tag warning">${plural(behind, "partition")} not in sync</span>`;
  return html`<span class="tag ok">in sync</span>`;
}

/** What could not be looked at, and why. */
export function Notes({ notes }) {
  return notes.map((note) => html`<p class="note" key=${note}>${note}</p>`);
}
