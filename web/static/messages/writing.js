// Writing messages: a new one, and a copy of one that is there. Each dialog says what will happen before it does.
import { html, useState } from "../vendor/preact.js";
import { post } from "../lib/api.js";
import { ActionDialog } from "../lib/dialog.js";
import { messagesUrl } from "./query.js";

const FORMATS = [
  ["text", "Text"],
  ["json", "JSON"],
  ["hex", "Hex"],
  ["null", "No value (null)"],
];
const NEW_HEADER = { name: "", text: "" };

/** What the server takes for typed text. Throws SyntaxError for JSON that is none. */
function dataOf({ format, text }) {
  if (format === "null") return null;
  if (format === "json") return { json: JSON.parse(text) };
  return { [format]: format === "hex" ? text.replaceAll(/\s/g, "") : text };
}

const written = ({ topic, partition, offset }) => `Written to ${topic}, partition ${partition}, offset ${offset}.`;

export function ProduceDialog({ topic, onClose }) {
  const [key, setKey] = useState({ format: "null", text: "" });
  const [value, setValue] = useState({ format: "text", text: "" });
  const [partition, setPartition] = useState("");
  const [headers, setHeaders] = useState([]);
  const run = () =>
    post(messagesUrl(topic), {
      partition: partition === "" ? null : Number(partition),
      key: dataOf(key),
      value: dataOf(value),
      headers: headers.filter((each) => each.name).map(({ name, text }) => ({ name, value: { text } })),
    });
  const put = (index, changes) => setHeaders(headers.map((each, at) => (at === index ? { ...each, ...changes } : each)));
  return html`
    <${ActionDialog} title="Produce a message to ${topic}" action="Produce" run=${run} done=${written} onClose=${onClose}>
      <${Data} label="Key" data=${key} onChange=${setKey} rows="2" />
      <${Data} label="Value" data=${value} onChange=${setValue} rows="8" />
      <fieldset>
        <legend>Headers</legend>
        ${headers.map(
          (each, index) => html`
            <p key=${index} class="header-row">
              <input aria-label="Name of header ${index + 1}" placeholder="name" value=${each.name}
                onInput=${({ target }) => put(index, { name: target.value })} />
              <input aria-label="Value of header ${index + 1}" placeholder="value" value=${each.text}
                onInput=${({ target }) => put(index, { text: target.value })} />
              <button type="button" class="icon" aria-label="Remove header ${index + 1}"
                onClick=${() => setHeaders(headers.filter((_, at) => at !== index))}>✕</button>
            </p>
          `,
        )}
        <button type="button" class="small" onClick=${() => setHeaders([...headers, NEW_HEADER])}>Add a header</button>
      </fieldset>
      <${Partition} value=${partition} onChange=${setPartition} />
    </>
  `;
}

/** `target` is a topic, or "" where it is asked for. */
export function CopyDialog({ record, target, onClose }) {
  const isAgain = target !== "";
  const [topic, setTopic] = useState(target);
  const [partition, setPartition] = useState("");
  const [keepsTime, setKeepsTime] = useState(false);
  const run = () =>
    post(messagesUrl(topic, "copy"), {
      from: { topic: record.topic, partition: record.partition, offset: record.offset },
      partition: partition === "" ? null : Number(partition),
      keep_timestamp: keepsTime,
    });
  return html`
    <${ActionDialog} title=${isAgain ? "Send the message again" : "Copy the message to a topic"} action=${isAgain ? "Send again" : "Copy"}
      run=${run} done=${written} onClose=${onClose}>
      <p>
        A new message with the same key, value and headers as offset ${record.offset} of partition ${record.partition} of
        ${" "}<code>${record.topic}</code> is written ${isAgain ? "to the same topic; its consumers read it again." : "to another topic."}
      </p>
      ${!isAgain && html`
        <label>Topic <input required value=${topic} onInput=${({ target: { value } }) => setTopic(value)} /></label>
      `}
      <${Partition} value=${partition} onChange=${setPartition} />
      <label class="inline">
        <input type="checkbox" checked=${keepsTime} onChange=${({ target: { checked } }) => setKeepsTime(checked)} />
        Keep the time of the message
      </label>
    </>
  `;
}

function Partition({ value, onChange }) {
  return html`
    <label>
      Partition
      <input class="narrow" inputmode="numeric" pattern="[0-9]*" placeholder="by the key" value=${value}
        onInput=${({ target }) => onChange(target.value.trim())} />
    </label>
  `;
}

function Data({ label, data, onChange, rows }) {
  return html`
    <fieldset>
      <legend>${label}</legend>
      <select aria-label="${label} as" value=${data.format} onChange=${({ target }) => onChange({ ...data, format: target.value })}>
        ${FORMATS.map(([name, text]) => html`<option value=${name}>${text}</option>`)}
      </select>
      ${data.format !== "null" &&
      html`<textarea aria-label=${label} rows=${rows} spellcheck="false" value=${data.text}
        onInput=${({ target }) => onChange({ ...data, text: target.value })}></textarea>`}
    </fieldset>
  `;
}
