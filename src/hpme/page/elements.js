const SVG = "http://www.w3.org/2000/svg";

/** Sets attributes and appends children; texts become text nodes, never markup. */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** An HTML element. */
function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** The element with an id. */
function byId(id) {
  return document.getElementById(id);
}

/** A share as a percentage. */
function percent(share, digits = 1) {
  return Number.isFinite(share) ? `${(100 * share).toFixed(digits)}\u00a0%` : "no number";
}

/** A number with four significant digits. */
function decimal(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(4))) : "no number";
}

/** A metric: three decimals, unless it is large. */
function metricText(value) {
  return Number.isFinite(value) && Math.abs(value) < 10 ? value.toFixed(3) : decimal(value);
}

/** A number with its sign, for differences. */
function signed(text, value) {
  return `${value < 0 ? "−" : "+"}${text.replace("-", "")}`;
}

/** A count with a noun. */
function counted(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}
