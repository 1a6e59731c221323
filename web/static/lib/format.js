// Figures and times as people read them. Times are shown in the reader's zone; the exact value in UTC is at hand as `title`.
import { html } from "../vendor/preact.js";

const COUNT = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const DAY_MS = 86_400_000;
export const NONE = "–";

const isKnown = (value) => value !== null && value !== undefined && Number.isFinite(Number(value));

/** 12,345; what is not known is a dash. */
export const count = (value) => (isKnown(value) ? COUNT.format(Number(value)) : NONE);

/** 1 partition, 12,345 partitions: a figure with its noun, whose plural ends with s. */
export const counted = (value, noun) => `${count(value)} ${noun}${Number(value) === 1 ? "" : "s"}`;

/** 12.3K, where there is little room. */
export const shortCount = (value) => (isKnown(value) ? SHORT.format(Number(value)) : NONE);

/** 1.5 MiB */
export function bytes(value) {
  if (!isKnown(value)) return NONE;
  let rest = Number(value);
  let unit = 0;
  while (Math.abs(rest) >= 1024 && unit < UNITS.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || Math.abs(rest) >= 100 ? 0 : 1;
  return `${rest.toFixed(digits)} ${UNITS[unit]}`;
}

/** 12.3/s, or 1.5 MiB/s where `of` is "bytes". */
export function rate(value, of = "count") {
  if (!isKnown(value)) return NONE;
  if (of === "bytes") return `${bytes(value)}/s`;
  return `${Number(value) < 10 ? Number(value).toFixed(1).replace(/\.0$/, "") : shortCount(value)}/s`;
}

/** 0.425 is 43 %. */
export const percent = (value) => (isKnown(value) ? `${Math.round(value * 100)} %` : NONE);

/** "1 topic", "2 topics". */
export const plural = (value, one, many = `${one}s`) => `${count(value)} ${Number(value) === 1 ? one : many}`;

/** 350 ms, 4.2 s, 3 min, 2 h 5 min, 4 d */
export function duration(ms) {
  if (!isKnown(ms)) return NONE;
  const value = Math.max(Number(ms), 0);
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 60_000) return `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)} s`;
  const minutes = Math.round(value / 60_000);
  if (minutes < 60) return `${minutes} min`;
  if (value < 2 * DAY_MS) return minutes % 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${minutes / 60} h`;
  return `${Math.round(value / DAY_MS)} d`;
}

const two = (value) => String(value).padStart(2, "0");
const dayOf = (date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;

/** The time of day, with the date where it is not today; milliseconds where they are not zero. */
export function timeText(ms) {
  const date = new Date(Number(ms));
  if (Number.isNaN(date.getTime())) return String(ms);
  const rest = date.getMilliseconds() ? `.${String(date.getMilliseconds()).padStart(3, "0")}` : "";
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}${rest}`;
  return dayOf(date) === dayOf(new Date()) ? time : `${dayOf(date)} ${time}`;
}

/** A time in the reader's zone; the exact one in UTC, and in milliseconds, is its title. */
export function Time({ ms }) {
  if (!isKnown(ms)) return NONE;
  const date = new Date(Number(ms));
  if (Number.isNaN(date.getTime())) return html`<span title="a time outside of the calendar">${ms} ms</span>`;
  const exact = date.toISOString();
  return html`<time datetime=${exact} title="${exact} (${ms})">${timeText(ms)}</time>`;
}
