// The table of views. `path` is below /ui, its parts with a colon are given to the view; `nav` is the word in the navigation,
// `part` the part of it in which that stands, and `key` is pressed after g to get there.
import { html } from "../vendor/preact.js";
import { pageUrl } from "../lib/router.js";
import { Messages } from "./messages.js";
import { Topics } from "./topics.js";
import { Topic } from "./topic.js";

/** The parts of the navigation, from top to bottom; the first is where a view without one stands. */
export const PARTS = ["Cluster", "Data", "Clients", "Access"];

export const VIEWS = [
  { path: "/topics", title: () => "Topics", view: Topics, nav: "Topics", part: "Data", key: "t" },
  { path: "/topics/:topic", title: ({ topic }) => `Topic ${topic}`, view: Topic },
  { path: "/topics/:topic/messages", title: ({ topic }) => `Messages of ${topic}`, view: Messages },
];

export const NOT_FOUND = { path: "", title: () => "There is no such page", view: Missing };

function Missing() {
  return html`<p>Nothing is at this address. <a href=${pageUrl("/topics")}>The topics</a> are a place to begin.</p>`;
}
