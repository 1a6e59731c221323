// Sets the offsets of a group: first it is shown what they would be, then they are committed.
import { html, useState } from "../vendor/preact.js";
import { post } from "../lib/api.js";
import { Dialog } from "../lib/dialog.js";
import { count, counted } from "../lib/format.js";
import { Problem } from "../lib/problem.js";
import { toast } from "../lib/toast.js";
import { Choice, Field } from "./fields.js";

const TARGETS = [
  ["earliest", "the first record"],
  ["latest", "the end"],
  ["time", "the first record since a time"],
  ["offset", "an offset"],
  ["shift", "so many records forward, or back"],
];
const ALL = "";

export function ResetDialog({ group, onClose, onDone }) {
  const [to, setTo] = useState("earliest");
  const [value, setValue] = useState("");
  const [topic, setTopic] = useState(ALL);
  const [preview, setPreview] = useState(null);
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const topics = [...new Set(group.partitions.map((each) => each.topic))];
  const change = (set) => (next) => {
    set(next);
    setPreview(null);
  };
  const ask = async (execute) => {
    setBusy(true);
    setError(null);
    try {
      const found = await post("/api/groups/offsets", { ...bodyOf(group.group, to, value, topic), execute });
      if (!execute) return setPreview(found.partitions);
      toast(`Offsets are set: ${counted(found.partitions.length, "partition")}.`);
      onClose();
      return onDone();
    } catch (failure) {
      return setError(failure);
    } finally {
      setBusy(false);
    }
  };
  const submit = (event) => {
    event.preventDefault();
    ask(preview !== null);
  };
  return html`
    <${Dialog} title="Set offsets of group ${group.group}" onClose=${onClose}>
      <form onSubmit=${submit}>
        ${group.members.length > 0 && html`<p class="note">The group has ${counted(group.members.length, "member")}: stop its consumers first.</p>`}
        <div class="fields">
          <${Choice} label="To" value=${to} choices=${TARGETS} onChange=${change(setTo)} />
          <${Value} to=${to} value=${value} onChange=${change(setValue)} />
          <${Choice} label="Of" value=${topic} choices=${[[ALL, group.kind === "share" ? "all that it has read" : "all that it has committed"], ...topics]} onChange=${change(setTopic)} />
        </div>
        ${error && html`<${Problem} error=${error} />`}
        ${preview && html`<${Preview} rows=${preview} />`}
        <p class="actions">
          <button type="submit" class=${preview ? "danger" : "primary"} disabled=${isBusy}>${preview ? "Set these offsets" : "Show what changes"}</button>
          <button type="button" onClick=${onClose}>Cancel</button>
        </p>
      </form>
    </>
  `;
}

function Value({ to, value, onChange }) {
  if (to === "time") return html`<${Field} label="Time, in this browser's zone" type="datetime-local" step="1" required value=${value} onChange=${onChange} />`;
  if (to === "offset") return html`<${Field} label="Offset" type="number" min="0" required value=${value} onChange=${onChange} />`;
  if (to === "shift") return html`<${Field} label="Records" type="number" required value=${value} onChange=${onChange} hint="-10 goes back by ten" />`;
  return null;
}

function bodyOf(group, to, value, topic) {
  const body = { group, to };
  if (to === "time") body.value = new Date(value).getTime();
  if (to === "offset" || to === "shift") body.value = Number(value);
  if (topic !== ALL) body.topics = [topic];
  return body;
}

function Preview({ rows }) {
  const adjusted = rows.filter((each) => each.wanted !== each.new_offset).length;
  return html`
    ${adjusted > 0 && html`<p class="note">${counted(adjusted, "partition")} without the offset that was asked for: the nearest is taken.</p>`}
    <div class="scroll" tabindex="0" role="region" aria-label="What changes">
      <table>
        <caption class="visually-hidden">What changes</caption>
        <thead><tr><th scope="col">Partition</th><th scope="col" class="number">Now</th><th scope="col" class="number">Then</th></tr></thead>
        <tbody>
          ${rows.map(
            (each) => html`<tr key=${`${each.topic}-${each.partition}`}><td>${each.topic}-${each.partition}</td>
              <td class="number">${count(each.current_offset)}</td><td class="number">${count(each.new_offset)}</td></tr>`,
          )}
        </tbody>
      </table>
    </div>
  `;
}
