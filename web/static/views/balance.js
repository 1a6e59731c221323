// A balance: every broker gets its share of replicas, leaders, bytes and load; brokers are taken out of service.
import { html, useState } from "../vendor/preact.js";
import { post, useSession } from "../lib/api.js";
import { ActionDialog, ChangeButton } from "../lib/dialog.js";
import { Time, bytes, count, counted } from "../lib/format.js";
import { Polled, usePolled } from "../lib/poll.js";
import { Problem } from "../lib/problem.js";
import { Field, numbers, sizeOf, words } from "../parts/fields.js";
import { Plan } from "../parts/move_replicas.js";

const STATES = { running: "warning", stopping: "warning", done: "ok", stopped: "", failed: "error" };
const NOTHING = { topics: "", drain: "", exclude: "", threshold: "10", sample: "2" };

export function Balance() {
  const run = usePolled("/api/balance", 2_000);
  const [plan, setPlan] = useState(null);
  const begun = () => {
    setPlan(null);
    run.refresh();
  };
  return html`
    <${Polled} of=${run}>${(data) => html`<${Run} run=${data} refresh=${run.refresh} />`}</>
    <h2>Plan a balance</h2>
    <${PlanForm} onPlan=${setPlan} />
    ${plan && html`<${Planned} plan=${plan} isRunning=${isRunning(run.data)} onBegun=${begun} />`}
  `;
}

const isRunning = (run) => run?.state === "running" || run?.state === "stopping";

function Run({ run, refresh }) {
  const session = useSession();
  const [isAsked, setAsked] = useState(false);
  if (run.state === null) return null;
  return html`
    <section aria-label="The last balance" class="card">
      <p role="status"><span class="tag ${STATES[run.state]}">${run.state}</span>${" "}
        ${run.done_count} of ${run.moves_count} partitions are moved${run.moving_count > 0 ? `, ${run.moving_count} are moving` : ""},
        ${" "}${bytes(run.copied_bytes)} of ${bytes(run.total_bytes)} copied</p>
      <progress class="wide" max=${Math.max(run.moves_count, 1)} value=${run.done_count} aria-label="Partitions that are moved"></progress>
      <p class="muted">Begun by ${run.user} at <${Time} ms=${run.started_ms} />${run.ended_ms !== null && html`, ended at <${Time} ms=${run.ended_ms} />`};
        ${" "}${run.throttle_bytes_per_s === null ? "without a throttle" : `throttled to ${bytes(run.throttle_bytes_per_s)}/s`}.</p>
      ${run.failure && html`<${Problem} error=${{ message: run.failure }} />`}
      ${isRunning(run) && html`<${ChangeButton} session=${session} disabled=${run.state === "stopping"} onClick=${() => setAsked(true)}>Stop…</>`}
      ${run.notes.length > 0 && html`<details><summary>What happened</summary><ul>${run.notes.map((each) => html`<li>${each}</li>`)}</ul></details>`}
    </section>
    ${isAsked &&
    html`<${ActionDialog} title="Stop the balance" action="Stop it" isDangerous run=${() => post("/api/balance/stop", {})} done="The balance ends."
      onDone=${refresh} onClose=${() => setAsked(false)}>
      <p>What is being moved is taken back, and throttles are removed. What was moved before stays moved.</p>
    </>`}
  `;
}

