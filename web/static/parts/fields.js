// Fields of forms, each with its label.
import { html } from "../vendor/preact.js";

/** `choices` are texts, or pairs of a value and a text. */
export function Choice({ label, value, choices, onChange }) {
  return html`
    <label>${label}
      <select value=${value} onChange=${({ target }) => onChange(target.value)}>
        ${choices.map((each) => {
          const [key, text] = Array.isArray(each) ? each : [each, each];
          return html`<option value=${key} selected=${key === value}>${text}</option>`;
        })}
      </select>
    </label>
  `;
}

/** `hint` stands below the field and is read out with it. */
export function Field({ label, value, onChange, hint, ...rest }) {
  return html`
    <label>${label}
      <input autocomplete="off" spellcheck=${false} ...${rest} value=${value} onInput=${({ target }) => onChange(target.value)} />
      ${hint && html`<span class="muted">${hint}</span>`}
    </label>
  `;
}

export function Check({ label, value, onChange }) {
  return html`
    <label class="inline">
      <input type="checkbox" checked=${value} onChange=${({ target }) => onChange(target.checked)} />
      <span>${label}</span>
    </label>
  `;
}

/** The words of a text with commas or spaces between them. */
export const words = (text) => text.split(/[\s,]+/).filter(Boolean);

/**
 * The whole numbers of a text, or null where one is none.
 * @returns {number[] | null}
 */
export function numbers(text) {
  const found = words(text);
  return found.every((each) => /^\d+$/.test(each)) ? found.map(Number) : null;
}

const UNITS = { "": 1, K: 1024, M: 1024 ** 2, G: 1024 ** 3 };

/**
 * Bytes of a text such as 500, 10M or 1.5 GiB; null for none, NaN for what is no size.
 * @returns {number | null}
 */
export function sizeOf(text) {
  if (!text.trim()) return null;
  const found = /^\s*(\d+(?:\.\d+)?)\s*([KMG]?)(?:i?B)?\s*$/i.exec(text);
  return found ? Math.round(Number(found[1]) * UNITS[found[2].toUpperCase()]) : NaN;
}
