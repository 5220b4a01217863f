// @ts-check
/** What keys do: one list, for the keyboard and for the help. */

/**
 * `keys` as events name them, what the help calls them, and what they do. What is done with a mouse
 * has no keys.
 * @typedef {{ keys: string[], shown: string, does: string, act?: (key: string) => void }} Binding
 */

/** Fills the table of the help. @param {HTMLTableElement} table @param {Binding[]} bindings */
export function explain(table, bindings) {
  for (const { shown, does } of bindings) {
    const line = table.insertRow();
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = shown;
    line.append(head);
    line.insertCell().textContent = does;
  }
}

/**
 * Calls what keys stand for, unless they are typed into a field or belong to the browser.
 * @param {Binding[]} bindings
 */
export function listen(bindings) {
  addEventListener("keydown", (event) => {
    const { target } = event;
    // A list of choices has keys of its own.
    if (target instanceof HTMLSelectElement) return;
    if (target instanceof HTMLInputElement) {
      if (event.key !== "Escape") return;
      // Browsers would empty the field.
      event.preventDefault();
      target.blur();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (document.querySelector("dialog[open]") !== null) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const found = bindings.find((binding) => binding.keys.includes(key));
    if (found?.act === undefined) return;
    event.preventDefault();
    found.act(key);
  });
}
