// One broker: its disks and its settings.
import { html } from "../vendor/preact.js";
import { bytes, count, percent } from "../lib/format.js";
import { Polled, usePolled } from "../lib/poll.js";
import { pageUrl } from "../lib/router.js";
import { Table } from "../lib/table.js";
import { useClusterUrl } from "../parts/cluster.js";
import { Settings } from "../parts/settings.js";
import { Notes } from "../parts/state.js";

const EVERY_MS = 5000;
const used = (row) => (row.total_bytes ? 1 - row.usable_bytes / row.total_bytes : null);

const COLUMNS = [
  { name: "path", label: "Directory", value: (row) => row.path, show: (row) => html`<span class="mono">${row.path}</span>` },
  { name: "state", label: "State", value: (row) => row.error, show: (row) => (row.error ? html`<span class="tag error">offline: ${row.error}</span>` : html`<span class="tag ok">online</span>`) },
  { name: "replicas", label: "Replicas", value: (row) => row.replicas, show: (row) => count(row.replicas), isNumber: true },
  { name: "size", label: "Size of replicas", value: (row) => row.used_bytes, show: (row) => bytes(row.used_bytes), isNumber: true },
  { name: "free", label: "Free on disk", value: (row) => row.usable_bytes, show: (row) => bytes(row.usable_bytes), isNumber: true },
  { name: "total", label: "Disk", value: (row) => row.total_bytes, show: (row) => bytes(row.total_bytes), isNumber: true },
  { name: "used", label: "Used", value: used, show: (row) => (used(row) === null ? null : html`<span class=${used(row) > 0.9 ? "wrong" : ""}>${percent(used(row))}</span>`), isNumber: true },
]; // prettier-ignore

export function Broker({ broker, session }) {
  const brokers = usePolled("/api/brokers", EVERY_MS);
  const clusterUrl = useClusterUrl();
  return html`
    <p class="above"><a href=${pageUrl("/brokers")}>All brokers</a></p>
    <div><${Polled} of=${brokers}>
      ${(data) => html`<${State} row=${data.brokers.find((each) => String(each.id) === broker)} notes=${data.notes} />`}
    </></div>
    <h2>Settings</h2>
    <${Settings} path=${clusterUrl && clusterUrl("brokers", broker, "configs")} of="broker ${broker}" session=${session} />
  `;
}

function State({ row, notes }) {
  if (!row) {
    return html`<p class="problem" role="alert"><strong>This broker is not there.</strong> It has stopped, or never was.</p>`;
  }
  return html`
    <dl>
      <dt>Address</dt><dd class="mono">${row.host}:${row.port}</dd>
      <dt>Rack</dt><dd>${row.rack ?? "none"}</dd>
      <dt>Role</dt><dd>${row.is_controller ? "broker and controller" : "broker"}</dd>
      <dt>Leads</dt><dd>${count(row.leaders)} of ${count(row.replicas)} replicas${row.behind > 0 && html`; <span class="wrong">${count(row.behind)} not in sync</span>`}</dd>
    </dl>
    <h2>Disks</h2>
    <${Notes} notes=${notes} />
    <${Table} id="disk." caption="Directories of the broker" columns=${COLUMNS} rows=${row.directories} keyOf=${(each) => each.path} sort="path"
      empty=${html`<p class="empty">The broker does not tell its directories.</p>`} />
  `;
}
