// Moves replicas of topics to brokers: first the plan is shown, then it is begun.
import { html, useState } from "../vendor/preact.js";
import { post } from "../lib/api.js";
import { Dialog } from "../lib/dialog.js";
import { counted } from "../lib/format.js";
import { Problem } from "../lib/problem.js";
import { toast } from "../lib/toast.js";
import { Check, Field, numbers, sizeOf, words } from "./fields.js";

export function MoveDialog({ brokers, moving, onClose, onDone }) {
  const [given, setGiven] = useState({ topics: "", brokers: brokers.join(", "), factor: "", throttle: "", additional: false });
  const [plan, setPlan] = useState(null);
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const set = (name, keepsPlan = false) => (value) => {
    setGiven((before) => ({ ...before, [name]: value }));
    if (!keepsPlan) setPlan(null);
  };
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      if (plan === null) {
        setPlan((await post("/api/reassignments/plan", planBody(given))).moves);
      } else {
        const begun = await post("/api/reassignments", moveBody(given, plan));
        toast(`${counted(begun.partitions.length, "partition")} on the way.`);
        onClose();
        onDone();
      }
    } catch (failure) {
      setError(failure);
    } finally {
      setBusy(false);
    }
  };
  return html`
    <${Dialog} title="Move replicas" onClose=${onClose}>
      <form onSubmit=${submit}>
        <${Field} label="Topics" required value=${given.topics} onChange=${set("topics")} hint="With commas between them" />
        <${Field} label="Brokers that may have replicas" required value=${given.brokers} onChange=${set("brokers")} />
        <${Field} label="Replicas of each partition" type="number" min="1" value=${given.factor} onChange=${set("factor")} hint="Empty: as many as now" />
        <${Field} label="Throttle" value=${given.throttle} onChange=${set("throttle", true)} hint="Bytes a second, such as 10M. Empty: none. Remove it when the moves are over." />
        ${moving > 0 && html`<${Check} label="Beside ${counted(moving, "partition")} that move now" value=${given.additional} onChange=${set("additional", true)} />`}
        ${error && html`<${Problem} error=${error} />`}
        ${plan && html`<${Plan} moves=${plan} />`}
        <p class="actions">
          <button type="submit" class="primary" disabled=${isBusy || plan?.length === 0}>${plan === null ? "Show the plan" : "Begin to move"}</button>
          <button type="button" onClick=${onClose}>Cancel</button>
        </p>
      </form>
    </>
  `;
}

function planBody(given) {
  const brokers = numbers(given.brokers);
  if (brokers === null) throw new Error("brokers are whole numbers, with commas between them");
  return { topics: words(given.topics), brokers, replication_factor: given.factor ? Number(given.factor) : null };
}

function moveBody(given, plan) {
  const rate = sizeOf(given.throttle);
  if (Number.isNaN(rate)) throw new Error(`${given.throttle} is no number of bytes`);
  return {
    partitions: plan.map(({ topic, partition, after }) => ({ topic, partition, replicas: after })),
    throttle_bytes_per_s: rate,
    additional: given.additional,
  };
}

/** What moves from where to where; `moves` have topic, partition, before and after. */
export function Plan({ moves }) {
  if (moves.length === 0) return html`<p>Nothing has to move: the replicas are already on these brokers.</p>`;
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label="The plan">
      <table>
        <caption class="visually-hidden">The plan</caption>
        <thead><tr><th scope="col">Partition</th><th scope="col">Replicas now</th><th scope="col">Then</th></tr></thead>
        <tbody>
          ${moves.map(
            (each) => html`<tr key=${`${each.topic}-${each.partition}`}><td>${each.topic}-${each.partition}</td>
              <td>${each.before.join(", ")}</td><td>${each.after.join(", ")}</td></tr>`,
          )}
        </tbody>
      </table>
    </div>
  `;
}
