// Puts the parts together.

import { Api } from "./api.js";
import { Chat } from "./chat.js";
import { byId } from "./dom.js";
import { showJobs } from "./jobs.js";
import { askForKey } from "./key.js";
import { Live } from "./live.js";
import { ModelChoice } from "./models.js";

const api = new Api(askForKey);
const models = new ModelChoice(api);
const chat = new Chat(api, models);
const live = new Live(api, {
  isOurs: (id) => chat.asked.has(id),
  onModels: (ids) => models.keepUp(ids),
});

/** On a narrow screen one part is seen at a time: the one that the address names. */
function showPart() {
  const part = location.hash === "#live" ? "live" : "chat";
  document.body.dataset.part = part;
  for (const link of document.querySelectorAll("nav a")) {
    link.setAttribute("aria-current", String(link.hash === `#${part}`));
  }
}

addEventListener("hashchange", showPart);
showPart();
live.run();
showJobs(api);
byId("prompt").focus({ preventScroll: true });
