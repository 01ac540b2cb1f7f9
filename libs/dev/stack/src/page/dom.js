// Creates elements. Texts become text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

export const svg = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

// Replaces the children of an element and keeps the focus.
export function show(element, ...children) {
  const focused = element.contains(document.activeElement) ? document.activeElement.dataset.keep : undefined;
  element.replaceChildren(...children.flat().filter(Boolean));
  if (focused) element.querySelector(`[data-keep="${CSS.escape(focused)}"]`)?.focus();
}

// Combines the calls within `wait` milliseconds into one. Calls during a run cause one more run.
export function coalesce(work, wait = 40) {
  let waiting = false;
  let running = Promise.resolve();
  return () => {
    if (waiting) return running;
    waiting = true;
    const before = running;
    running = new Promise((done) => setTimeout(done, wait)).then(() => before).then(() => {
      waiting = false;
      return work();
    });
    return running;
  };
}
