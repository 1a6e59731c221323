// Replicas that move, what makes them move, and leaders that an election would change.
import { html, useState } from "../vendor/preact.js";
import { post, useSession } from "../lib/api.js";
import { ActionDialog, ChangeButton } from "../lib/dialog.js";
import { Empty } from "../lib/empty.js";
import { bytes, counted } from "../lib/format.js";
import { Polled, usePolled } from "../lib/poll.js";
import { pageUrl } from "../lib/router.js";
import { Table } from "../lib/table.js";
import { toast } from "../lib/toast.js";
import { MoveDialog } from "../parts/move_replicas.js";

const partitionOf = (row) => `${row.topic}-${row.partition}`;

function partitionLink(row) {
  return html`<a href=${pageUrl("/topics", row.topic)}>${row.topic}</a>-${row.partition}`;
}

export function Replicas() {
  return html`<${Moves} /><${Leaders} />`;
}

function Moves() {
  const found = usePolled("/api/reassignments", 2_000);
  return html`<h2>Moves</h2><${Polled} of=${found}>${(data) => html`<${Moving} data=${data} refresh=${found.refresh} />`}</>`;
}

const MOVE_COLUMNS = [
  { name: "partition", label: "Partition", value: partitionOf, show: partitionLink },
  { name: "replicas", label: "Replicas", value: (row) => row.replicas.join(", ") },
  { name: "adding", label: "Come", value: (row) => row.adding.join(", ") },
  { name: "removing", label: "Go", value: (row) => row.removing.join(", ") },
  { name: "copied", label: "Copied", value: (row) => row.copied_bytes, show: progress },
];

function progress(row) {
  if (row.copied_bytes === null) return null;
  const text = `${bytes(row.copied_bytes)} of ${bytes(row.total_bytes)}`;
  return html`<progress max=${Math.max(row.total_bytes, 1)} value=${row.copied_bytes} aria-label="Copied of ${partitionOf(row)}"></progress> ${text}`;
}

function Moving({ data, refresh }) {
  const session = useSession();
  const [dialog, setDialog] = useState(null);
  const close = () => setDialog(null);
  const actions = html`
    <${ChangeButton} session=${session} onClick=${() => setDialog("move")}>Move replicas…</>
    <${ChangeButton} session=${session} disabled=${data.moving.length === 0} onClick=${() => setDialog("cancel")}>Cancel all…</>
    <${ChangeButton} session=${session} onClick=${() => setDialog("throttles")}>Remove throttles…</>
  `;
  return html`
    ${data.unknown && html`<p class="note">How far they have come is not known: ${data.unknown}</p>`}
    <${Table} id="m" caption="Partitions that are being moved" columns=${MOVE_COLUMNS} rows=${data.moving} keyOf=${partitionOf} sort="partition"
      actions=${actions} empty=${html`<${Empty} title="Nothing is being moved." />`} />
    ${dialog === "move" && html`<${MoveDialog} brokers=${data.brokers} moving=${data.moving.length} onClose=${close} onDone=${refresh} />`}
    ${dialog === "cancel" &&
    html`<${ActionDialog} title="Cancel all moves" action="Cancel the moves" isDangerous done="The moves are cancelled."
      run=${() => post("/api/reassignments/cancel", {})} onDone=${refresh} onClose=${close}>
      <p>${counted(data.moving.length, "partition")} to return to the former replicas. What was copied is deleted, and throttles are removed.</p>
    </>`}
    ${dialog === "throttles" &&
    html`<${ActionDialog} title="Remove throttles" action="Remove the throttles" run=${() => post("/api/reassignments/throttles/remove", {})}
      onDone=${(result) => result.notes.forEach((note) => toast(note))} onClose=${close}>
      <p>The throttles of moves are removed from all brokers and topics. What is moving then takes what the network gives.</p>
    </>`}
  `;
}

function Leaders() {
  const found = usePolled("/api/leaders", 10_000);
  return html`<h2>Leaders</h2><${Polled} of=${found}>${(data) => html`<${Misled} data=${data} refresh=${found.refresh} />`}</>`;
}

function Misled({ data, refresh }) {
  const session = useSession();
  const [dialog, setDialog] = useState(null);
  const close = () => setDialog(null);
  const columns = [
    { name: "partition", label: "Partition", value: partitionOf, show: partitionLink },
    { name: "leader", label: "Led by", value: (row) => row.leader, show: (row) => row.leader ?? html`<span class="tag error">nobody</span>` },
    { name: "preferred", label: "Preferred", value: (row) => row.preferred },
    { name: "sync", label: "Preferred is in sync", value: (row) => (row.in_sync ? "yes" : "no") },
    { name: "replicas", label: "Replicas", value: (row) => row.replicas.join(", ") },
    { name: "isr", label: "In sync", value: (row) => row.isr.join(", ") },
    {
      name: "change",
      label: "Change",
      isUnsorted: true,
      value: () => "",
      show: (row) =>
        row.leader === null &&
        html`<${ChangeButton} session=${session} class="small danger" aria-label="Elect an unclean leader of ${partitionOf(row)}" onClick=${() => setDialog(row)}>Unclean election…</>`,
    },
  ];
  const isReady = data.others.some((each) => each.in_sync);
  const elect = html`<${ChangeButton} session=${session} disabled=${!isReady} onClick=${() => setDialog("preferred")}>Elect preferred leaders…</>`;
  return html`
    <${Table} id="l" caption="Partitions that are not led by their preferred replica" columns=${columns} rows=${data.others} keyOf=${partitionOf}
      sort="partition" search="Find partitions" actions=${elect}
      empty=${html`<${Empty} title="All ${data.partitions_count} partitions are led by their preferred replica." />`} />
    ${dialog === "preferred" && html`<${Election} body=${{}} title="Elect preferred leaders" onClose=${close} onDone=${refresh}>
      <p>Each of these partitions is led by its first replica, where that is in sync. Clients notice it for a moment.</p>
    </>`}
    ${dialog?.topic !== undefined &&
    html`<${Election} title="Unclean election for ${partitionOf(dialog)}" isDangerous confirm=${partitionOf(dialog)} onClose=${close} onDone=${refresh}
      body=${{ kind: "unclean", partitions: [{ topic: dialog.topic, partition: dialog.partition }] }}>
      <p>A replica that was not in sync becomes the leader. Records that it does not have are lost for ever.</p>
    </>`}
  `;
}

function Election({ title, body, isDangerous, confirm, onClose, onDone, children }) {
  const tell = (result) => {
    toast(`${counted(result.elected.length, "partition")} with another leader.`);
    for (const each of result.refused) toast(each, "error");
    onDone();
  };
  return html`
    <${ActionDialog} title=${title} action="Elect" isDangerous=${isDangerous} confirm=${confirm} run=${() => post("/api/leaders/elect", body)}
      onDone=${tell} onClose=${onClose}>${children}</>
  `;
}
