// @ts-check
/** Elements of the page. Their texts are texts: nothing of a trace is ever read as HTML. */

/**
 * @param {string} name
 * @param {string} [text]
 */
export function element(name, text) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  return made;
}

/**
 * @param {string} text
 * @param {string} title what it does, as a sentence
 * @param {() => void} act
 */
export function button(text, title, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.title = title;
  made.addEventListener("click", act);
  return made;
}

/**
 * A table with a heading. Its first column names the rows.
 * @param {string} title
 * @param {string[]} head
 * @param {(string | number | Node)[][]} rows
 * @param {number} words how many columns, from the first on, have words; the others are aligned as numbers
 */
export function table(title, head, rows, words = 1) {
  const [whole, made] = [element("div"), element("table")];
  whole.className = "part";
  if (head.length > 0) {
    const [top, line] = [element("thead"), element("tr")];
    for (const [place, name] of head.entries()) {
      const cell = element("th", name);
      cell.setAttribute("scope", "col");
      if (place >= words) cell.className = "number";
      line.append(cell);
    }
    top.append(line);
    made.append(top);
  }
  for (const row of rows) {
    const line = element("tr");
    for (const [place, value] of row.entries()) {
      const cell = element("td");
      cell.append(typeof value === "number" ? value.toLocaleString("en") : value);
      if (place >= words) cell.className = "number";
      line.append(cell);
    }
    made.append(line);
  }
  whole.append(element("h2", title), made);
  return whole;
}
