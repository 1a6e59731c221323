// Quotas: how much users, clients and addresses may use.
import { html, useState } from "../vendor/preact.js";
import { post, useSession } from "../lib/api.js";
import { ActionDialog, ChangeButton } from "../lib/dialog.js";
import { Empty } from "../lib/empty.js";
import { bytes, count } from "../lib/format.js";
import { Polled, usePolled } from "../lib/poll.js";
import { Table } from "../lib/table.js";
import { Check, Choice, Field, sizeOf } from "../parts/fields.js";

const KINDS = { user: "user", "client-id": "client_id", ip: "ip" };
const LABELS = { user: "User", "client-id": "Client", ip: "Address" };
const OF_CLIENTS = [
  ["producer_byte_rate", "bytes a second that it writes"],
  ["consumer_byte_rate", "bytes a second that it reads"],
  ["request_percentage", "percent of a thread's time"],
  ["controller_mutation_rate", "partitions a second that it creates or deletes"],
];
const OF_ADDRESSES = [["connection_creation_rate", "connections a second"]];

export function Quotas() {
  const quotas = usePolled("/api/quotas", 3_000);
  return html`<${Polled} of=${quotas}>${(data) => html`<${List} entries=${data.entries} refresh=${quotas.refresh} />`}</>`;
}

const entityText = (entity) => entity.map((part) => `${LABELS[part.kind] ?? part.kind} ${part.name ?? "(all others)"}`).join(", ");

function List({ entries, refresh }) {
  const session = useSession();
  const [dialog, setDialog] = useState(null);
  const close = () => setDialog(null);
  const rows = entries.flatMap((entry) => Object.entries(entry.quotas).map(([name, value]) => ({ entity: entry.entity, name, value })));
  const columns = [
    { name: "whose", label: "Whose", value: (row) => entityText(row.entity) },
    { name: "quota", label: "Quota", value: (row) => row.name },
    { name: "value", label: "Limit", value: (row) => row.value, show: limit, isNumber: true },
    {
      name: "change",
      label: "Change",
      isUnsorted: true,
      value: () => "",
      show: (row) => html`<${ChangeButton} session=${session} class="small" aria-label="Remove ${row.name} of ${entityText(row.entity)}" onClick=${() => setDialog(row)}>Remove…</>`,
    },
  ];
  const add = html`<${ChangeButton} session=${session} onClick=${() => setDialog("add")}>Set a quota…</>`;
  return html`
    <${Table} caption="Quotas" columns=${columns} rows=${rows} keyOf=${(row) => `${entityText(row.entity)} ${row.name}`} sort="whose"
      search="Find quotas" actions=${add}
      empty=${html`<${Empty} title="Nobody has a quota." next="barnabas quotas alter --user alice --add producer_byte_rate=10M" />`} />
    ${dialog === "add" && html`<${Setting} onClose=${close} onDone=${refresh} />`}
    ${dialog?.entity !== undefined && html`<${Removal} row=${dialog} onClose=${close} onDone=${refresh} />`}
  `;
}

function limit({ name, value }) {
  if (name.endsWith("byte_rate")) return html`<span title="${value} bytes a second">${bytes(value)}/s</span>`;
  return name === "request_percentage" ? `${count(value)} %` : `${count(value)}/s`;
}

function Setting({ onClose, onDone }) {
  const [of, setOf] = useState("client");
  const [given, setGiven] = useState({ user: { isIn: true, name: "" }, "client-id": { isIn: false, name: "" } });
  const [address, setAddress] = useState("");
  const [name, setName] = useState(OF_CLIENTS[0][0]);
  const [value, setValue] = useState("");
  const isAddress = of === "ip";
  const quotas = isAddress ? OF_ADDRESSES : OF_CLIENTS;
  const quota = quotas.some(([each]) => each === name) ? name : quotas[0][0];
  const run = async () => {
    const number = quota.endsWith("byte_rate") ? sizeOf(value) : Number(value);
    if (number === null || !Number.isFinite(number)) throw new Error(`${value} is no number`);
    const entity = isAddress ? { ip: address || null } : entityOf(given);
    await post("/api/quotas", { entity, quotas: { [quota]: number } });
  };
  return html`
    <${ActionDialog} title="Set a quota" action="Set the quota" done="The quota is set." run=${run} onDone=${onDone} onClose=${onClose}>
      <${Choice} label="Of" value=${of} choices=${[["client", "users and clients"], ["ip", "addresses"]]} onChange=${setOf} />
      ${isAddress
        ? html`<${Field} label="Address" value=${address} onChange=${setAddress} hint="Empty: all that have none of their own" />`
        : Object.keys(given).map((kind) => html`<${Part} key=${kind} kind=${kind} part=${given[kind]} set=${(part) => setGiven((before) => ({ ...before, [kind]: part }))} />`)}
      <${Choice} label="Quota" value=${quota} choices=${quotas} onChange=${setName} />
      <${Field} label="Limit" required value=${value} onChange=${setValue} hint=${quota.endsWith("byte_rate") ? "10M is 10 MiB a second" : null} />
    </>
  `;
}

function Part({ kind, part, set }) {
  return html`
    <${Check} label="For a ${LABELS[kind].toLowerCase()}" value=${part.isIn} onChange=${(isIn) => set({ ...part, isIn })} />
    ${part.isIn &&
    html`<${Field} label="${LABELS[kind]} name" value=${part.name} onChange=${(name) => set({ ...part, name })} hint="Empty: all that have none of their own" />`}
  `;
}

function entityOf(given) {
  const parts = Object.entries(given).filter(([, part]) => part.isIn);
  return Object.fromEntries(parts.map(([kind, part]) => [KINDS[kind], part.name || null]));
}

function Removal({ row, onClose, onDone }) {
  const entity = Object.fromEntries(row.entity.map((part) => [KINDS[part.kind] ?? part.kind, part.name]));
  return html`
    <${ActionDialog} title="Remove a quota" action="Remove the quota" isDangerous done="The quota is removed."
      run=${() => post("/api/quotas", { entity, quotas: { [row.name]: null } })} onDone=${onDone} onClose=${onClose}>
      <p>${row.name} of ${entityText(row.entity)}: what holds then is the next quota that concerns it, or no limit.</p>
    </>
  `;
}
