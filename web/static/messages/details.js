// One message as a whole: when, where, its headers, its key and value in every form that they have; what can be done with it.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { useSession } from "../lib/api.js";
import { ChangeButton } from "../lib/dialog.js";
import { Time, bytes } from "../lib/format.js";
import { Polled, usePolled } from "../lib/poll.js";
import { toast } from "../lib/toast.js";
import { CopyDialog } from "./writing.js";
import { messagesUrl } from "./query.js";

const FORMS = [
  ["schema", "Schema"],
  ["internal", "Internal"],
  ["json", "JSON"],
  ["text", "Text"],
  ["hex", "Hex"],
];
const NEVER_MS = 2 ** 31 - 1;

/** `place` is {partition, offset}; `parameters` are the formats that the list has. */
export function Details({ topic, place, parameters, onClose }) {
  const path = messagesUrl(topic, place.partition, place.offset);
  const message = usePolled(`${path}?${parameters}`, NEVER_MS);
  const heading = useRef(null);
  useEffect(() => heading.current?.focus(), [path]);
  const onKeyDown = (event) => {
    if (event.key !== "Escape" || event.target.closest("dialog")) return;
    event.stopPropagation();
    onClose();
  };
  return html`
    <aside class="details" aria-labelledby="message-heading" onKeyDown=${onKeyDown}>
      <header>
        <h2 id="message-heading" tabindex="-1" ref=${heading}>Partition ${place.partition}, offset ${place.offset}</h2>
        <button type="button" class="icon" aria-label="Close the message" onClick=${onClose}>✕</button>
      </header>
      <${Polled} of=${message}>${(record) => html`<${Whole} record=${record} path=${path} topic=${topic} />`}</>
    </aside>
  `;
}

function Whole({ record, path, topic }) {
  return html`
    <${Actions} record=${record} topic=${topic} />
    <dl>
      <dt>Time</dt>
      <dd>${record.timestamp_ms === null ? "none" : html`<${Time} ms=${record.timestamp_ms} />`}${" "}
        <span class="muted">${record.timestamp_type === "append" ? "when the broker appended it" : "said by the producer"}</span>
      </dd>
      <dt>Size</dt>
      <dd>${bytes(record.size_bytes)} of key and value</dd>
      ${record.leader_epoch !== null && html`<dt>Leader epoch</dt><dd>${record.leader_epoch}</dd>`}
    </dl>
    <${Content} title="Key" forms=${record.key_forms} path="${path}/key" />
    <${Content} title="Value" forms=${record.value_forms} path="${path}/value" />
    <${Headers} record=${record} path=${path} />
  `;
}

/** Key or value, in one form at a time. */
function Content({ title, forms, path }) {
  const [chosen, choose] = useState(null);
  if (forms === null) return html`<h3>${title}</h3><p class="muted">null</p>`;
  const there = FORMS.filter(([name]) => forms[name]);
  const [name] = there.find(([each]) => each === chosen) ?? there[0];
  const shown = forms[name];
  return html`
    <section aria-label=${title}>
      <h3>${title} <span class="muted">${bytes(shown.size_bytes)}</span></h3>
      <div class="forms" role="group" aria-label="${title} as">
        ${there.map(
          ([each, label]) => html`
            <button type="button" class="small" aria-pressed=${String(each === name)} onClick=${() => choose(each)}>${label}</button>
          `,
        )}
        <button type="button" class="small" onClick=${() => copy(shown.text, title)}>Copy</button>
        <a class="button small" href=${path} download>Download</a>
      </div>
      ${shown.schema_id !== null && html`<p class="muted">Schema ${shown.schema_id}, ${shown.format}</p>`}
      ${shown.note && html`<p class="note">${shown.note}</p>`}
      <pre tabindex="0" aria-label=${title}>${shown.text}</pre>
      ${shown.is_cut && html`<p class="note">This is the beginning. Download it to have the whole.</p>`}
    </section>
  `;
}

function Headers({ record, path }) {
  if (!record.headers.length) return html`<h3>Headers</h3><p class="muted">none</p>`;
  return html`
    <section aria-label="Headers">
      <h3>Headers <span class="muted">${record.headers.length + record.headers_left}</span></h3>
      <table class="compact">
        <caption class="visually-hidden">Headers of the message</caption>
        <thead><tr><th scope="col">Name</th><th scope="col">Value</th></tr></thead>
        <tbody>
          ${record.headers.map(
            ({ name, value }, index) => html`
              <tr>
                <th scope="row"><code>${name}</code></th>
                <td>
                  ${value === null ? html`<span class="muted">null</span>` : html`<code class="wrap">${value.text}</code>`}
                  ${value?.is_cut && html` <a href="${path}/headers/${index}" download>Download the whole</a>`}
                </td>
              </tr>
            `,
          )}
        </tbody>
      </table>
      ${record.headers_left > 0 && html`<p class="note">${record.headers_left} more are not shown.</p>`}
    </section>
  `;
}

function Actions({ record, topic }) {
  const session = useSession();
  const [dialog, setDialog] = useState(null);
  return html`
    <p class="actions">
      <button type="button" class="small" onClick=${() => copy(location.href, "Link")}>Copy link</button>
      <button type="button" class="small" onClick=${() => copy(record.json, "Message as JSON")}>Copy as JSON</button>
      <${ChangeButton} session=${session} class="small" onClick=${() => setDialog("again")}>Send again…</>
      <${ChangeButton} session=${session} class="small" onClick=${() => setDialog("copy")}>Copy to a topic…</>
    </p>
    ${dialog && html`<${CopyDialog} record=${record} target=${dialog === "again" ? topic : ""} onClose=${() => setDialog(null)} />`}
  `;
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`${what} is in the clipboard.`);
  } catch {
    toast("The browser does not let the page use the clipboard.", "error");
  }
}
