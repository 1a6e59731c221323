// Settings of a topic or a broker: each with where its value comes from, and a way to change it.
// Rules: where a value comes from is said in words. What is sensitive is never sent by brokers, and said to be hidden.
import { html, useState } from "../vendor/preact.js";
import { del, put } from "../lib/api.js";
import { ActionDialog, ChangeButton } from "../lib/dialog.js";
import { bytes, duration } from "../lib/format.js";
import { Polled, usePolled } from "../lib/poll.js";
import { useQuery } from "../lib/router.js";
import { Table } from "../lib/table.js";

const EVERY_MS = 30_000;
const NOT_SET = new Set(["DEFAULT_CONFIG", "STATIC_BROKER_CONFIG", "UNKNOWN"]);
const SOURCES = {
  DYNAMIC_TOPIC_CONFIG: "set on this topic",
  DYNAMIC_BROKER_CONFIG: "set on one broker",
  DYNAMIC_DEFAULT_BROKER_CONFIG: "set on all brokers",
  STATIC_BROKER_CONFIG: "file of the broker",
  DEFAULT_CONFIG: "default",
};
const sourceOf = (source) => SOURCES[source] ?? source.toLowerCase().replaceAll("_", " ");

/** `path` is the list of Confluent's interface, null until it is known; `of` is a name such as "topic orders". */
export function Settings({ path, of, session }) {
  const settings = usePolled(path, EVERY_MS);
  const [query, change] = useQuery();
  const [edited, setEdited] = useState(null);
  const isSetOnly = query.show === "set";
  const columns = [
    { name: "name", label: "Setting", value: (row) => row.name, show: (row) => html`<code>${row.name}</code>` },
    { name: "value", label: "Value", value: (row) => row.value ?? "", show: shownValue },
    { name: "source", label: "Where it comes from", value: (row) => sourceOf(row.source), show: shownSource },
    {
      name: "change", label: "Change", value: () => "", isUnsorted: true,
      show: (row) => row.is_read_only
        ? html`<span class="muted">only when the broker starts</span>`
        : html`<${ChangeButton} session=${session} class="small" aria-label="Change ${row.name}" onClick=${() => setEdited(row)}>Change</>`,
    },
  ]; // prettier-ignore
  const choice = html`
    <label class="switch"><input type="checkbox" checked=${isSetOnly}
      onChange=${({ target }) => change({ show: target.checked ? "set" : null })} />Only what was set</label>
  `;
  const rowsOf = (data) => (isSetOnly ? data.data.filter((row) => !NOT_SET.has(row.source)) : data.data);
  return html`
    <${Polled} of=${settings}>
      ${(data) => html`<${Table} caption="Settings of ${of}" columns=${columns} rows=${rowsOf(data)} keyOf=${(row) => row.name}
        sort="name" search="Find settings" actions=${choice} empty=${html`<p class="empty">Nothing was set: all have their defaults.</p>`} />`}
    </>
    ${edited && html`<${EditDialog} key=${edited.name} path=${path} of=${of} row=${edited} onDone=${settings.refresh} onClose=${() => setEdited(null)} />`}
  `;
}

function shownValue(row) {
  if (row.is_sensitive) return html`<span class="muted">hidden</span>`;
  if (row.value === null || row.value === "") return html`<span class="muted">empty</span>`;
  const meaning = meaningOf(row.name, row.value);
  return html`<span class="mono">${row.value}</span>${meaning && html` <span class="muted">${meaning}</span>`}`;
}

function shownSource(row) {
  return NOT_SET.has(row.source) ? sourceOf(row.source) : html`<span class="tag info">${sourceOf(row.source)}</span>`;
}

/** What a number means, by the name of its setting: "7 d", "1.0 GiB"; "" where that adds nothing. */
export function meaningOf(name, value) {
  const number = Number(value);
  if (!/^-?\d+$/.test(value) || number <= 0) return "";
  if (value.length > 15) return "no limit";
  if (/(^|\.)ms$|\.ms\./.test(name) && number >= 1000) return `= ${duration(number)}`;
  if (/(^|\.)bytes$|\.bytes\.|buffer\.size$/.test(name) && number >= 1024) return `= ${bytes(number)}`;
  return "";
}

function EditDialog({ path, of, row, onDone, onClose }) {
  const [value, setValue] = useState(row.is_sensitive ? "" : (row.value ?? ""));
  const [isReset, setReset] = useState(false);
  const isSet = !NOT_SET.has(row.source);
  const address = `${path}/${encodeURIComponent(row.name)}`;
  const below = row.synonyms?.find((each) => each.source !== row.source);
  const meaning = meaningOf(row.name, value);
  return html`
    <${ActionDialog} title="Change ${row.name}" action=${isReset ? "Use the value below" : "Set"} onDone=${onDone} onClose=${onClose}
      run=${() => (isReset ? del(address) : put(address, { value }))}
      done=${isReset ? `${row.name} of ${of} is no longer set.` : `${row.name} of ${of} is set.`}>
      <p>It takes effect at once, without a restart.</p>
      <label>Value of ${row.name}
        <input class="mono" value=${value} disabled=${isReset} autocomplete="off" spellcheck=${false}
          onInput=${({ target }) => setValue(target.value)} />
        ${meaning && html`<small>${meaning}</small>`}
      </label>
      ${isSet && html`
        <label class="switch"><input type="checkbox" checked=${isReset} onChange=${({ target }) => setReset(target.checked)} />
          <span>Take the value back${below && html`: it is then <code>${below.value ?? "empty"}</code> (${sourceOf(below.source)})`}</span></label>
      `}
    </>
  `;
}
