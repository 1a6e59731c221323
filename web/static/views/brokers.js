// All brokers: what they lead and hold, and how full their disks are.
import { html } from "../vendor/preact.js";
import { bytes, count, percent } from "../lib/format.js";
import { Polled, usePolled } from "../lib/poll.js";
import { pageUrl } from "../lib/router.js";
import { Table } from "../lib/table.js";
import { Notes, ReplicaState } from "../parts/state.js";

const EVERY_MS = 5000;

/** The share of its disks that is used, where the broker tells it; the fullest counts. */
export function fullest({ directories }) {
  const shares = directories.filter((each) => each.total_bytes).map((each) => 1 - each.usable_bytes / each.total_bytes);
  return shares.length ? Math.max(...shares) : null;
}

const COLUMNS = [
  { name: "id", label: "Broker", value: (row) => row.id, show: link },
  { name: "address", label: "Address", value: (row) => `${row.host}:${row.port}`, show: (row) => html`<span class="mono">${row.host}:${row.port}</span>` },
  { name: "rack", label: "Rack", value: (row) => row.rack },
  { name: "state", label: "Replicas in sync", value: (row) => row.behind, show: (row) => html`<${ReplicaState} behind=${row.behind} />` },
  { name: "leaders", label: "Leads", value: (row) => row.leaders, show: (row) => count(row.leaders), isNumber: true, title: "Partitions that it leads" },
  { name: "replicas", label: "Replicas", value: (row) => row.replicas, show: (row) => count(row.replicas), isNumber: true },
  { name: "size", label: "Size", value: (row) => row.size_bytes, show: (row) => bytes(row.size_bytes), isNumber: true, title: "Of its replicas" },
  { name: "disk", label: "Fullest disk", value: fullest, show: (row) => disk(row), isNumber: true },
]; // prettier-ignore

function link(row) {
  return html`<a href=${pageUrl("/brokers", row.id)}>${row.id}</a> ${row.is_controller && html`<span class="tag info">controller</span>`}`;
}

function disk(row) {
  const offline = row.directories.filter((each) => each.error);
  if (offline.length) return html`<span class="tag error">${offline.length} offline</span>`;
  const share = fullest(row);
  return share === null ? null : html`<span class=${share > 0.9 ? "wrong" : ""}>${percent(share)}</span>`;
}

export function Brokers() {
  const brokers = usePolled("/api/brokers", EVERY_MS);
  return html`
    <${Polled} of=${brokers}>
      ${(data) => html`
        ${data.missing.length > 0 && html`<p class="problem" role="alert">Brokers that hold replicas are missing:${" "}
          <strong>${data.missing.join(", ")}</strong>. What helps: start them, or move their replicas.</p>`}
        <${Notes} notes=${data.notes} />
        <${Table} caption="Brokers" columns=${COLUMNS} rows=${data.brokers} keyOf=${(row) => row.id} sort="id" search="Find brokers" />
      `}
    </>
  `;
}
