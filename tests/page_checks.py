"""Questions to a page in a real browser: which texts are too faint, what overflows."""

from __future__ import annotations

TOO_FAINT = """(() => {
  const luminance = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const parse = color => (color.match(/[\\d.]+/g) || []).map(Number);
  const ground = node => {
    for (let at = node; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some(child => child.nodeType === 3 && child.textContent.trim());
    if (!own || node.closest('.unseen, .skip')) continue;
    const style = getComputedStyle(node);
    const ink = parse(node instanceof SVGElement ? style.fill : style.color);
    const [high, low] = [luminance(ink), luminance(ground(node))].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) found.push([node.className.baseVal ?? node.className, node.textContent.slice(0, 30), ratio]);
  }
  return found;
})()"""

OVERFLOWING = """(() => {
  const wide = document.documentElement.scrollWidth;
  const out = [...document.querySelectorAll('body *')]
    .filter(node => !node.closest('.unseen, .skip, svg'))
    .filter(node => node.getBoundingClientRect().right > screen.width + 1)
    .map(node => node.tagName + '.' + node.className);
  return [wide, innerWidth, [...new Set(out)].slice(0, 5)];
})()"""
