// The messages as rows. A row opens the message; the link in it has an address of its own.
import { html } from "../vendor/preact.js";
import { Time, bytes } from "../lib/format.js";
import { keyOf } from "./query.js";

const SHORT = 240;

/** What is shown of a key or a value in a row: its beginning, in one line. */
export function short(shown) {
  if (shown === null) return html`<span class="muted">null</span>`;
  const text = shown.text.length > SHORT ? `${shown.text.slice(0, SHORT)}…` : shown.text;
  if (text === "") return html`<span class="muted">empty</span>`;
  const label = shown.format === "text" || shown.format === "json" ? "" : shown.format;
  return html`${label && html`<span class="tag">${label}</span> `}<code>${text}</code>`;
}

/** `address` gives the link of a record, `opened` is the key of the one that is open. */
export function List({ records, opened, address, caption }) {
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${caption}>
      <table class="messages">
        <caption class="visually-hidden">${caption}</caption>
        <thead>
          <tr>
            <th scope="col">Time</th>
            <th scope="col" class="number">Partition</th>
            <th scope="col" class="number">Offset</th>
            <th scope="col">Key</th>
            <th scope="col">Value</th>
            <th scope="col">Headers</th>
            <th scope="col" class="number">Size</th>
          </tr>
        </thead>
        <tbody>
          ${records.map((each) => html`<${Row} key=${keyOf(each)} record=${each} isOpen=${keyOf(each) === opened} href=${address(each)} />`)}
        </tbody>
      </table>
    </div>
  `;
}

function Row({ record, isOpen, href }) {
  const headers = record.headers.map((each) => each.name).join(", ");
  const more = record.headers_left ? ` and ${record.headers_left} more` : "";
  const open = (event) => {
    if (!event.target.closest("a") && !String(getSelection())) event.currentTarget.querySelector("a").click();
  };
  return html`
    <tr class=${isOpen ? "opened" : ""} onClick=${open}>
      <td>${record.timestamp_ms === null ? "none" : html`<${Time} ms=${record.timestamp_ms} />`}</td>
      <td class="number">${record.partition}</td>
      <td class="number">
        <a href=${href} aria-current=${isOpen ? "true" : null}
          aria-label="Open message ${record.offset} of partition ${record.partition}">${record.offset}</a>
      </td>
      <td class="cell">${short(record.key)}</td>
      <td class="cell">${short(record.value)}</td>
      <td class="cell">${headers}${more}</td>
      <td class="number">${bytes(record.size_bytes)}</td>
    </tr>
  `;
}
