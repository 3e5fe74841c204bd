// Long work of the server, as far as there is any.

import { byId, element, renew } from "./dom.js";
import { digits } from "./format.js";

const LOOK_MS = 2000;
const SHOWN = 6;

/** Look for jobs for as long as the page is seen; nothing is shown on a server without them. */
export async function showJobs(api) {
  let kept = null;
  while (kept !== false) {
    kept ??= await hasJobs(api);
    if (kept && !document.hidden) {
      const answer = await api.json(`api/jobs?limit=${SHOWN}`).catch(() => null);
      if (answer) show(answer.jobs);
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

/** Whether the server keeps jobs; null while that is not known. */
async function hasJobs(api) {
  const about = await api.json("v1").catch(() => null);
  return about && about.endpoints.some(({ path }) => path === "/api/jobs");
}

function show(jobs) {
  byId("jobs-part").hidden = jobs.length === 0;
  renew(byId("jobs"), jobs, lineOf);
}

function lineOf(job) {
  const share = job.status === "done" ? 1 : (job.progress ?? 0);
  const words = job.status === "running" ? `${digits(share * 100)} %` : job.status;
  return element(
    "li",
    { "data-state": job.status },
    element("span", { class: "name" }, job.kind),
    element("progress", { max: 1, value: share, "aria-label": `Progress of ${job.kind}` }),
    element("span", { class: "what" }, words),
    element("span", { class: "note" }, job.error ?? job.message ?? ""),
  );
}
