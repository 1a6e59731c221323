// All groups, of every kind, with their lag.
import { html } from "../vendor/preact.js";
import { Empty } from "../lib/empty.js";
import { Polled, usePolled } from "../lib/poll.js";
import { pageUrl } from "../lib/router.js";
import { Table } from "../lib/table.js";
import { GroupLag, GroupState, kindText } from "../parts/groups.js";

const COLUMNS = [
  { name: "group", label: "Group", value: (row) => row.group, show: link },
  { name: "state", label: "State", value: (row) => row.state, show: (row) => html`<${GroupState} state=${row.state} />` },
  { name: "lag", label: "Lag", value: (row) => row.lag, show: (row) => html`<${GroupLag} of=${row} />`, isNumber: true, title: "Records that the group has not committed yet; that a share group is not done with" },
  { name: "members", label: "Members", value: (row) => row.members_count, isNumber: true },
  { name: "partitions", label: "Partitions", value: (row) => row.partitions_count, isNumber: true },
  { name: "topics", label: "Topics", value: (row) => row.topics.join(", "), show: topics },
  { name: "kind", label: "Kind", value: kindText },
  { name: "coordinator", label: "Coordinator", value: (row) => row.coordinator, isNumber: true },
];
const NAMED = 3;

function link({ group }) {
  return html`<a href=${pageUrl("/groups", group)}>${group}</a>`;
}

function topics(row) {
  const named = row.topics.slice(0, NAMED);
  const more = row.topics.length - named.length;
  return html`<span title=${row.topics.join(", ")}>
    ${named.map((each, index) => html`${index > 0 && ", "}<a href=${pageUrl("/topics", each)}>${each}</a>`)}${more > 0 && ` and ${more} more`}
  </span>`;
}

export function Groups() {
  const groups = usePolled("/api/groups", 5_000);
  const empty = html`<${Empty} title="There are no groups yet." next="barnabas consume orders --group billing" />`;
  return html`
    <${Polled} of=${groups}>
      ${(data) => html`
        ${data.missing.map((each) => html`<p class="note">The list is not complete: ${each}</p>`)}
        <${Table} caption="Groups" columns=${COLUMNS} rows=${data.groups} keyOf=${(row) => row.group} sort="group"
          search="Find groups" empty=${empty} />
      `}
    </>
  `;
}
