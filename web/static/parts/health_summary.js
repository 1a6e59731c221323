// The state of the cluster's health in few lines: what is wrong, since when, and what to do.
import { html } from "../vendor/preact.js";
import { Time, plural } from "../lib/format.js";
import { Polled, usePolled } from "../lib/poll.js";
import { pageUrl } from "../lib/router.js";

const EVERY_MS = 15_000;
const SHOWN_COUNT = 5;

export function HealthSummary() {
  const health = usePolled("/api/health", EVERY_MS);
  return html`
    <section class="card" aria-label="Health">
      <${Polled} of=${health}>${(data) => html`<${Summary} data=${data} />`}</>
    </section>
  `;
}

function Summary({ data }) {
  const rest = data.problems.length - SHOWN_COUNT;
  return html`
    <p class="actions">
      ${data.healthy
        ? html`<span class="tag ok">Healthy</span> Every check has passed.`
        : html`<span class="tag error">${plural(data.problems.length, "problem")}</span>`}
      <span class="muted">Checked at <${Time} ms=${data.checked_ms} />. <a href=${pageUrl("/health")}>All checks</a></span>
    </p>
    ${data.problems.length > 0 && html`
      <ul class="problems">
        ${data.problems.slice(0, SHOWN_COUNT).map((each) => html`<${Line} key=${each.check + each.subject} problem=${each} />`)}
      </ul>
    `}
    ${rest > 0 && html`<p><a href=${pageUrl("/health")}>${plural(rest, "more problem", "more problems")}</a></p>`}
  `;
}

const KINDS = { error: "error", warning: "warning", notice: "info" };

function Line({ problem }) {
  return html`
    <li>
      <span class="tag ${KINDS[problem.severity] ?? ""}">${problem.severity}</span> <strong>${problem.subject}</strong>
      <p>${problem.cause}${problem.since_ms !== null && html`, since <${Time} ms=${problem.since_ms} />`}</p>
      ${problem.next && html`<p class="muted">Next: ${problem.next}</p>`}
    </li>
  `;
}
