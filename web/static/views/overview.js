// The first view: how the cluster is, how much there is, and what is written to it.
import { html } from "../vendor/preact.js";
import { bytes, count, plural } from "../lib/format.js";
import { Polled, usePolled } from "../lib/poll.js";
import { pageUrl } from "../lib/router.js";
import { HealthSummary } from "../parts/health_summary.js";
import { Notes } from "../parts/state.js";
import { Throughput } from "../parts/throughput.js";

const EVERY_MS = 5000;

export function Overview() {
  const brokers = usePolled("/api/brokers", EVERY_MS);
  // What comes later is within an element that is there from the beginning, so that it stays in its place.
  return html`
    <p class="above muted">Cluster <code>${brokers.data?.cluster_id ?? "…"}</code></p>
    <${HealthSummary} />
    <div><${Polled} of=${brokers}>${(data) => html`<${Figures} data=${data} />`}</></div>
    <div><${Throughput} /></div>
  `;
}

function Figures({ data }) {
  const sizes = data.brokers.map((each) => each.size_bytes).filter((each) => each !== null);
  const { replicas, behind } = data;
  const controller = data.brokers.find((each) => each.is_controller);
  const size = sizes.length ? sizes.reduce((sum, each) => sum + each, 0) : null;
  return html`
    <div class="cards">
      <${Figure} name="Brokers" value=${count(data.brokers.length)} href="/brokers"
        note=${data.missing.length ? html`<span class="wrong">missing: ${data.missing.join(", ")}</span>` : controller ? `controller: ${controller.id}` : "no controller"} />
      <${Figure} name="Topics" value=${count(data.topics)} href="/topics" note="internal ones included" />
      <${Figure} name="Partitions" value=${count(data.partitions)} note=${plural(replicas, "replica")} />
      <${Figure} name="Replicas not in sync" value=${count(behind)} note=${behind ? html`<span class="wrong">see the health above</span>` : "all are in sync"} />
      <${Figure} name="Size on disk" value=${bytes(size)} note="of all replicas" />
    </div>
    <${Notes} notes=${data.notes} />
  `;
}

function Figure({ name, value, note, href }) {
  return html`
    <div class="card">
      <span class="muted">${href ? html`<a href=${pageUrl(href)}>${name}</a>` : name}</span>
      <strong class="figure">${value}</strong>
      <span class="muted">${note}</span>
    </div>
  `;
}
