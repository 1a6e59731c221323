// A condition as the form edits it, and as the server takes it: TARGET:TEST:TEXT. Pure.
// Source: /api/topics/{topic}/messages, `where`.

export const TARGETS = [
  { name: "any", label: "Anything" },
  { name: "key", label: "Key" },
  { name: "value", label: "Value" },
  { name: "header", label: "Header", of: "Name of the header" },
  { name: "json", label: "JSON field of the value", of: "Path, such as order.id" },
  { name: "key_json", label: "JSON field of the key", of: "Path, such as id" },
];

export const TESTS = [
  { name: "contains", label: "contains" },
  { name: "is", label: "is" },
  { name: "starts", label: "starts with" },
  { name: "matches", label: "matches the expression" },
  { name: "exists", label: "exists", isWithoutText: true },
];

export const NEW = { target: "value", of: "", test: "contains", text: "", ignoresCase: true, isNegated: false };

export const targetOf = (condition) => TARGETS.find((each) => each.name === condition.target) ?? TARGETS[0];
export const testOf = (condition) => TESTS.find((each) => each.name === condition.test) ?? TESTS[0];

/** Whether it says enough to be asked: what is half written is not sent. */
export function isWhole(condition) {
  if (targetOf(condition).of && !condition.of) return false;
  return Boolean(testOf(condition).isWithoutText || condition.text);
}

export function textOf(condition) {
  const named = targetOf(condition).of ? `:${escaped(condition.of)}` : "";
  const test = testOf(condition);
  const not = condition.isNegated ? "!" : "";
  if (test.isWithoutText) return `${condition.target}${named}:${not}${test.name}`;
  return `${condition.target}${named}:${not}${test.name}${condition.ignoresCase ? "~" : ""}:${condition.text}`;
}

/** The condition of a text; a text in another form is one that contains it. */
export function conditionOf(text) {
  const target = TARGETS.find((each) => text.startsWith(`${each.name}:`));
  if (!target) return { ...NEW, text };
  let rest = text.slice(target.name.length + 1);
  let of = "";
  if (target.of) {
    const colon = rest.indexOf(":");
    of = unescaped(rest.slice(0, colon));
    rest = rest.slice(colon + 1);
  }
  const found = /^(!?)([a-z]+)(~?)(?::([\s\S]*))?$/.exec(rest);
  if (!found) return { ...NEW, text };
  const [, not, test, tilde, words = ""] = found;
  return { target: target.name, of, test, text: words, ignoresCase: tilde === "~", isNegated: not === "!" };
}

const escaped = (name) => name.replaceAll("%", "%25").replaceAll(":", "%3A");
const unescaped = (name) => name.replaceAll(/%3A/gi, ":").replaceAll("%25", "%");
