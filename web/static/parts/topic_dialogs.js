// What is changed about a topic as a whole: created, given partitions, deleted. Each dialog says what will happen.
import { html, useState } from "../vendor/preact.js";
import { del, patch, post } from "../lib/api.js";
import { ActionDialog } from "../lib/dialog.js";
import { plural } from "../lib/format.js";
import { go, pageUrl } from "../lib/router.js";

const numberOf = (text) => (text === "" ? null : Number(text));

/** Lines such as "retention.ms=1000" as settings. Throws Error for another line. */
export function settingsOf(text) {
  return text.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`no setting: ${line}: write name=value`);
    return { name: line.slice(0, at).trim(), value: line.slice(at + 1).trim() };
  });
}

export function CreateTopic({ clusterUrl, onClose }) {
  const [name, setName] = useState("");
  const [partitions, setPartitions] = useState("");
  const [replicas, setReplicas] = useState("");
  const [settings, setSettings] = useState("");
  const run = async () => post(clusterUrl("topics"), {
    topic_name: name,
    partitions_count: numberOf(partitions),
    replication_factor: numberOf(replicas),
    configs: settingsOf(settings),
  }); // prettier-ignore
  return html`
    <${ActionDialog} title="Create a topic" action="Create" run=${run} done="Topic ${name} is created." onClose=${onClose}
      onDone=${() => go(pageUrl("/topics", name))}>
      <label>Name
        <input class="mono" value=${name} required maxlength="249" pattern="[A-Za-z0-9._\\-]+" autocomplete="off" spellcheck=${false}
          title="Letters, digits, dots, underscores and hyphens" onInput=${({ target }) => setName(target.value)} />
        <small>Letters, digits, dots, underscores and hyphens</small>
      </label>
      <div class="fields">
        <label>Partitions
          <input type="number" min="1" value=${partitions} placeholder="as the cluster says" onInput=${({ target }) => setPartitions(target.value)} /></label>
        <label>Replicas of each
          <input type="number" min="1" value=${replicas} placeholder="as the cluster says" onInput=${({ target }) => setReplicas(target.value)} /></label>
      </div>
      <label>Settings, one a line
        <textarea rows="3" value=${settings} placeholder="retention.ms=86400000" spellcheck=${false} onInput=${({ target }) => setSettings(target.value)}></textarea></label>
    </>
  `;
}

export function GrowTopic({ clusterUrl, topic, partitions, onDone, onClose }) {
  const [wanted, setWanted] = useState(String(partitions + 1));
  return html`
    <${ActionDialog} title="Give ${topic} more partitions" action="Add partitions" onDone=${onDone} onClose=${onClose}
      done="${topic} has ${plural(Number(wanted), "partition")}." run=${() => patch(clusterUrl("topics", topic), { partitions_count: Number(wanted) })}>
      <p>It has ${plural(partitions, "partition")}. The number cannot be lowered again, and records with the same key may go to another
        partition than before.</p>
      <label>Partitions, from now on
        <input type="number" min=${partitions + 1} value=${wanted} required onInput=${({ target }) => setWanted(target.value)} /></label>
    </>
  `;
}

export function DeleteTopic({ clusterUrl, topic, onClose }) {
  return html`
    <${ActionDialog} title="Delete ${topic}" action="Delete the topic" isDangerous confirm=${topic} onClose=${onClose}
      run=${() => del(clusterUrl("topics", topic))} done="Topic ${topic} is deleted." onDone=${() => go(pageUrl("/topics"))}>
      <p>All its records are deleted on all brokers, and cannot be brought back. Groups that read it lose their place in it.</p>
    </>
  `;
}
