// Requests to this server. An answer that is no success is an ApiError, whichever interface it came from:
//   /api  {"error": {"code", "message", "next"}}       /v3, /topics ...  {"error_code", "message"}
// Rules: what changes something carries the header X-Barnabas-CSRF of the session. `session` is what /api/session said
// last; a request that is refused as one of an old session asks for the session again, and the shell then shows the login.
import { createStore, useStore } from "./store.js";

const READING = new Set(["GET", "HEAD"]);

/** What /api/session says: {user, wants_login, can_write, csrf}; null before the first answer. */
export const session = createStore(null);

/** When the server did not answer the last request: since when, in ms; null while it answers. */
export const unreachableSince = createStore(null);

/** Status 0 is a server that did not answer. `next` is what helps: a command or a setting, or "". */
export class ApiError extends Error {
  constructor(status, code, message, next = "") {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.code = code;
    this.next = next;
  }
}

/** The session as this component sees it: {user, wants_login, can_write, csrf}. */
export function useSession() {
  return useStore(session) ?? { user: null, wants_login: false, can_write: false, csrf: "" };
}

/** Ask who is logged in, and what is allowed. */
export async function loadSession() {
  session.set(await request("GET", "/api/session"));
}

export const get = (path, options) => request("GET", path, undefined, options);
export const post = (path, body, options) => request("POST", path, body, options);
export const put = (path, body, options) => request("PUT", path, body, options);
export const patch = (path, body, options) => request("PATCH", path, body, options);
export const del = (path, body, options) => request("DELETE", path, body, options);

/** A path of its parts: each is encoded, so that a name can hold any character. `url("/v3/topics", name)` */
export function url(base, ...parts) {
  return [base, ...parts.map((part) => encodeURIComponent(part))].join("/");
}

/** A path with a query string of what is neither null, undefined nor "". */
export function withQuery(path, query) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given).toString();
  return text ? `${path}?${text}` : path;
}

async function request(method, path, body, options = {}) {
  const response = await send(method, path, body, options);
  if (response.status === 204) return null;
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

/**
 * The response of a request that succeeded, its body unread.
 * @throws {ApiError}
 */
export async function send(method, path, body, { signal, headers = {} } = {}) {
  const given = { Accept: "application/json", ...headers };
  if (!READING.has(method)) given["X-Barnabas-CSRF"] = session.get()?.csrf ?? "";
  if (body !== undefined) given["Content-Type"] ??= "application/json";
  const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  let response;
  try {
    response = await fetch(path, { method, headers: given, body: text, signal, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (unreachableSince.get() === null) unreachableSince.set(Date.now());
    throw new ApiError(0, "NO_ANSWER", "The server of this page does not answer.", "barnabas web starts it");
  }
  unreachableSince.set(null);
  if (!response.ok) throw await problemOf(response, path);
  return response;
}

async function problemOf(response, path) {
  const found = errorOf(response.status, await response.text().catch(() => ""));
  const isOld = response.status === 401 || found.code === "REFUSED";
  if (isOld && path !== "/api/session") loadSession().catch(() => {});
  return found;
}

function errorOf(status, text) {
  let body = null;
  try {
    body = JSON.parse(text);
  } catch {
    // no JSON: a proxy answered in our place
  }
  const error = body?.error;
  if (error && typeof error === "object") return new ApiError(status, error.code, error.message, error.next);
  if (body?.message) return new ApiError(status, String(body.error_code ?? status), body.message);
  return new ApiError(status, `HTTP_${status}`, `The server answered with status ${status}.`);
}
