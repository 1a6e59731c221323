// Addresses of Confluent's interface, which begin with the id of the cluster.
import { url } from "../lib/api.js";
import { usePolled } from "../lib/poll.js";

const EVERY_MS = 60_000;

/** A function from parts of a path to an address below /v3/clusters/ID; null until the id is known. */
export function useClusterUrl() {
  const clusters = usePolled("/v3/clusters", EVERY_MS);
  const id = clusters.data?.data[0]?.cluster_id;
  return id === undefined ? null : (...parts) => url("/v3/clusters", id, ...parts);
}
