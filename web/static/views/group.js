// One group: its members, how far it is behind in each partition, and what changes it.
import { html, useState } from "../vendor/preact.js";
import { post, useSession, withQuery } from "../lib/api.js";
import { ActionDialog, ChangeButton } from "../lib/dialog.js";
import { Empty } from "../lib/empty.js";
import { count } from "../lib/format.js";
import { Polled, usePolled } from "../lib/poll.js";
import { go, pageUrl } from "../lib/router.js";
import { Table } from "../lib/table.js";
import { GroupLag, GroupState, kindText } from "../parts/groups.js";
import { Lag } from "../parts/lag.js";
import { ResetDialog } from "../parts/offset_reset.js";

const OWNERS = [
  { name: "client", label: "Client", value: (row) => row.client_id },
  { name: "host", label: "Address", value: (row) => row.host },
];
const COMMITTED = { label: "Committed" };
const START = { label: "Done before", title: "The start offset: everything before it is acknowledged or given up" };

/** Members of a share group share partitions: none of them owns one. */
function lagColumns(isShare) {
  return [
    { name: "topic", label: "Topic", value: (row) => row.topic, show: topicLink },
    { name: "partition", label: "Partition", value: (row) => row.partition, isNumber: true },
    { name: "lag", label: "Lag", value: (row) => row.lag, show: (row) => count(row.lag), isNumber: true },
    { name: "committed", ...(isShare ? START : COMMITTED), value: (row) => row.current_offset, show: committed, isNumber: true },
    { name: "end", label: "End", value: (row) => row.log_end_offset, show: (row) => count(row.log_end_offset), isNumber: true },
    ...(isShare ? [] : OWNERS),
  ];
}

function topicLink({ topic }) {
  return html`<a href=${pageUrl("/topics", topic)}>${topic}</a>`;
}

/** A link to the messages from there on. */
function committed({ topic, partition, current_offset }) {
  if (current_offset === null) return null;
  const address = withQuery(pageUrl("/topics", topic, "messages"), { start: "offset", offset: current_offset, partitions: partition });
  return html`<a href=${address} title="The messages from there on">${count(current_offset)}</a>`;
}

export function Group({ group }) {
  const found = usePolled(withQuery("/api/groups/details", { group }), 3_000);
  return html`<${Polled} of=${found}>${(data) => html`<${Shown} group=${data} refresh=${found.refresh} />`}</>`;
}

function Shown({ group, refresh }) {
  const session = useSession();
  const isShare = group.kind === "share";
  const [dialog, setDialog] = useState(null);
  const close = () => setDialog(null);
  const done = () => refresh();
  return html`
    <dl class="facts">
      <dt>State</dt><dd><${GroupState} state=${group.state} /></dd>
      <dt>Lag</dt><dd><${GroupLag} of=${group} /></dd>
      <dt>Kind</dt><dd>${kindText(group)}</dd>
      <dt>Assignor</dt><dd>${group.assignor || "–"}</dd>
      <dt>Coordinator</dt><dd><a href=${pageUrl("/brokers", String(group.coordinator))}>broker ${group.coordinator}</a></dd>
      ${group.group_epoch !== null && html`<dt>Epoch</dt><dd>${group.group_epoch} (assigned: ${group.assignment_epoch})</dd>`}
    </dl>
    <p class="actions">
      <${ChangeButton} session=${session} onClick=${() => setDialog("reset")}>Set offsets…</>
      <${ChangeButton} session=${session} class="danger" onClick=${() => setDialog("delete")}>Delete the group…</>
    </p>
    <${Lag} group=${group.group} />
    <h2>Partitions</h2>
    <${Table} id="p" caption="Partitions of group ${group.group}" columns=${lagColumns(isShare)} rows=${group.partitions}
      keyOf=${(row) => `${row.topic}-${row.partition}`} sort="-lag" search="Find partitions"
      empty=${html`<${Empty} title=${isShare ? "No member has read anything yet." : "This group has committed nothing."} />`} />
    <h2>Members</h2>
    <${Members} group=${group} session=${session} remove=${setDialog} />
    ${dialog === "reset" && html`<${ResetDialog} group=${group} onClose=${close} onDone=${done} />`}
    ${dialog === "delete" && html`<${Deletion} group=${group} onClose=${close} />`}
    ${dialog?.member_id !== undefined && html`<${Removal} group=${group.group} member=${dialog} onClose=${close} onDone=${done} />`}
  `;
}

function Members({ group, session, remove }) {
  const columns = [
    { name: "member", label: "Member", value: (row) => row.member_id, show: (row) => html`<code>${row.member_id}</code>` },
    { name: "instance", label: "Instance", value: (row) => row.instance_id },
    { name: "client", label: "Client", value: (row) => row.client_id },
    { name: "host", label: "Address", value: (row) => row.host },
    { name: "partitions", label: "Reads", value: (row) => row.partitions?.join(", ") ?? null, show: reads },
    ...(group.members.some((each) => each.member_epoch !== null)
      ? [{ name: "epoch", label: "Epoch", value: (row) => row.member_epoch, isNumber: true }]
      : []),
    ...(group.kind === "share" ? [] : [removal(session, remove)]),
  ];
  return html`<${Table} id="m" caption="Members of group ${group.group}" columns=${columns} rows=${group.members}
    keyOf=${(row) => row.member_id} sort="member" empty=${html`<${Empty} title="This group has no members now." />`} />`;
}

function removal(session, remove) {
  return {
    name: "change",
    label: "Change",
    isUnsorted: true,
    value: () => "",
    show: (row) =>
      html`<${ChangeButton} session=${session} class="small" aria-label="Remove ${row.member_id}" onClick=${() => remove(row)}>Remove…</>`,
  };
}

function reads({ partitions, target_partitions }) {
  if (partitions === null) return html`<span class="muted">not known</span>`;
  const coming = (target_partitions ?? []).filter((each) => !partitions.includes(each));
  return html`${partitions.join(", ") || "nothing"}${coming.length > 0 && html` <span class="muted">(soon: ${coming.join(", ")})</span>`}`;
}

function Deletion({ group, onClose }) {
  return html`
    <${ActionDialog} title="Delete group ${group.group}" action="Delete the group" isDangerous confirm=${group.group}
      run=${() => post("/api/groups/delete", { group: group.group })} done="The group is deleted."
      onDone=${() => go(pageUrl("/groups"))} onClose=${onClose}>
      ${group.kind === "share"
        ? html`<p>The group is deleted with what it knows of its records. Consumers that join again begin where the group's
            <code>share.auto.offset.reset</code> says: at the end, unless it is set.</p>`
        : html`<p>The group is deleted with the offsets that it has committed. A consumer that joins again begins where its
            <code>auto.offset.reset</code> says.</p>`}
      ${group.members.length > 0 && html`<p class="note">The group has members: it cannot be deleted while they are there.</p>`}
    </>
  `;
}

function Removal({ group, member, onClose, onDone }) {
  const members = [{ member_id: member.member_id, instance_id: member.instance_id }];
  return html`
    <${ActionDialog} title="Remove a member" action="Remove the member" isDangerous done="The member is removed."
      run=${() => post("/api/groups/members/remove", { group, members })} onDone=${onDone} onClose=${onClose}>
      <p><code>${member.member_id}</code> of client ${member.client_id} at ${member.host} loses its partitions to the others. If it
        is alive, it joins again.</p>
    </>
  `;
}
