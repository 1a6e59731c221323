// The health of the cluster: what is wrong, since when, and what to do.
import { html } from "../vendor/preact.js";
import { counted } from "../lib/format.js";
import { Polled, usePolled } from "../lib/poll.js";
import { useQuery } from "../lib/router.js";
import { HEALTH_MS, HEALTH_PATH, HealthState, Problems } from "../parts/health.js";

export function Health() {
  const health = usePolled(HEALTH_PATH, HEALTH_MS);
  return html`<${Polled} of=${health}>${(data) => html`<${Checked} health=${data} refresh=${health.refresh} />`}</>`;
}

function Checked({ health, refresh }) {
  const [query, change] = useQuery();
  const isEach = query.each === "true";
  const shown = isEach ? health.each : health.problems;
  const hasMore = health.each.length > health.problems.length;
  return html`
    <${HealthState} health=${health} />
    <p class="muted">
      Cluster ${health.cluster_id}, ${counted(health.brokers.length, "broker")}, controller ${health.controller ?? "none"}, ${counted(health.partitions_count, "partition")}.
    </p>
    <p class="actions">
      <button type="button" onClick=${() => refresh()}>Check again</button>
      ${hasMore &&
      html`<button type="button" aria-pressed=${String(isEach)} onClick=${() => change({ each: isEach ? null : "true" })}>One by one</button>`}
    </p>
    ${shown.length === 0 && html`<p>Nothing is wrong.</p>`}
    <${Problems} problems=${shown} />
    ${health.not_seen.length > 0 &&
    html`<h2>Not seen</h2>
      <ul>${health.not_seen.map((each) => html`<li>${each}</li>`)}</ul>`}
  `;
}
