// Lines over time, as SVG, with a text that says the same.
// Rules: a gap in the points is a gap in the line. Times are in ms; `null` is a value that is not known. Each line has dashes
// of its own, so that it is told apart without colour; the mouse, or the arrow keys, show exact values.
import { html, useState } from "../vendor/preact.js";
import { timeText } from "./format.js";

const [WIDTH, HEIGHT, BOTTOM, TOP] = [400, 140, 22, 8];
const CHARACTER = 6.8;
const STEPS = 4;
const DASHES = [null, "6 3", "2 3", "9 3 2 3", "14 4", "1 4"];

/**
 * @param {{title: string, times: number[], lines: {label: string, values: (number | null)[]}[],
 *   format: (value: number) => string, note?: string}} given `format` shows a value; `note` says why there is little
 */
export function Plot({ title, times, lines, format, note = "" }) {
  const [at, setAt] = useState(null);
  const known = lines.flatMap((line) => line.values).filter((value) => value !== null && value !== undefined);
  if (times.length < 2 || !known.length) {
    return html`<figure class="plot"><figcaption>${title}</figcaption><p class="muted">${note || "There are no figures yet: the first come within half a minute."}</p></figure>`;
  }
  const top = roundUp(Math.max(...known));
  const steps = stepsOf(top, format);
  const left = 10 + CHARACTER * Math.max(...steps.map((value) => format(value).length));
  const x = (index) => left + ((times[index] - times[0]) / (times.at(-1) - times[0])) * (WIDTH - left - 4);
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
  const point = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * WIDTH;
    setAt(times.reduce((best, _, index) => (Math.abs(x(index) - place) < Math.abs(x(best) - place) ? index : best), 0));
  };
  const step = (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    setAt(Math.min(Math.max((at ?? times.length) + by, 0), times.length - 1));
  };
  const leave = () => setAt(null);
  const shown = Math.min(at ?? times.length, times.length - 1);
  return html`
    <figure class="plot">
      <figcaption>${title}</figcaption>
      <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" tabindex="0" aria-label=${spoken(title, lines, format)}
        onPointerMove=${point} onPointerLeave=${leave} onKeyDown=${step} onBlur=${leave}>
        ${steps.map(
          (value) => html`
            <line class="grid" x1=${left} x2=${WIDTH} y1=${y(value)} y2=${y(value)} />
            <text class="axis" x=${left - 6} y=${y(value) + 4} text-anchor="end">${format(value)}</text>
          `,
        )}
        <text class="axis" x=${left} y=${HEIGHT - 4}>${timeText(wholeSecond(times[0]))}</text>
        <text class="axis" x=${WIDTH} y=${HEIGHT - 4} text-anchor="end">${timeText(wholeSecond(times.at(-1)))}</text>
        ${lines.map((line, index) => html`<path class="line line-${index % 6}" stroke-dasharray=${DASHES[index % 6]} d=${pathOf(line.values, x, y)} />`)}
        ${at !== null && html`<line class="at" x1=${x(shown)} x2=${x(shown)} y1=${TOP} y2=${HEIGHT - BOTTOM} />`}
      </svg>
      <ul class="legend">
        ${lines.map(
          (line, index) => html`
            <li><svg class="mark line-${index % 6}" viewBox="0 0 24 8" aria-hidden="true">
              <line x1="0" x2="24" y1="4" y2="4" stroke-dasharray=${DASHES[index % 6]} /></svg>${line.label}${" "}
              <strong>${line.values[shown] === null || line.values[shown] === undefined ? "–" : format(line.values[shown])}</strong></li>
          `,
        )}
        ${at !== null && html`<li class="muted">${timeText(times[shown])}</li>`}
      </ul>
      ${note && html`<p class="muted">${note}</p>`}
    </figure>
  `;
}

const wholeSecond = (ms) => Math.round(ms / 1000) * 1000;

/** The values that the grid has lines for; of several that are shown alike, the first. */
function stepsOf(top, format) {
  const steps = Array.from({ length: STEPS + 1 }, (_, step) => (top * step) / STEPS);
  return steps.filter((value, index) => index === 0 || format(value) !== format(steps[index - 1]));
}

const isUnknown = (value) => value === null || value === undefined;

function pathOf(values, x, y) {
  let path = "";
  let isDrawing = false;
  for (const [index, value] of values.entries()) {
    if (isUnknown(value)) {
      isDrawing = false;
      continue;
    }
    path += `${isDrawing ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
    if (!isDrawing && isUnknown(values[index + 1])) path += "h1"; // alone it is a dot
    isDrawing = true;
  }
  return path;
}

function roundUp(value) {
  if (value <= 0) return 1;
  const unit = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 8, 10].map((each) => each * unit).find((each) => each >= value);
}

function spoken(title, lines, format) {
  const each = lines.map(({ label, values }) => {
    const known = values.filter((value) => value !== null && value !== undefined);
    if (!known.length) return `${label}: not known`;
    return `${label}: now ${format(known.at(-1))}, at most ${format(Math.max(...known))}`;
  });
  return `${title}. ${each.join("; ")}.`;
}
