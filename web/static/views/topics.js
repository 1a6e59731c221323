// All topics, with how much is in them and how fast it grows.
import { html, useMemo, useState } from "../vendor/preact.js";
import { ChangeButton } from "../lib/dialog.js";
import { Empty } from "../lib/empty.js";
import { bytes, count, rate } from "../lib/format.js";
import { Polled, usePolled } from "../lib/poll.js";
import { pageUrl, useQuery } from "../lib/router.js";
import { Table } from "../lib/table.js";
import { useClusterUrl } from "../parts/cluster.js";
import { Notes, ReplicaState } from "../parts/state.js";
import { CreateTopic } from "../parts/topic_dialogs.js";

const EVERY_MS = 5000;

const COLUMNS = [
  { name: "topic", label: "Topic", value: (row) => row.name, show: link },
  { name: "state", label: "Replicas in sync", value: (row) => row.leaderless * 1e6 + row.behind, show: (row) => html`<${ReplicaState} ...${row} />` },
  { name: "partitions", label: "Partitions", value: (row) => row.partitions, show: (row) => count(row.partitions), isNumber: true },
  { name: "replicas", label: "Replicas of each", value: (row) => row.replicas, isNumber: true },
  { name: "records", label: "Records", value: (row) => row.records, show: (row) => count(row.records), isNumber: true, title: "Offsets from the beginning to the end of its logs" },
  { name: "rate", label: "Written", value: (row) => row.records_per_s, show: (row) => rate(row.records_per_s), isNumber: true, title: "Records each second" },
  { name: "size", label: "Size", value: (row) => row.size_bytes, show: (row) => bytes(row.size_bytes), isNumber: true, title: "Of all replicas" },
]; // prettier-ignore

function link({ name, is_internal }) {
  return html`<a href=${pageUrl("/topics", name)}>${name}</a> ${is_internal && html`<span class="tag">internal</span>`}`;
}

export function Topics({ session }) {
  const topics = usePolled("/api/topics", EVERY_MS);
  const clusterUrl = useClusterUrl();
  const [isCreating, setCreating] = useState(false);
  const create = html`<${ChangeButton} session=${session} class="primary" disabled=${!clusterUrl} onClick=${() => setCreating(true)}>Create a topic</>`;
  return html`
    <${Polled} of=${topics}>${(data) => html`<${List} data=${data} create=${create} />`}</>
    ${isCreating && html`<${CreateTopic} clusterUrl=${clusterUrl} onClose=${() => setCreating(false)} />`}
  `;
}

function List({ data, create }) {
  const [query, change] = useQuery();
  const withInternal = query.internal === "1";
  const rows = useMemo(() => (withInternal ? data.topics : data.topics.filter((row) => !row.is_internal)), [data, withInternal]);
  const actions = html`
    <label class="switch"><input type="checkbox" checked=${withInternal}
      onChange=${({ target }) => change({ internal: target.checked ? "1" : null })} />Internal topics</label>
    ${create}
  `;
  const empty = html`<${Empty} title="There are no topics yet." next="barnabas topics create payments --partitions 3" />`;
  return html`
    <${Notes} notes=${data.notes} />
    <${Table} caption="Topics" columns=${COLUMNS} rows=${rows} keyOf=${(row) => row.name} sort="topic" search="Find topics"
      empty=${empty} actions=${actions} />
  `;
}
