// The dialog that asks for an API key.

import { byId } from "./dom.js";

/** A key, or null where none is given. `refused`: one was given before, and it was wrong. */
export function askForKey(refused) {
  const dialog = byId("key-dialog");
  const field = byId("key");
  byId("key-refused").hidden = !refused;
  field.value = "";
  return new Promise((resolve) => {
    byId("key-form").onsubmit = (event) => {
      event.preventDefault();
      const key = field.value.trim();
      dialog.onclose = null;
      dialog.close();
      resolve(key || null);
    };
    byId("key-cancel").onclick = () => dialog.close();
    dialog.onclose = () => resolve(null);
    dialog.showModal();
    field.focus();
  });
}
