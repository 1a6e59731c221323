// What the Messages view shows, as it stands in the address, and what that asks of the server.
//   start=beginning|last|offset|time  offset=  since=  until=  partitions=0,3  find=  where=... (repeated)
//   key_format=  value_format=  isolation=committed  live=1  record=PARTITION-OFFSET
// Rules: names are those of /api/topics/{topic}/messages, so that an address can be read beside its request. `find` is the
// text of the box over the list: a condition on everything, without case.
import { useCallback, useMemo } from "../vendor/preact.js";
import { go, usePlace } from "../lib/router.js";
import { url } from "../lib/api.js";

const SENT = ["start", "offset", "since", "until", "partitions", "key_format", "value_format", "isolation"];

/**
 * The query of this view, and a function that changes some of it: null takes a name out, a list repeats it.
 * @returns {[URLSearchParams, (changes: Record<string, string | string[] | null>, options?: {push?: boolean}) => void]}
 */
export function useMessagesQuery() {
  const { search } = usePlace();
  const query = useMemo(() => new URLSearchParams(search), [search]);
  const change = useCallback((changes, { push = false } = {}) => {
    const next = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes)) {
      next.delete(name);
      for (const each of Array.isArray(value) ? value : [value]) if (each) next.append(name, each);
    }
    const text = next.toString();
    go(location.pathname + (text ? `?${text}` : ""), { replace: !push });
  }, []);
  return [query, change];
}

/** "browse", "search" or "follow". */
export function modeOf(query) {
  if (query.get("live")) return "follow";
  return conditionsOf(query).length ? "search" : "browse";
}

/** All conditions, that of the box first. */
export function conditionsOf(query) {
  const find = query.get("find");
  return [...(find ? [`any:contains~:${find}`] : []), ...query.getAll("where")];
}

/** The parameters of a request; the same for a page, a search, a follow and a download. */
export function parametersOf(query, extra = {}) {
  const sent = new URLSearchParams();
  for (const name of SENT) if (query.get(name)) sent.set(name, query.get(name));
  for (const each of conditionsOf(query)) sent.append("where", each);
  if (query.get("live")) for (const name of ["start", "offset", "since", "until"]) sent.delete(name);
  if (modeOf(query) === "search" && sent.get("start") === "last") sent.set("start", "beginning");
  for (const [name, value] of Object.entries(extra)) if (value) sent.set(name, value);
  return sent.toString();
}

/** The address of something of a topic's messages. */
export function messagesUrl(topic, ...parts) {
  return url("/api/topics", topic, "messages", ...parts.map(String));
}

/** "3-17" as {partition, offset}; null for anything else. */
export function placeOf(text) {
  const found = /^(\d+)-(\d+)$/.exec(text ?? "");
  return found && { partition: Number(found[1]), offset: Number(found[2]) };
}

export const keyOf = (record) => `${record.partition}-${record.offset}`;
