// Elements of the page. Texts of the document become text nodes, never markup.

/** Creates an element with properties, or attributes where a name has a dash, and children. */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined) continue;
    if (key.includes("-")) made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null));
  return made;
}

export const code = (text) => element("code", {}, text);

/** Returns the parts of a line: texts, and code between backticks. */
export const inline = (text) =>
  text.split("`").map((part, index) => (index % 2 ? code(part) : part)).filter((part) => part !== "");

/** Returns the paragraphs and lists of a description. */
export function prose(text = "") {
  return text.split(/\n{2,}/).filter(Boolean).map((block) => {
    const lines = block.split("\n");
    if (!lines.every((line) => /^[-*] |^  /.test(line))) return element("p", {}, inline(block));
    const items = block.split(/\n(?=[-*] )/).map((item) => element("li", {}, inline(item.replace(/^[-*] /, ""))));
    return element("ul", {}, items);
  });
}

export const section = (title, ...children) =>
  element("section", {}, element("h2", {}, title), ...children);

/** Returns a table with a head of these names. */
export function table(names, rows) {
  const cells = (kind, row) => row.map((cell) => element(kind, {}, cell));
  return element("table", {},
    element("thead", {}, element("tr", {}, cells("th", names))),
    element("tbody", {}, rows.map(({ cells: row, ...data }) => {
      const made = element("tr", {}, cells("td", row));
      Object.assign(made.dataset, data);
      return made;
    })));
}
