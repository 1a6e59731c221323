// What is wrong with the cluster: each problem with its cause, since when, and what to do.
import { html } from "../vendor/preact.js";
import { Time, counted } from "../lib/format.js";
import { sentence } from "../lib/problem.js";

export const HEALTH_PATH = "/api/health";
export const HEALTH_MS = 15_000;
const KINDS = { error: "error", warning: "warning", notice: "" };

/** One line: healthy or not, and how many problems there are. `health` is the answer of /api/health. */
export function HealthState({ health }) {
  const counts = Object.keys(KINDS)
    .map((kind) => [kind, health.each.filter((each) => each.severity === kind).length])
    .filter(([, number]) => number > 0);
  const unseen = health.healthy && health.not_seen.length > 0 ? " as far as it was seen" : "";
  return html`
    <p class="health-state" role="status">
      <span class="tag ${health.healthy ? "ok" : "error"}">${health.healthy ? "✓" : "✗"} ${health.healthy ? "healthy" : "unhealthy"}${unseen}</span>
      ${counts.map(([kind, number]) => html` <span class="tag ${KINDS[kind]}">${counted(number, kind)}</span>`)}
      ${" "}<span class="muted">checked at <${Time} ms=${health.checked_ms} /></span>
    </p>
  `;
}

/** The problems as a list; `problems` is `health.problems` or `health.each`. */
export function Problems({ problems }) {
  return html`
    <ul class="findings">
      ${problems.map(
        (each) => html`
          <li class="card finding" key=${each.check + each.subject}>
            <h3><span class="tag ${KINDS[each.severity]}">${each.severity}</span> ${each.subject}</h3>
            <p>${sentence(each.cause)}</p>
            <p class="muted">Since ${each.since_ms === null ? "an unknown time" : html`<${Time} ms=${each.since_ms} />`} (${each.since_note})</p>
            <p>Next: ${each.next}</p>
          </li>
        `,
      )}
    </ul>
  `;
}
