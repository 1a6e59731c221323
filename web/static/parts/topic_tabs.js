// The views of one topic.
import { html } from "../vendor/preact.js";
import { pageUrl } from "../lib/router.js";

const TABS = [
  ["topic", "Partitions", ""],
  ["settings", "Settings", "settings"],
  ["messages", "Messages", "messages"],
];

/** `current` is the name of the view that is shown. */
export function TopicTabs({ topic, current }) {
  return html`
    <nav class="tabs" aria-label="Topic ${topic}">
      ${TABS.map(
        ([name, label, path]) => html`
          <a href=${pageUrl("/topics", ...[topic, path].filter(Boolean))} aria-current=${name === current ? "page" : null}>${label}</a>
        `,
      )}
    </nav>
  `;
}
