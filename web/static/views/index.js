// The table of views. `path` is below /ui, its parts with a colon are given to the view; `nav` is the word in the navigation,
// `part` the part of it in which that stands, and `key` is pressed after g to get there.
import { html } from "../vendor/preact.js";
import { pageUrl } from "../lib/router.js";
import { Acls } from "./acls.js";
import { Balance } from "./balance.js";
import { Features } from "./features.js";
import { Group } from "./group.js";
import { Groups } from "./groups.js";
import { Health } from "./health.js";
import { Messages } from "./messages.js";
import { Quotas } from "./quotas.js";
import { Replicas } from "./replicas.js";
import { Topics } from "./topics.js";
import { Transactions } from "./transactions.js";
import { Users } from "./users.js";
import { Broker } from "./broker.js";
import { Brokers } from "./brokers.js";
import { Overview } from "./overview.js";
import { Topic, TopicSettings } from "./topic.js";

/** The parts of the navigation, from top to bottom; the first is where a view without one stands. */
export const PARTS = ["Cluster", "Data", "Clients", "Access"];

export const VIEWS = [
  { path: "/", title: () => "Overview", view: Overview, nav: "Overview", part: "Cluster", key: "o" },
  { path: "/brokers", title: () => "Brokers", view: Brokers, nav: "Brokers", part: "Cluster", key: "b" },
  { path: "/brokers/:broker", title: ({ broker }) => `Broker ${broker}`, view: Broker },
  { path: "/topics", title: () => "Topics", view: Topics, nav: "Topics", part: "Data", key: "t" },
  { path: "/topics/:topic", title: ({ topic }) => `Topic ${topic}`, view: Topic },
  { path: "/topics/:topic/settings", title: ({ topic }) => `Settings of ${topic}`, view: TopicSettings },
  { path: "/topics/:topic/messages", title: ({ topic }) => `Messages of ${topic}`, view: Messages },
  { path: "/groups", title: () => "Groups", view: Groups, nav: "Groups", part: "Clients", key: "g" },
  { path: "/groups/:group", title: ({ group }) => `Group ${group}`, view: Group },
  { path: "/transactions", title: () => "Transactions", view: Transactions, nav: "Transactions", part: "Clients", key: "x" },
  { path: "/users", title: () => "Users", view: Users, nav: "Users", part: "Access", key: "u" },
  { path: "/acls", title: () => "ACLs", view: Acls, nav: "ACLs", part: "Access", key: "a" },
  { path: "/quotas", title: () => "Quotas", view: Quotas, nav: "Quotas", part: "Access", key: "q" },
  { path: "/health", title: () => "Health", view: Health, nav: "Health", part: "Cluster", key: "h" },
  { path: "/replicas", title: () => "Replicas", view: Replicas, nav: "Replicas", part: "Cluster", key: "r" },
  { path: "/balance", title: () => "Balance", view: Balance, nav: "Balance", part: "Cluster", key: "l" },
  { path: "/features", title: () => "Features", view: Features, nav: "Features", part: "Cluster", key: "f" },
];

export const NOT_FOUND = { path: "", title: () => "There is no such page", view: Missing };

function Missing() {
  return html`<p>There is nothing at this address. <a href=${pageUrl("/topics")}>The topics</a> are a place to begin.</p>`;
}
