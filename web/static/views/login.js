// Where a user logs in: with a password of the cluster, or at the provider of the organisation.
// Rules: the password is in the form only while it is sent. The address stays: the view that was asked for follows the login.
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { loadSession, post, session, withQuery } from "../lib/api.js";
import { Problem } from "../lib/problem.js";

export function Login({ state }) {
  return html`
    <h1>Log in</h1>
    <p>What you may see and do is what the rights of this user on the cluster allow.</p>
    <${ProviderProblem} />
    ${state.oauth && html`<${ProviderLogin} name=${state.oauth} isFirst=${!state.takes_passwords} />`}
    ${state.takes_passwords && html`<${PasswordLogin} />`}
    ${!state.oauth && !state.takes_passwords && html`<${NoWay} />`}
  `;
}

function PasswordLogin() {
  const [problem, setProblem] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const user = useRef(null);
  const password = useRef(null);
  useEffect(() => user.current.focus(), []);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      session.set(await logIn({ user: user.current.value, password: password.current.value }));
    } catch (error) {
      setProblem(error);
      setBusy(false);
      password.current.value = "";
      password.current.focus();
    }
  };
  return html`
    <form class="login" onSubmit=${submit}>
      <label>User
        <input ref=${user} name="username" autocomplete="username" autocapitalize="none" spellcheck=${false} required maxlength="1000" />
      </label>
      <label>Password
        <input ref=${password} name="password" type="password" autocomplete="current-password" required maxlength="1000" />
      </label>
      <button type="submit" class="primary" disabled=${isBusy}>${isBusy ? "Asking the cluster…" : "Log in"}</button>
      ${problem && html`<${Problem} error=${problem} />`}
    </form>
  `;
}

/** Send a login; once more where the secret of the page was that of a server that has started again. */
async function logIn(given) {
  try {
    return await post("/api/session", given);
  } catch (error) {
    if (error.code !== "REFUSED") throw error;
    await loadSession();
    return post("/api/session", given);
  }
}

/** A link, no button: the browser goes to the provider, and comes back to this address. */
function ProviderLogin({ name, isFirst }) {
  const next = location.pathname + location.search;
  return html`
    <p><a class=${isFirst ? "button primary" : "button"} href=${withQuery("/api/oauth/login", { next })}>Log in with ${name}</a></p>
  `;
}

// By the word in the address with which the browser comes back; a text there could be anybody's.
const PROVIDER_PROBLEMS = {
  denied: "the provider has not let you in",
  expired: "the login took too long, or was begun in another window: begin again",
  provider: "the provider did not answer as it should: the log of the server tells more",
  refused: "the cluster does not accept the token of the provider",
  unreachable: "no broker answers, or the provider does not: try again",
};

/** Why a login at the provider has failed. */
function ProviderProblem() {
  const word = new URLSearchParams(location.search).get("login_problem");
  return Object.hasOwn(PROVIDER_PROBLEMS, word ?? "") && html`<${Problem} error=${{ message: PROVIDER_PROBLEMS[word] }} />`;
}

function NoWay() {
  return html`
    <p class="problem" role="alert">
      This cluster takes bearer tokens only, and no provider is named that gives them: set barnabas.web.oauth.issuer.
    </p>
  `;
}
