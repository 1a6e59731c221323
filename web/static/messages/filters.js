// What is read and what must hold: position, time, partitions, formats, conditions. Everything applies by itself: a choice
// at once, typed text when the typing pauses. No button is needed.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { NEW, TARGETS, TESTS, conditionOf, isWhole, targetOf, testOf, textOf } from "./condition.js";

const TYPING_MS = 400;
const FORMATS = [
  ["", "Decide by the bytes"],
  ["text", "Text"],
  ["json", "JSON"],
  ["hex", "Hex"],
  ["schema", "Schema registry"],
  ["internal", "Internal topic"],
];

/** An input whose value is told when the typing pauses, or at Enter. */
export function Typed({ value, onValue, ...rest }) {
  const [text, setText] = useState(value);
  const timer = useRef(null);
  const told = useRef(value);
  const latest = useRef(onValue);
  latest.current = onValue; // what is told later is told to the component as it is then
  useEffect(() => {
    if (value !== told.current) setText((told.current = value));
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const tell = (next) => {
    clearTimeout(timer.current);
    if (next !== told.current) latest.current((told.current = next));
  };
  const onInput = ({ target }) => {
    setText(target.value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => tell(target.value), TYPING_MS);
  };
  const onKeyDown = (event) => event.key === "Enter" && tell(event.target.value);
  return html`<input ...${rest} value=${text} onInput=${onInput} onKeyDown=${onKeyDown} />`;
}

/** `change` is that of `useMessagesQuery`. */
export function Filters({ query, change, topic }) {
  const isLive = Boolean(query.get("live"));
  const change1 = (name) => ({ target }) => change({ [name]: target.value || null }, { push: true });
  return html`
    <form class="filters" aria-label="What is shown" onSubmit=${(event) => event.preventDefault()}>
      <label class="find">
        Find
        <${Typed} type="search" value=${query.get("find") ?? ""} placeholder="text in keys, values and headers"
          onValue=${(text) => change({ find: text })} data-shortcut="search" />
      </label>
      <label class="switch">
        <input type="checkbox" role="switch" checked=${isLive}
          onChange=${({ target }) => change({ live: target.checked ? "1" : null }, { push: true })} />
        Follow live
      </label>
      <${Position} query=${query} change=${change} isLive=${isLive} />
      <label>
        Partitions
        <${Typed} class="narrow" value=${query.get("partitions") ?? ""} placeholder="all, or 0,3,5-7"
          onValue=${(text) => change({ partitions: text.replaceAll(" ", "") })} />
      </label>
      <${Format} label="Keys as" value=${query.get("key_format") ?? ""} onChange=${change1("key_format")} topic=${topic} />
      <${Format} label="Values as" value=${query.get("value_format") ?? ""} onChange=${change1("value_format")} topic=${topic} />
      <label>
        Transactions
        <select value=${query.get("isolation") ?? ""} onChange=${change1("isolation")}>
          <option value="">all messages</option>
          <option value="committed">only committed messages</option>
        </select>
      </label>
      <${Conditions} query=${query} change=${change} />
    </form>
  `;
}

function Position({ query, change, isLive }) {
  if (isLive) return null;
  const start = query.get("start") ?? "";
  const choose = ({ target }) =>
    change({ start: target.value, offset: null, since: null }, { push: true });
  return html`
    <label>
      From
      <select value=${start} onChange=${choose}>
        <option value="">${query.get("find") || query.getAll("where").length ? "the beginning" : "the newest"}</option>
        <option value="beginning">the beginning</option>
        <option value="offset">an offset</option>
        <option value="time">a time</option>
      </select>
    </label>
    ${start === "offset" &&
    html`<label>
      Offset
      <${Typed} class="narrow" inputmode="numeric" pattern="[0-9]*" value=${query.get("offset") ?? ""}
        onValue=${(text) => change({ offset: text.trim() })} />
    </label>`}
    ${start === "time" && html`<${Moment} label="Since" value=${query.get("since")} onValue=${(since) => change({ since })} />`}
    ${start && html`<${Moment} label="Until" value=${query.get("until")} onValue=${(until) => change({ until })} />`}
  `;
}

/** A time in the reader's zone; in the address it is milliseconds. */
function Moment({ label, value, onValue }) {
  const ms = Number(value);
  const shown = value && Number.isFinite(ms) ? new Date(ms - new Date(ms).getTimezoneOffset() * 60000).toISOString().slice(0, 19) : "";
  const tell = ({ target }) => onValue(target.value ? String(new Date(target.value).getTime()) : null);
  return html`<label>${label}<input type="datetime-local" step="1" value=${shown} onChange=${tell} /></label>`;
}

function Format({ label, value, onChange, topic }) {
  const offered = FORMATS.filter(([name]) => name !== "internal" || topic.startsWith("__"));
  return html`
    <label>
      ${label}
      <select value=${value} onChange=${onChange}>
        ${offered.map(([name, text]) => html`<option value=${name}>${text}</option>`)}
      </select>
    </label>
  `;
}

/** The list of conditions; one that is half written is kept here, and asked when it is whole. */
function Conditions({ query, change }) {
  const given = query.getAll("where");
  const [drafts, setDrafts] = useState(() => given.map(conditionOf));
  const told = useRef(given.join("\n"));
  useEffect(() => {
    if (given.join("\n") === told.current) return;
    told.current = given.join("\n");
    setDrafts(given.map(conditionOf));
  }, [given.join("\n")]);
  const edit = (next) => {
    setDrafts(next);
    const where = next.filter(isWhole).map(textOf);
    if (where.join("\n") === told.current) return;
    told.current = where.join("\n");
    change({ where });
  };
  const put = (index, changes) => edit(drafts.map((each, at) => (at === index ? { ...each, ...changes } : each)));
  return html`
    <fieldset class="conditions">
      <legend>Conditions</legend>
      ${drafts.map(
        (each, index) => html`<${Condition} key=${index} number=${index + 1} condition=${each}
          onChange=${(changes) => put(index, changes)} onRemove=${() => edit(drafts.filter((_, at) => at !== index))} />`,
      )}
      <button type="button" class="small" onClick=${() => edit([...drafts, NEW])}>Add a condition</button>
    </fieldset>
  `;
}

function Condition({ number, condition, onChange, onRemove }) {
  const target = targetOf(condition);
  const test = testOf(condition);
  const pick = (name) => (event) => onChange({ [name]: event.target.value });
  const tick = (name) => (event) => onChange({ [name]: event.target.checked });
  return html`
    <div class="condition" role="group" aria-label="Condition ${number}">
      <select aria-label="What is looked at" value=${target.name} onChange=${pick("target")}>
        ${TARGETS.map((each) => html`<option value=${each.name}>${each.label}</option>`)}
      </select>
      ${target.of && html`<${Typed} aria-label=${target.of} placeholder=${target.of} value=${condition.of}
        onValue=${(of) => onChange({ of })} />`}
      <label class="inline"><input type="checkbox" checked=${condition.isNegated} onChange=${tick("isNegated")} /> not</label>
      <select aria-label="How" value=${test.name} onChange=${pick("test")}>
        ${TESTS.map((each) => html`<option value=${each.name}>${each.label}</option>`)}
      </select>
      ${!test.isWithoutText &&
      html`
        <${Typed} aria-label="Text" placeholder="text" value=${condition.text} onValue=${(text) => onChange({ text })} />
        <label class="inline">
          <input type="checkbox" checked=${condition.ignoresCase} onChange=${tick("ignoresCase")} /> any case
        </label>
      `}
      <button type="button" class="icon" aria-label="Remove condition ${number}" onClick=${onRemove}>✕</button>
    </div>
  `;
}
