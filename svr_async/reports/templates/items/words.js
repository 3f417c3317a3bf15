// Words and elements: whatever is shown goes through textContent, with hidden characters made visible first.

// The same characters as `visible` of safetext.py; a test holds the two together.
const HIDDEN = new RegExp(
  "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u00ad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f" +
    "\\ufeff\\ufff9-\\ufffb\\ud800-\\udfff\\u{e0000}-\\u{e007f}]", "gu");

function visible(text) {
  const lines = text.replace(/\r\n?/g, "\n").replace(/\u2028/g, "\n").replace(/\u2029/g, "\n\n");
  return lines.replace(HIDDEN, one => `⟨U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

const count = value => value.toLocaleString("en-US");
const plural = (value, one) => `${count(value)} ${one}${value === 1 ? "" : "s"}`;

function signed(value) {
  if (value === null || value === undefined) return "–";
  const text = Math.abs(value).toFixed(Math.abs(value) < 100 ? 2 : 0);
  return Number(text) === 0 ? text : (value < 0 ? "−" : "+") + text;
}

// Say which response the judge saw first.
const shownAs = order => ({ ab: "A first", ba: "B first" })[order] ?? order;

// Return a new element with a class and a text; what follows are its children, elements or texts.
function make(tag, kind = "", ...children) {
  const node = document.createElement(tag);
  if (kind) node.className = kind;
  for (const child of children) node.append(child instanceof Node ? child : visible(String(child)));
  return node;
}

const part = name => document.getElementById(`items-${name}`);
