// One topic: its partitions and settings.
import { html } from "../vendor/preact.js";
import { Throughput } from "../parts/throughput.js";
import { TopicTabs } from "../parts/topic_tabs.js";

export function Topic({ topic }) {
  return html`
    <${TopicTabs} topic=${topic} current="topic" />
    <${Throughput} topic=${topic} />
  `;
}
