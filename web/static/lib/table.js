// Rows that can be sorted and searched, as many as there are: of more than WINDOW rows only those in sight are drawn.
// Rules: what is sorted and searched is in the address, so that it can be sent; `id` keeps several tables of a view apart.
// What is not known comes last. Arrow keys move between rows.
import { html, useMemo, useRef, useState } from "../vendor/preact.js";
import { count } from "./format.js";
import { useQuery } from "./router.js";

const WINDOW = 200;
const ROW_PX = 33;
const MARGIN = 30;

/**
 * @typedef {{name: string, label: string, value: (row: any) => any, show?: (row: any) => any, isNumber?: boolean,
 *   isUnsorted?: boolean, title?: string}} Column
 *   `value` is what it is sorted and searched by; `show` is what is drawn, by default the value
 * @param {{id?: string, caption: string, columns: Column[], rows: any[], keyOf: (row: any) => string, sort?: string,
 *   search?: string, empty?: any, actions?: any, rowClass?: (row: any) => string}} given
 *   `sort` is the name of the column that it is sorted by first, with "-" in front: from the highest down. `search` is the
 *   label of a box that searches in all columns; without it there is none.
 */
export function Table({ id = "", caption, columns, rows, keyOf, sort, search, empty = null, actions = null, rowClass }) {
  const [query, change] = useQuery();
  const [sortName, searchName] = [`${id}sort`, `${id}filter`];
  const order = query[sortName] || sort || "";
  const words = search ? (query[searchName] ?? "") : "";
  const shown = useMemo(() => sorted(found(rows, columns, words), columns, order), [rows, columns, words, order]);
  const choose = ({ name, isNumber }) => {
    const first = isNumber ? `-${name}` : name;
    const other = isNumber ? name : `-${name}`;
    change({ [sortName]: order === first ? other : first });
  };
  return html`
    <div class="table-tools">
      ${search &&
      html`<label class="find">${search}
        <input type="search" value=${words} data-shortcut="search" onInput=${({ target }) => change({ [searchName]: target.value })} />
      </label>`}
      <span class="muted" role="status">${tally(shown.length, rows.length)}</span>
      ${actions && html`<div class="actions end">${actions}</div>`}
    </div>
    ${shown.length === 0 && rows.length === 0
      ? empty
      : html`<${Rows} caption=${caption} columns=${columns} rows=${shown} keyOf=${keyOf} order=${order} choose=${choose} rowClass=${rowClass} />`}
  `;
}

const tally = (shown, all) => (shown === all ? `${count(all)} ${all === 1 ? "row" : "rows"}` : `${count(shown)} of ${count(all)} rows`);

function found(rows, columns, words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return rows;
  return rows.filter((row) => {
    const text = columns.map((column) => String(column.value(row) ?? "")).join(" ").toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}

function sorted(rows, columns, order) {
  const isDown = order.startsWith("-");
  const column = columns.find((each) => each.name === (isDown ? order.slice(1) : order));
  if (!column) return rows;
  const sign = isDown ? -1 : 1;
  const keyed = rows.map((row) => [column.value(row) ?? null, row]);
  return keyed.sort(([a], [b]) => compared(a, b, sign)).map(([, row]) => row);
}

const TEXTS = new Intl.Collator("en", { numeric: true });

function compared(a, b, sign) {
  if (a === b) return 0;
  if (a === null) return 1;
  if (b === null) return -1;
  if (typeof a === "string" || typeof b === "string") return sign * TEXTS.compare(String(a), String(b));
  return a < b ? -sign : sign;
}

function Rows({ caption, columns, rows, keyOf, order, choose, rowClass }) {
  const box = useRef(null);
  const [top, setTop] = useState(0);
  const isWindow = rows.length > WINDOW;
  const first = isWindow ? Math.max(Math.min(Math.floor(top / ROW_PX), rows.length) - MARGIN, 0) : 0;
  const last = isWindow ? Math.min(first + WINDOW, rows.length) : rows.length;
  return html`
    <div class="scroll ${isWindow ? "window" : ""}" ref=${box} tabindex="0" role="region" aria-label=${caption}
      onScroll=${isWindow ? () => setTop(box.current.scrollTop) : null}>
      <table aria-rowcount=${rows.length + 1}>
        <caption class="visually-hidden">${caption}</caption>
        <thead>
          <tr>${columns.map((each) => html`<${Head} key=${each.name} column=${each} order=${order} choose=${choose} />`)}</tr>
        </thead>
        <tbody onKeyDown=${moveBetweenRows}>
          ${first > 0 && html`<${Gap} rows=${first} width=${columns.length} />`}
          ${rows.slice(first, last).map(
            (row, index) => html`
              <tr key=${keyOf(row)} aria-rowindex=${first + index + 2} class=${rowClass?.(row) ?? ""}>
                ${columns.map((each) => html`<${Cell} key=${each.name} column=${each} row=${row} />`)}
              </tr>
            `,
          )}
          ${last < rows.length && html`<${Gap} rows=${rows.length - last} width=${columns.length} />`}
        </tbody>
      </table>
    </div>
  `;
}

function Head({ column, order, choose }) {
  const isUp = order === column.name;
  const isDown = order === `-${column.name}`;
  const state = isUp ? "ascending" : isDown ? "descending" : null;
  return html`
    <th scope="col" class=${column.isNumber ? "number" : ""} aria-sort=${state} title=${column.title}>
      ${column.isUnsorted
        ? column.label
        : html`<button type="button" class="sort" onClick=${() => choose(column)}>
            ${column.label}<span aria-hidden="true">${isUp ? " ▲" : isDown ? " ▼" : ""}</span>
          </button>`}
    </th>
  `;
}

function Cell({ column, row }) {
  const shown = column.show ? column.show(row) : column.value(row);
  return html`<td class=${column.isNumber ? "number" : ""}>${shown ?? html`<span class="muted">–</span>`}</td>`;
}

/** The room of rows that are not drawn. */
function Gap({ rows, width }) {
  const ref = (element) => {
    if (element) element.style.height = `${rows * ROW_PX}px`;
  };
  return html`<tr aria-hidden="true"><td colspan=${width} class="gap"><div ref=${ref}></div></td></tr>`;
}

/** An arrow key goes to the first link or button of the row above or below. */
function moveBetweenRows(event) {
  const side = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  if (!side || event.target.matches("input, select, textarea")) return;
  let row = event.target.closest("tr")?.[side];
  while (row && !row.querySelector("a, button")) row = row[side];
  if (!row) return;
  event.preventDefault();
  row.querySelector("a, button").focus();
}
