// How far a search has looked: as a whole, and in each partition; or how a follow goes. It always says why it stands still.
import { html } from "../vendor/preact.js";
import { bytes, count, duration } from "../lib/format.js";
import { Problem } from "../lib/problem.js";

const NAMED_COUNT = 5;
const STATES = {
  loading: "Loading…",
  running: "Searching…",
  lost: "The connection was lost. It goes on by itself where it was.",
};

/** `messages` is what `useMessages` gives. */
export function Progress({ messages }) {
  const { status, mode, progress, error, message } = messages;
  const said = mode === "follow" && status === "running" ? "Following. New messages appear at the top." : (STATES[status] ?? message);
  return html`
    <section class="search-progress" aria-label="Progress">
      <p role="status">
        <strong>${said}</strong>${" "}
        ${progress && html`<span class="muted">${summary(messages)}</span>`}
      </p>
      ${mode === "search" && progress && html`<${Whole} progress=${progress} />`}
      ${status === "running" && progress && html`<${Remarks} partitions=${progress.partitions} />`}
      ${error && html`<${Problem} error=${error} />`}
      <p class="actions">
        ${status === "running" && html`<button type="button" onClick=${messages.stop}>Stop</button>`}
        ${canGoOn(messages) && html`<button type="button" class="primary" onClick=${messages.goOn}>Go on</button>`}
        ${["failed", "stopped", "ended"].includes(status) &&
        html`<button type="button" onClick=${messages.again}>Begin again</button>`}
      </p>
      ${mode === "search" && progress && html`<${Partitions} partitions=${progress.partitions} />`}
    </section>
  `;
}

const canGoOn = ({ status, cursor }) => cursor && ["paused", "stopped", "failed"].includes(status);

function summary({ mode, progress, records, dropped }) {
  const found = mode === "follow" ? "" : `${count(progress.hits)} found, `;
  const parts = [`${found}${count(progress.records_read)} messages (${bytes(progress.bytes_read)}) read`];
  if (progress.bytes_per_second) parts.push(`${bytes(progress.bytes_per_second)}/s`);
  if (progress.left_ms) parts.push(`about ${duration(progress.left_ms)} left`);
  if (progress.skipped_records) parts.push(`${count(progress.skipped_records)} were passed over, since more came than can be shown`);
  if (dropped) parts.push(`the latest ${count(records.length)} are shown`);
  return parts.join(", ");
}

/** Offsets that were looked at, and how many there are. */
function sum(partitions) {
  let [done, all] = [0, 0];
  for (const { from, at, end } of partitions) {
    done += Math.max(Math.min(at, end) - from, 0);
    all += Math.max(end - from, 0);
  }
  return [done, all];
}

function Whole({ progress }) {
  const [done, all] = sum(progress.partitions);
  const percent = all ? Math.floor((done / all) * 100) : 100;
  return html`
    <p class="bar">
      <progress max=${all || 1} value=${all ? done : 1} aria-label="Searched"></progress>
      <span>${percent} % of ${count(all)} offsets in ${count(progress.partitions.length)} partitions</span>
    </p>
  `;
}

/** What is said of partitions that are not done, such as that nothing comes of them; each remark once. */
function Remarks({ partitions }) {
  const byNote = new Map();
  for (const { partition, is_done, note } of partitions) {
    if (note && !is_done) byNote.set(note, [...(byNote.get(note) ?? []), partition]);
  }
  return [...byNote].map(([note, numbers]) => {
    const more = numbers.length > NAMED_COUNT ? ` and ${count(numbers.length - NAMED_COUNT)} more` : "";
    const names = `${numbers.length > 1 ? "Partitions" : "Partition"} ${numbers.slice(0, NAMED_COUNT).join(", ")}${more}`;
    return html`<p class="note" key=${note}>${names}: ${note}.</p>`;
  });
}

function Partitions({ partitions }) {
  return html`
    <details>
      <summary>Each partition</summary>
      <div class="scroll" tabindex="0" role="region" aria-label="Progress of each partition">
        <table class="compact">
          <caption class="visually-hidden">How far each partition was searched</caption>
          <thead>
            <tr>
              <th scope="col" class="number">Partition</th>
              <th scope="col">Searched</th>
              <th scope="col" class="number">From</th>
              <th scope="col" class="number">At</th>
              <th scope="col" class="number">End</th>
              <th scope="col">Note</th>
            </tr>
          </thead>
          <tbody>
            ${partitions.map((each) => html`<${Partition} key=${each.partition} of=${each} />`)}
          </tbody>
        </table>
      </div>
    </details>
  `;
}

function Partition({ of }) {
  const all = Math.max(of.end - of.from, 0);
  const done = Math.max(Math.min(of.at, of.end) - of.from, 0);
  return html`
    <tr>
      <td class="number">${of.partition}</td>
      <td><progress max=${all || 1} value=${all ? done : 1} aria-label="Partition ${of.partition}"></progress></td>
      <td class="number">${of.from}</td>
      <td class="number">${of.at}</td>
      <td class="number">${of.end}</td>
      <td>${of.is_done ? "done" : of.note}</td>
    </tr>
  `;
}
