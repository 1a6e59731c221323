// Transactions: which are open, since when, and those that hang.
import { html, useState } from "../vendor/preact.js";
import { get, post, useSession, withQuery } from "../lib/api.js";
import { ActionDialog, ChangeButton } from "../lib/dialog.js";
import { Empty } from "../lib/empty.js";
import { Time, count, duration } from "../lib/format.js";
import { Polled, usePolled } from "../lib/poll.js";
import { Problem } from "../lib/problem.js";
import { pageUrl, useQuery } from "../lib/router.js";
import { Table } from "../lib/table.js";
import { Check, Field } from "../parts/fields.js";

const COLUMNS = [
  { name: "id", label: "Transactional id", value: (row) => row.transactional_id },
  { name: "state", label: "State", value: (row) => row.state, show: state },
  { name: "since", label: "Open since", value: (row) => (row.is_open ? row.started_ms : null), show: since },
  { name: "timeout", label: "Timeout", value: (row) => row.timeout_ms, show: (row) => duration(row.timeout_ms), isNumber: true },
  { name: "partitions", label: "Partitions", value: (row) => (row.partitions ?? []).join(", ") },
  { name: "producer", label: "Producer", value: (row) => row.producer_id, isNumber: true },
  { name: "coordinator", label: "Coordinator", value: (row) => row.coordinator, isNumber: true },
];

function state(row) {
  return html`<span class="tag ${row.is_open ? "warning" : ""}">${row.state}</span>`;
}

function since(row) {
  return row.is_open && row.started_ms !== null ? html`<${Time} ms=${row.started_ms} />` : null;
}

export function Transactions() {
  const found = usePolled("/api/transactions", 5_000);
  const [query, change] = useQuery();
  const isOpen = query.open === "true";
  const only = html`<${Check} label="Only those that are open" value=${isOpen} onChange=${(value) => change({ open: value ? "true" : null })} />`;
  return html`
    <${Polled} of=${found}>
      ${(data) => html`<${Table} caption="Transactions" columns=${COLUMNS} rows=${data.transactions.filter((row) => row.is_open || !isOpen)}
        keyOf=${(row) => row.transactional_id} sort="id" search="Find transactions" actions=${only}
        empty=${html`<${Empty} title=${isOpen ? "No transaction is open." : "There are no transactional ids."} next="barnabas transactions list" />`} />`}
    </>
    <${Hanging} />
  `;
}

/** What is found when somebody asks for it: every partition is asked for its producers. */
function Hanging() {
  const session = useSession();
  const [minutes, setMinutes] = useState("15");
  const [state, setState] = useState({ found: null, error: null, isBusy: false });
  const [aborted, setAborted] = useState(null);
  const find = async () => {
    setState((before) => ({ ...before, error: null, isBusy: true }));
    try {
      setState({ found: await get(withQuery("/api/transactions/hanging", { quiet_minutes: minutes })), error: null, isBusy: false });
    } catch (error) {
      setState({ found: null, error, isBusy: false });
    }
  };
  const submit = (event) => {
    event.preventDefault();
    find();
  };
  return html`
    <h2>Transactions that hang</h2>
    <p class="muted">They are open in a partition, but no coordinator knows them: nothing ends them, and readers of committed records wait.</p>
    <form class="actions" onSubmit=${submit}>
      <${Field} label="Quiet for so many minutes" type="number" min="0" required value=${minutes} onChange=${setMinutes} />
      <button type="submit" disabled=${state.isBusy}>${state.isBusy ? "Looking…" : "Find them"}</button>
    </form>
    ${state.error && html`<${Problem} error=${state.error} retry=${find} />`}
    ${state.found && html`<${Found} found=${state.found} session=${session} abort=${setAborted} />`}
    ${aborted && html`<${Abortion} row=${aborted} onClose=${() => setAborted(null)} onDone=${find} />`}
  `;
}

function Found({ found, session, abort }) {
  const columns = [
    { name: "partition", label: "Partition", value: (row) => `${row.topic}-${row.partition}`, show: partition },
    { name: "producer", label: "Producer", value: (row) => row.producer_id, isNumber: true },
    { name: "offset", label: "Open since offset", value: (row) => row.open_since_offset, show: (row) => count(row.open_since_offset), isNumber: true },
    { name: "written", label: "Last written", value: (row) => row.last_written_ms, show: (row) => html`<${Time} ms=${row.last_written_ms} />` },
    {
      name: "change",
      label: "Change",
      isUnsorted: true,
      value: () => "",
      show: (row) => html`<${ChangeButton} session=${session} class="small" onClick=${() => abort(row)}>Abort…</>`,
    },
  ];
  return html`
    ${found.leaderless.length > 0 && html`<p class="note">Without leader, and not looked at: ${found.leaderless.join(", ")}</p>`}
    <${Table} id="h" caption="Transactions that hang" columns=${columns} rows=${found.producers}
      keyOf=${(row) => `${row.topic}-${row.partition}-${row.producer_id}`} sort="partition"
      empty=${html`<${Empty} title="No transaction hangs." />`} />
  `;
}

function partition(row) {
  return html`<a href=${pageUrl("/topics", row.topic)}>${row.topic}</a>-${row.partition}`;
}

function Abortion({ row, onClose, onDone }) {
  const body = { topic: row.topic, partition: row.partition, producer_id: row.producer_id, start_offset: row.open_since_offset };
  return html`
    <${ActionDialog} title="Abort a transaction" action="Abort it" isDangerous done="The transaction is aborted."
      run=${() => post("/api/transactions/abort", body)} onDone=${onDone} onClose=${onClose}>
      <p>The records that producer ${row.producer_id} has written to ${row.topic}-${row.partition} since offset ${row.open_since_offset} in
        this transaction will never be read as committed.</p>
    </>
  `;
}
