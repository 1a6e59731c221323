// All topics.
import { html } from "../vendor/preact.js";
import { Empty } from "../lib/empty.js";
import { Polled, usePolled } from "../lib/poll.js";
import { pageUrl } from "../lib/router.js";
import { Table } from "../lib/table.js";

const COLUMNS = [
  { name: "topic", label: "Topic", value: (row) => row.topic_name, show: link },
  { name: "partitions", label: "Partitions", value: (row) => row.partitions_count, isNumber: true },
  { name: "replicas", label: "Replicas", value: (row) => row.replication_factor, isNumber: true },
];

function link({ topic_name }) {
  return html`<a href=${pageUrl("/topics", topic_name)}>${topic_name}</a>`;
}

export function Topics() {
  const clusters = usePolled("/v3/clusters", 60_000);
  const id = clusters.data?.data[0]?.cluster_id;
  const topics = usePolled(id === undefined ? null : `/v3/clusters/${encodeURIComponent(id)}/topics`, 10_000);
  const empty = html`<${Empty} title="There are no topics yet." next="barnabas topics create payments --partitions 3" />`;
  return html`
    <${Polled} of=${topics}>
      ${(data) => html`<${Table} caption="Topics" columns=${COLUMNS} rows=${data.data} keyOf=${(row) => row.topic_name}
        sort="topic" search="Find topics" empty=${empty} />`}
    </>
  `;
}
