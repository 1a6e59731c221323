// Access control lists: who may do what on which resource.
import { html, useState } from "../vendor/preact.js";
import { del, post, useSession, withQuery } from "../lib/api.js";
import { ActionDialog, ChangeButton } from "../lib/dialog.js";
import { Empty } from "../lib/empty.js";
import { Polled, usePolled } from "../lib/poll.js";
import { Table } from "../lib/table.js";
import { Choice, Field } from "../parts/fields.js";

const RESOURCES = ["TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN"];
const OPERATIONS = [
  "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS",
  "IDEMPOTENT_WRITE", "ALL",
];
const CLUSTER_NAME = "kafka-cluster";
const FIELDS = ["resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission"];
const NEW = {
  resource_type: "TOPIC", resource_name: "", pattern_type: "LITERAL", principal: "User:", host: "*", operation: "READ", permission: "ALLOW",
};

const fieldsOf = (acl) => Object.fromEntries(FIELDS.map((name) => [name, acl[name]]));
const keyOf = (acl) => JSON.stringify(fieldsOf(acl));

export function Acls() {
  const clusters = usePolled("/v3/clusters", 60_000);
  const id = clusters.data?.data[0]?.cluster_id;
  const path = id === undefined ? null : `/v3/clusters/${encodeURIComponent(id)}/acls`;
  const acls = usePolled(path, 3_000);
  const of = clusters.error && clusters.data === null ? clusters : acls;
  return html`<${Polled} of=${of}>${(data) => html`<${List} acls=${data.data} path=${path} refresh=${acls.refresh} />`}</>`;
}

function List({ acls, path, refresh }) {
  const session = useSession();
  const [dialog, setDialog] = useState(null);
  const close = () => setDialog(null);
  const columns = [
    { name: "principal", label: "Principal", value: (row) => row.principal },
    { name: "permission", label: "Permission", value: (row) => row.permission, show: permission },
    { name: "operation", label: "Operation", value: (row) => row.operation },
    { name: "type", label: "Resource", value: (row) => row.resource_type },
    { name: "name", label: "Name", value: (row) => row.resource_name, show: name },
    { name: "host", label: "From", value: (row) => (row.host === "*" ? "any address" : row.host) },
    {
      name: "change",
      label: "Change",
      isUnsorted: true,
      value: () => "",
      show: (row) => html`<${ChangeButton} session=${session} class="small" aria-label="Remove: ${sentenceOf(row)}" onClick=${() => setDialog(row)}>Remove…</>`,
    },
  ];
  const add = html`<${ChangeButton} session=${session} onClick=${() => setDialog("add")}>Add an ACL…</>`;
  return html`
    <${Table} caption="ACLs" columns=${columns} rows=${acls} keyOf=${keyOf} sort="principal" search="Find ACLs" actions=${add}
      empty=${html`<${Empty} title="There are no ACLs." next="barnabas acls add --topic orders --allow-principal User:alice --consumer --group billing" />`} />
    ${dialog === "add" && html`<${Addition} path=${path} onClose=${close} onDone=${refresh} />`}
    ${dialog?.principal !== undefined && html`<${Removal} path=${path} acl=${dialog} onClose=${close} onDone=${refresh} />`}
  `;
}

function permission({ permission: word }) {
  return html`<span class="tag ${word === "DENY" ? "error" : "ok"}">${word}</span>`;
}

function name({ resource_name, pattern_type }) {
  return html`${resource_name}${pattern_type === "PREFIXED" && html` <span class="muted">(all that begin so)</span>`}`;
}

function sentenceOf(acl) {
  const where = acl.host === "*" ? "" : ` from ${acl.host}`;
  const named = `${acl.resource_name}${acl.pattern_type === "PREFIXED" ? "…" : ""}`;
  return `${acl.permission} ${acl.principal} ${acl.operation} on ${acl.resource_type} ${named}${where}`;
}

function Addition({ path, onClose, onDone }) {
  const [acl, setAcl] = useState(NEW);
  const set = (field) => (value) => setAcl((before) => ({ ...before, [field]: value }));
  const isCluster = acl.resource_type === "CLUSTER";
  const wanted = isCluster ? { ...acl, resource_name: CLUSTER_NAME, pattern_type: "LITERAL" } : acl;
  return html`
    <${ActionDialog} title="Add an ACL" action="Add the ACL" done="The ACL is added." run=${() => post(path, wanted)} onDone=${onDone} onClose=${onClose}>
      <${Field} label="Principal" required pattern=".+:.+" value=${acl.principal} onChange=${set("principal")} hint="User:alice, or User:* for everybody" />
      <div class="fields">
        <${Choice} label="Permission" value=${acl.permission} choices=${["ALLOW", "DENY"]} onChange=${set("permission")} />
        <${Choice} label="Operation" value=${acl.operation} choices=${OPERATIONS} onChange=${set("operation")} />
        <${Choice} label="Resource" value=${acl.resource_type} choices=${RESOURCES} onChange=${set("resource_type")} />
      </div>
      ${!isCluster &&
      html`<${Field} label="Name" required value=${acl.resource_name} onChange=${set("resource_name")} hint="* is every one" />
        <${Choice} label="Which names" value=${acl.pattern_type} choices=${[["LITERAL", "this name"], ["PREFIXED", "all that begin so"]]} onChange=${set("pattern_type")} />`}
      <${Field} label="From address" required value=${acl.host} onChange=${set("host")} hint="* is any address" />
      <p>${sentenceOf(wanted)}</p>
    </>
  `;
}

function Removal({ path, acl, onClose, onDone }) {
  return html`
    <${ActionDialog} title="Remove an ACL" action="Remove the ACL" isDangerous done="The ACL is removed."
      run=${() => del(withQuery(path, fieldsOf(acl)))} onDone=${onDone} onClose=${onClose}>
      <p>${sentenceOf(acl)}</p>
      <p>The brokers apply this within a moment, also to clients that are connected now.</p>
    </>
  `;
}
