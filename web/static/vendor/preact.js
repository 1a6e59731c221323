// The library of the page, as every other file imports it: Preact with its hooks, and htm, which makes elements of templates.
// The three files beside it are as their authors publish them, but for source maps and the name by which hooks import Preact.
import { h } from "./preact-core.js";
import htm from "./htm.js";

export { Component, h, render } from "./preact-core.js";
export { useCallback, useEffect, useMemo, useRef, useState } from "./preact-hooks.js";
export const html = htm.bind(h);
