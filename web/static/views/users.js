// Users with SCRAM credentials.
import { html, useState } from "../vendor/preact.js";
import { post, useSession } from "../lib/api.js";
import { ActionDialog, ChangeButton } from "../lib/dialog.js";
import { Empty } from "../lib/empty.js";
import { Polled, usePolled } from "../lib/poll.js";
import { pageUrl } from "../lib/router.js";
import { Table } from "../lib/table.js";
import { Choice, Field } from "../parts/fields.js";

const MECHANISMS = ["SCRAM-SHA-512", "SCRAM-SHA-256"];

export function Users() {
  const users = usePolled("/api/users", 3_000);
  return html`<${Polled} of=${users}>${(data) => html`<${List} users=${data.users} refresh=${users.refresh} />`}</>`;
}

function List({ users, refresh }) {
  const session = useSession();
  const [dialog, setDialog] = useState(null);
  const close = () => setDialog(null);
  const columns = [
    { name: "user", label: "User", value: (row) => row.name },
    { name: "credentials", label: "Credentials", value: credentials },
    {
      name: "change",
      label: "Change",
      isUnsorted: true,
      value: () => "",
      show: (row) => html`<span class="actions">
        <${ChangeButton} session=${session} class="small" aria-label="New password for ${row.name}" onClick=${() => setDialog({ name: row.name })}>New password…</>
        <${ChangeButton} session=${session} class="small" aria-label="Delete ${row.name}" onClick=${() => setDialog({ deleted: row.name })}>Delete…</>
        <a href="${pageUrl("/acls")}?filter=${encodeURIComponent(`User:${row.name}`)}">ACLs</a>
      </span>`,
    },
  ];
  const add = html`<${ChangeButton} session=${session} onClick=${() => setDialog({ name: "" })}>Add a user…</>`;
  return html`
    <${Table} caption="Users" columns=${columns} rows=${users} keyOf=${(row) => row.name} sort="user" search="Find users" actions=${add}
      empty=${html`<${Empty} title="No user has SCRAM credentials." next="barnabas users create alice" />`} />
    ${dialog?.name !== undefined && html`<${Credential} name=${dialog.name} onClose=${close} onDone=${refresh} />`}
    ${dialog?.deleted !== undefined && html`<${Deletion} name=${dialog.deleted} onClose=${close} onDone=${refresh} />`}
  `;
}

const credentials = (row) => row.credentials.map((each) => `${each.mechanism} (${each.iterations} iterations)`).join(", ");

function Credential({ name: given, onClose, onDone }) {
  const [name, setName] = useState(given);
  const [password, setPassword] = useState("");
  const [mechanism, setMechanism] = useState(MECHANISMS[0]);
  return html`
    <${ActionDialog} title=${given ? `New password for ${given}` : "Add a user"} action=${given ? "Set the password" : "Add the user"}
      done=${given ? "The password is set." : "The user is added."} run=${() => post("/api/users", { name, password, mechanism })}
      onDone=${onDone} onClose=${onClose}>
      ${!given && html`<${Field} label="Name" required value=${name} onChange=${setName} />`}
      <${Field} label="Password" type="password" required value=${password} onChange=${setPassword} autocomplete="new-password"
        hint="The brokers keep a salted hash of it, never the password." />
      <${Choice} label="Mechanism" value=${mechanism} choices=${MECHANISMS} onChange=${setMechanism} />
    </>
  `;
}

function Deletion({ name, onClose, onDone }) {
  return html`
    <${ActionDialog} title="Delete user ${name}" action="Delete the user" isDangerous confirm=${name} done="The user is deleted."
      run=${() => post("/api/users/delete", { name })} onDone=${onDone} onClose=${onClose}>
      <p>${name} can log in no more. What is connected stays so until it logs in again. ACLs and quotas of the user stay.</p>
    </>
  `;
}
