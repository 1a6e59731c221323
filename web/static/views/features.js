// Feature levels of the cluster, which open what clients of Apache Kafka 4 use.
import { html, useState } from "../vendor/preact.js";
import { post, useSession } from "../lib/api.js";
import { ActionDialog, ChangeButton } from "../lib/dialog.js";
import { Empty } from "../lib/empty.js";
import { Polled, usePolled } from "../lib/poll.js";
import { Table } from "../lib/table.js";
import { Field } from "../parts/fields.js";

export function Features() {
  const found = usePolled("/api/features", 15_000);
  return html`<${Polled} of=${found}>${(data) => html`<${List} data=${data} refresh=${found.refresh} />`}</>`;
}

function List({ data, refresh }) {
  const session = useSession();
  const [feature, setFeature] = useState(null);
  const columns = [
    { name: "name", label: "Feature", value: (row) => row.name },
    { name: "level", label: "Level", value: (row) => row.level, isNumber: true },
    { name: "supported", label: "All brokers support", value: (row) => (row.last_supported === null ? null : `0 to ${row.last_supported}`) },
    {
      name: "change",
      label: "Change",
      isUnsorted: true,
      value: () => "",
      show: (row) => html`<${ChangeButton} session=${session} class="small" aria-label="Change ${row.name}" onClick=${() => setFeature(row)}>Change…</>`,
    },
  ];
  const isPlain = data.features.every((each) => each.level === 0);
  return html`
    <${Table} caption="Features" columns=${columns} rows=${data.features} keyOf=${(row) => row.name} sort="name"
      empty=${html`<${Empty} title="The brokers tell no features." next="barnabas features describe" />`} />
    ${isPlain && html`<p class="muted">No level is above 0: clients see a cluster of Apache Kafka 3.9.</p>`}
    ${feature && html`<${Change} feature=${feature} data=${data} isFirst=${isPlain} onClose=${() => setFeature(null)} onDone=${refresh} />`}
  `;
}

function Change({ feature, data, isFirst, onClose, onDone }) {
  const [level, setLevel] = useState(String(feature.level));
  const isLower = Number(level) < feature.level;
  return html`
    <${ActionDialog} title="Level of ${feature.name}" action="Set the level" isDangerous done="The level is set."
      run=${() => post("/api/features", { name: feature.name, level: Number(level) })} onDone=${onDone} onClose=${onClose}>
      <${Field} label="Level" type="number" min="0" max=${feature.last_supported} required value=${level} onChange=${setLevel} />
      ${isFirst && html`<p class="note">With a level above 0 brokers of Apache Kafka 3.9 can no longer join: they stop when they read this level, whether they run or start.</p>`}
      ${isLower && feature.name === "group.version" && data.stopping.length > 0 &&
      html`<p class="note">These consumer groups stop: ${data.stopping.join(", ")}.</p>`}
    </>
  `;
}
