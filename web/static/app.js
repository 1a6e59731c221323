// Starts the page.
import { html, render } from "./vendor/preact.js";
import { loadSession } from "./lib/api.js";
import { followLinks } from "./lib/router.js";
import { Shell } from "./shell.js";

followLinks(document);
render(html`<${Shell} />`, document.getElementById("app"));
// A server that does not answer is told by the shell, which asks again.
loadSession().catch(() => {});
