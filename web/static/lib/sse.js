// Server-sent events by `fetch`: unlike EventSource it tells why it was refused, can send a body, and ends when the server
// ends. Source: HTML, "Server-sent events", the parsing of an event stream.
import { send } from "./api.js";

/**
 * Read events until the server ends the stream, or `signal` aborts it.
 * @param {string} path
 * @param {{onEvent: (event: {type: string, data: any, id: string}) => void, signal?: AbortSignal, body?: any}} options
 *   `data` is what the event's JSON holds; with a body the request is a POST
 * @throws {ApiError} when it is refused, or the connection is lost
 */
export async function readEvents(path, { onEvent, signal, body }) {
  const headers = { Accept: "text/event-stream" };
  const response = await send(body === undefined ? "GET" : "POST", path, body, { signal, headers });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const parse = eventParser(onEvent);
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    parse(value);
  }
}

/** A function that takes pieces of an event stream, and calls `onEvent` for each whole event. */
export function eventParser(onEvent) {
  let rest = "";
  let event = blank();
  const endEvent = () => {
    if (event.lines.length) onEvent({ type: event.type, data: JSON.parse(event.lines.join("\n")), id: event.id });
    event = { ...blank(), id: event.id };
  };
  return (piece) => {
    const lines = (rest + piece).split("\n");
    rest = lines.pop();
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") endEvent();
      else takeField(event, line);
    }
  };
}

const blank = () => ({ type: "message", lines: [], id: "" });

function takeField(event, line) {
  const colon = line.indexOf(":");
  if (colon === 0) return; // a comment, which keeps the connection open
  const name = colon < 0 ? line : line.slice(0, colon);
  const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
  if (name === "event") event.type = value;
  else if (name === "data") event.lines.push(value);
  else if (name === "id") event.id = value;
}
