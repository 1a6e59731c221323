// The last hour as plots, for views: what /api/history tells, asked again as often as the server looks.
import { html, useEffect, useState } from "../vendor/preact.js";
import { bytes, duration, rate, shortCount } from "../lib/format.js";
import { Plot } from "../lib/plot.js";
import { Polled, usePolled } from "../lib/poll.js";

const EVERY_MS = 10_000;
const SOON_MS = 2_000; // until there is something to draw
const LONGEST_PAUSE_MS = 60_000; // between two looks at a cluster that answers slowly
const NOTHING = { lag: "The group has committed no offset in a topic that you may see." };
const FEW_SECONDS = "There are no figures yet: a plot begins with the second look at the cluster, some seconds after the first.";

/** How each measure is drawn, in this order. */
const MEASURES = {
  records: { title: "Records written", format: (value) => rate(value) },
  bytes: { title: "Growth of the logs, one replica of each", format: (value) => rate(value, "bytes") },
  size: { title: "Size of the logs, one replica of each", format: bytes },
  lag: { title: "Lag", format: (value) => `${shortCount(value)} records` },
  latency: { title: "Response times of brokers, 99th percentile", format: duration },
};

/**
 * @param {Record<string, string>} query `topic` or `group`; nothing for the cluster
 * @param {string[]} measures which have a plot even when nothing is known yet
 * @param {(lines: object[]) => object[]} linesOf what is drawn of the lines of one measure, with a `label` for each
 */
export function LastHour({ query, measures, linesOf }) {
  const [everyMs, setEveryMs] = useState(SOON_MS);
  const history = usePolled(`/api/history?${new URLSearchParams(query)}`, everyMs);
  const hasBegun = history.data?.times_ms.length >= 2;
  useEffect(() => setEveryMs(hasBegun ? EVERY_MS : SOON_MS), [hasBegun]);
  return html`
    <section class="last-hour" aria-label="The last hour">
      <h2>The last hour</h2>
      <${Polled} of=${history}>
        ${(found) => withGaps(found, (data) => html`
          <div class="plots">
            ${shownMeasures(data, measures).map((measure) => html`
              <${Plot} key=${measure} title=${MEASURES[measure].title} times=${data.times_ms} format=${MEASURES[measure].format}
                lines=${linesOf(data.lines.filter((line) => line.measure === measure))} note=${noteOf(data, measure)} />
            `)}
          </div>
          ${data.left_out > 0 && html`<p class="note">Not everything is sampled: ${data.left_out} topics or groups are too many.
            What helps: barnabas.web.history.max.bytes.</p>`}
        `)}
      </>
    </section>
  `;
}

function shownMeasures(data, wanted) {
  const there = new Set(data.lines.map((line) => line.measure));
  return Object.keys(MEASURES).filter((measure) => there.has(measure) || wanted.includes(measure));
}

function noteOf({ problem, times_ms: times, lines }, measure) {
  if (problem) return `Nothing new: ${problem}.`;
  if (times.length < 2) return FEW_SECONDS;
  return lines.some((line) => line.measure === measure) ? "" : (NOTHING[measure] ?? FEW_SECONDS);
}

/** Show data with a point that is not known wherever nobody has looked for a while, so that no line leads over it. */
function withGaps(data, show) {
  const gapMs = LONGEST_PAUSE_MS + 2 * data.interval_ms;
  const from = (index) => data.times_ms[index - 1] ?? data.times_ms[index];
  const gaps = data.times_ms.map((time, index) => (time - from(index) > gapMs ? index : -1)).filter((index) => index >= 0);
  if (!gaps.length) return show(data);
  const filled = (values, valueOf) => values.flatMap((value, index) => (gaps.includes(index) ? [valueOf(index), value] : [value]));
  return show({
    ...data,
    times_ms: filled(data.times_ms, (index) => (data.times_ms[index - 1] + data.times_ms[index]) / 2),
    lines: data.lines.map((line) => ({ ...line, values: filled(line.values, () => null) })),
  });
}
