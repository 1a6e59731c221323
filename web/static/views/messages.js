// The messages of a topic: a page of them, what is found, or what comes. The address says which, so that it can be sent.
import { html, useState } from "../vendor/preact.js";
import { useSession } from "../lib/api.js";
import { ChangeButton } from "../lib/dialog.js";
import { Empty } from "../lib/empty.js";
import { Problem } from "../lib/problem.js";
import { Details } from "../messages/details.js";
import { Filters } from "../messages/filters.js";
import { List } from "../messages/list.js";
import { Progress } from "../messages/progress.js";
import { conditionsOf, messagesUrl, modeOf, parametersOf, placeOf, useMessagesQuery } from "../messages/query.js";
import { useMessages } from "../messages/stream.js";
import { ProduceDialog } from "../messages/writing.js";
import { TopicTabs } from "../parts/topic_tabs.js";

export function Messages({ topic }) {
  const [query, change] = useMessagesQuery();
  const place = placeOf(query.get("record"));
  return html`
    <${TopicTabs} topic=${topic} current="messages" />
    <${Actions} topic=${topic} query=${query} />
    <${Filters} query=${query} change=${change} topic=${topic} />
    <div class=${place ? "beside" : ""}>
      <${Found} topic=${topic} query=${query} opened=${query.get("record")} />
      ${place && html`<${Details} key=${query.get("record")} topic=${topic} place=${place} parameters=${formatsOf(query)}
        onClose=${() => close(change, query.get("record"))} />`}
    </div>
  `;
}

const formatsOf = (query) => {
  const given = ["key_format", "value_format"].filter((name) => query.get(name)).map((name) => [name, query.get(name)]);
  return new URLSearchParams(given).toString();
};

/** Close the message, and give the focus back to its row. */
function close(change, opened) {
  change({ record: null });
  requestAnimationFrame(() => document.querySelector(`a[href*="record=${opened}"]`)?.focus());
}

function Found({ topic, query, opened }) {
  const messages = useMessages(topic, query);
  const { status, mode, records, page, error, message } = messages;
  const address = (record) => {
    const next = new URLSearchParams(query);
    next.set("record", `${record.partition}-${record.offset}`);
    return `${location.pathname}?${next}`;
  };
  const isBrowsing = mode === "browse";
  return html`
    <section class="found" aria-label="Messages" aria-busy=${String(status === "loading")}>
      ${!isBrowsing && html`<${Progress} messages=${messages} />`}
      ${isBrowsing && status === "loading" && !records.length && html`<p class="loading" role="status">Loading…</p>`}
      ${isBrowsing && error && html`<${Problem} error=${error} retry=${messages.again} />`}
      ${isBrowsing && message && html`<p class="note" role="status">${message}</p>`}
      ${records.length
        ? html`<${List} records=${records} opened=${opened} address=${address} caption="Messages of ${topic}" />`
        : status !== "loading" && !error && html`<${Nothing} topic=${topic} query=${query} status=${status} page=${page} />`}
      ${isBrowsing && page && html`<${Pages} page=${page} messages=${messages} />`}
    </section>
  `;
}

function Pages({ page, messages }) {
  return html`
    <nav class="pages" aria-label="Pages of messages">
      <button type="button" disabled=${!page.older} onClick=${messages.older}>Older</button>
      <button type="button" disabled=${!page.newer} onClick=${messages.newer}>Newer</button>
      <button type="button" onClick=${messages.again}>Load again</button>
    </nav>
  `;
}

function Nothing({ topic, query, status, page }) {
  const mode = modeOf(query);
  if (mode === "search") return status === "ended" ? html`<${Empty} title="No message fits these conditions." />` : null;
  if (mode === "follow") return html`<${Empty} title="No message has come yet." next="barnabas produce ${topic}" />`;
  const isEmpty = page?.partitions.every(({ first, end }) => first === end);
  return isEmpty
    ? html`<${Empty} title="The topic has no messages." next="barnabas produce ${topic}" />`
    : html`<${Empty} title="There is no message here. Choose another position." />`;
}

function Actions({ topic, query }) {
  const session = useSession();
  const [isWriting, setWriting] = useState(false);
  const download = (format) => `${messagesUrl(topic, "download")}?${parametersOf(query, { format })}`;
  const what = conditionsOf(query).length ? "what fits" : "messages";
  return html`
    <p class="actions">
      <${ChangeButton} session=${session} onClick=${() => setWriting(true)}>Produce…</>
      <a class="button" href=${download("jsonl")} download>Download ${what} as JSON lines</a>
      <a class="button" href=${download("csv")} download>as CSV</a>
    </p>
    ${isWriting && html`<${ProduceDialog} topic=${topic} onClose=${() => setWriting(false)} />`}
  `;
}