function PlanForm({ onPlan }) {
  const [given, setGiven] = useState(NOTHING);
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const set = (name) => (value) => setGiven((before) => ({ ...before, [name]: value }));
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    onPlan(null);
    try {
      onPlan(await post("/api/balance/plan", optionsOf(given)));
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return html`
    <form onSubmit=${submit}>
      <div class="fields">
        <${Field} label="Drain brokers" value=${given.drain} onChange=${set("drain")} hint="All replicas leave them" />
        <${Field} label="Leave brokers as they are" value=${given.exclude} onChange=${set("exclude")} />
        <${Field} label="Move only topics" value=${given.topics} onChange=${set("topics")} hint="orders-* is each that begins so" />
        <${Field} label="Even within, in percent" type="number" min="1" max="100" required value=${given.threshold} onChange=${set("threshold")} />
        <${Field} label="Measure for, in seconds" type="number" min="0" max="60" required value=${given.sample} onChange=${set("sample")} />
      </div>
      ${error && html`<${Problem} error=${error} />`}
      <p class="actions"><button type="submit" class="primary" disabled=${isBusy}>${isBusy ? "Measuring…" : "Make a plan"}</button>
        <span class="muted">Nothing is moved yet.</span></p>
    </form>
  `;
}

function optionsOf(given) {
  const [drain, exclude] = [numbers(given.drain), numbers(given.exclude)];
  if (drain === null || exclude === null) throw new Error("brokers are whole numbers, with commas between them");
  return { topics: words(given.topics), drain, exclude, threshold_percent: Number(given.threshold), sample_s: Number(given.sample) };
}

const AMOUNTS = [
  ["replicas", "Replicas", count],
  ["leaders", "Leaders", count],
  ["bytes", "Size", bytes],
  ["records_per_s", "Records/s", (value) => count(Math.round(value))],
];

function Planned({ plan, isRunning: isBusy, onBegun }) {
  const session = useSession();
  const [isAsked, setAsked] = useState(false);
  return html`
    <section aria-label="The plan">
      <div class="scroll" tabindex="0" role="region" aria-label="Brokers before and after">
        <table>
          <caption class="visually-hidden">Brokers before and after</caption>
          <thead><tr><th scope="col">Broker</th><th scope="col">Rack</th>${AMOUNTS.map(([, label]) => html`<th scope="col" class="number">${label}</th>`)}</tr></thead>
          <tbody>
            ${plan.brokers.map(
              (row) => html`<tr key=${row.broker}><td>${row.broker}${!row.is_there && html` <span class="tag error">gone</span>`}</td><td>${row.rack ?? "–"}</td>
                ${AMOUNTS.map(([name, , form]) => html`<td class="number">${changed(form(row.before[name]), form(row.after[name]))}</td>`)}</tr>`,
            )}
          </tbody>
        </table>
      </div>
      ${plan.notes.map((each) => html`<p class="note">${each}</p>`)}
      <p><strong>${counted(plan.moves.length, "partition")} to change, ${bytes(plan.copied_bytes)} to copy.</strong></p>
      <${Plan} moves=${plan.moves} />
      <p class="actions"><${ChangeButton} session=${session} class="primary" disabled=${isBusy || plan.moves.length === 0} onClick=${() => setAsked(true)}>Carry it out…</></p>
      ${isAsked && html`<${Start} plan=${plan} onBegun=${onBegun} onClose=${() => setAsked(false)} />`}
    </section>
  `;
}

const changed = (before, after) => (before === after ? before : `${before} → ${after}`);

function Start({ plan, onBegun, onClose }) {
  const [throttle, setThrottle] = useState("");
  const [batch, setBatch] = useState("20");
  const run = () => {
    const rate = sizeOf(throttle);
    if (Number.isNaN(rate)) throw new Error(`${throttle} is no number of bytes`);
    return post("/api/balance/start", { plan_id: plan.plan_id, throttle_bytes_per_s: rate, batch_size: Number(batch) });
  };
  return html`
    <${ActionDialog} title="Carry the plan out" action="Begin to move" run=${async () => run()} done="The balance has begun." onDone=${onBegun} onClose=${onClose}>
      <p>${counted(plan.moves.length, "partition")} to change, ${bytes(plan.copied_bytes)} to copy. It goes on when this page is closed.</p>
      <${Field} label="Throttle" value=${throttle} onChange=${setThrottle} hint="Bytes a second that brokers send each other, such as 10M. Empty: none." />
      <${Field} label="Partitions at a time" type="number" min="1" required value=${batch} onChange=${setBatch} />
    </>
  `;
}
