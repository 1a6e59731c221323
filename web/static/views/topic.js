// One topic: its partitions with their replicas, and what was written to it.
import { html, useState } from "../vendor/preact.js";
import { url } from "../lib/api.js";
import { ChangeButton } from "../lib/dialog.js";
import { bytes, count, plural } from "../lib/format.js";
import { Polled, usePolled } from "../lib/poll.js";
import { pageUrl } from "../lib/router.js";
import { Table } from "../lib/table.js";
import { useClusterUrl } from "../parts/cluster.js";
import { Settings } from "../parts/settings.js";
import { Notes } from "../parts/state.js";
import { Throughput } from "../parts/throughput.js";
import { DeleteTopic, GrowTopic } from "../parts/topic_dialogs.js";
import { TopicTabs } from "../parts/topic_tabs.js";

const EVERY_MS = 5000;

const COLUMNS = [
  { name: "partition", label: "Partition", value: (row) => row.partition, isNumber: true },
  { name: "leader", label: "Leader", value: (row) => row.leader, show: leader },
  { name: "replicas", label: "Replicas, and how far they are behind", value: (row) => row.replicas.map((each) => each.broker).join(" "), show: replicas },
  { name: "start", label: "First offset", value: (row) => row.start, show: (row) => count(row.start), isNumber: true },
  { name: "end", label: "Next offset", value: (row) => row.end, show: (row) => count(row.end), isNumber: true },
  { name: "records", label: "Records", value: records, show: (row) => count(records(row)), isNumber: true },
  { name: "size", label: "Size of the leader", value: size, show: (row) => bytes(size(row)), isNumber: true },
]; // prettier-ignore

function records(row) {
  return row.end === null || row.start === null ? null : row.end - row.start;
}

function size(row) {
  return row.replicas.find((each) => each.broker === row.leader)?.size_bytes ?? null;
}

function leader(row) {
  if (row.leader === null) return html`<span class="tag error">none</span>`;
  return html`<a href=${pageUrl("/brokers", row.leader)} title="Leader epoch ${row.leader_epoch}">${row.leader}</a>`;
}

/** Each replica by its broker's number; what is not in sync says so, and by how many offsets. */
function replicas(row) {
  return row.replicas.map((each) => html`<span class="replica" key=${each.broker}>
    <span class="tag ${stateOf(each)[0]}" title=${`${stateOf(each)[1]}${each.directory ? `, in ${each.directory}` : ""}`}>${each.broker}${stateOf(each)[2]}</span>
  </span> `);
}

/** The kind of tag, what it means, and what is written behind the broker's number. */
function stateOf(replica) {
  const behind = replica.lag ? ` ${count(replica.lag)} behind` : "";
  if (replica.is_offline) return ["error", "its broker or its disk is offline", " offline"];
  if (replica.is_moving) return ["info", "it moves to another directory", ` moves${behind}`];
  if (!replica.is_in_sync) return ["warning", "not in sync", behind || " not in sync"];
  return ["ok", "in sync", behind];
}

export function Topic({ topic, session }) {
  const detail = usePolled(url("/api/topics", topic), EVERY_MS);
  const clusterUrl = useClusterUrl();
  const [open, setOpen] = useState(null);
  const close = () => setOpen(null);
  const partitions = detail.data?.partitions.length ?? 0;
  const actions = html`
    <${ChangeButton} session=${session} disabled=${!clusterUrl || !partitions} onClick=${() => setOpen("grow")}>Add partitions</>
    <${ChangeButton} session=${session} class="danger" disabled=${!clusterUrl} onClick=${() => setOpen("delete")}>Delete</>
  `;
  return html`
    <${TopicTabs} topic=${topic} current="topic" />
    <div><${Polled} of=${detail}>${(data) => html`<${Partitions} data=${data} actions=${actions} />`}</></div>
    <div><${Throughput} topic=${topic} /></div>
    ${open === "grow" && html`<${GrowTopic} ...${{ clusterUrl, topic, partitions }} onDone=${detail.refresh} onClose=${close} />`}
    ${open === "delete" && html`<${DeleteTopic} ...${{ clusterUrl, topic }} onClose=${close} />`}
  `;
}

function Partitions({ data, actions }) {
  const all = data.partitions.flatMap((each) => each.replicas);
  const sizes = all.map((each) => each.size_bytes).filter((each) => each !== null);
  const total = sizes.length ? sizes.reduce((sum, each) => sum + each, 0) : null;
  return html`
    <p class="above muted">${plural(data.partitions.length, "partition")}, ${plural(all.length, "replica")}, ${bytes(total)} on all disks${data.id && html`, id <code>${data.id}</code>`}</p>
    <${Notes} notes=${data.notes} />
    <${Table} caption="Partitions of ${data.name}" columns=${COLUMNS} rows=${data.partitions} keyOf=${(row) => row.partition} sort="partition"
      actions=${actions} />
  `;
}

export function TopicSettings({ topic, session }) {
  const clusterUrl = useClusterUrl();
  return html`
    <${TopicTabs} topic=${topic} current="settings" />
    <${Settings} path=${clusterUrl && clusterUrl("topics", topic, "configs")} of="topic ${topic}" session=${session} />
  `;
}
