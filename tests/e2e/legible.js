// What cannot be read on a page: texts that overprint one another, and text that is cut.
() => {
  const words = text => text.trim().replace(/\s+/g, " ").slice(0, 60);
  const faults = new Set();
  const seen = box => box.checkVisibility({ opacityProperty: true, visibilityProperty: true });

  // The visible part of each line of text, in the layer that it is painted in.
  const lines = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.data.trim() || parent.closest("script, style, template, textarea, option")) continue;
    if (!seen(parent)) continue;
    const clips = [];
    let layer = null;
    for (let box = parent; box !== document.documentElement; box = box.parentElement) {
      const style = getComputedStyle(box);
      if (!layer && (/fixed|sticky/.test(style.position) || box.matches("dialog, [popover]"))) layer = box;
      if (style.overflow !== "visible" || style.clip !== "auto" || style.clipPath !== "none")
        clips.push(box.getBoundingClientRect());
    }
    const range = document.createRange();
    range.selectNodeContents(node);
    const rects = [...range.getClientRects()];
    if (rects.length > 4 && node.data.trim().length < 3 * rects.length) faults.add(`squeezed: ${words(node.data)}`);
    const panel = parent.closest(".panel")?.getBoundingClientRect();
    for (const rect of rects) {
      const rim = rect.height * 0.16; // a line's box is higher than its letters
      const line = { node, layer, left: rect.left, right: rect.right, top: rect.top + rim, bottom: rect.bottom - rim };
      for (const clip of clips) {
        line.left = Math.max(line.left, clip.left);
        line.right = Math.min(line.right, clip.right);
        line.top = Math.max(line.top, clip.top);
        line.bottom = Math.min(line.bottom, clip.bottom);
      }
      if (line.right - line.left <= 2 || line.bottom - line.top <= 2) continue;
      if (panel && line.right > panel.right + 1) faults.add(`beyond its panel: ${words(node.data)}`);
      lines.push(line);
    }
  }

  // Two of them in one place.
  lines.sort((one, other) => one.top - other.top);
  lines.forEach((one, place) => {
    for (let next = place + 1; next < lines.length && lines[next].top < one.bottom - 2; next++) {
      const other = lines[next];
      if (other.node === one.node || other.layer !== one.layer) continue;
      const width = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const height = Math.min(one.bottom, other.bottom) - other.top;
      if (width > 2 && height > 2) faults.add(`overprinted: ${words(one.node.data)} | ${words(other.node.data)}`);
    }
  });

  // Text that goes on where its box ends, without an ellipsis.
  for (const box of document.body.querySelectorAll("*")) {
    const style = getComputedStyle(box);
    if (!/hidden|clip/.test(style.overflow) || box.matches(".sr-only") || box.clientWidth < 2 || !box.innerText?.trim() || !seen(box)) continue;
    const wide = /hidden|clip/.test(style.overflowX) && box.scrollWidth > box.clientWidth + 1;
    if (wide && style.textOverflow !== "ellipsis") faults.add(`cut: ${words(box.innerText)}`);
    const clamped = style.webkitLineClamp !== "none";
    if (/hidden|clip/.test(style.overflowY) && !clamped && box.scrollHeight > box.clientHeight + 2)
      faults.add(`cut below: ${words(box.innerText)}`);
  }

  // A sign that stands on a line of its own above the words that it belongs to.
  for (const sign of document.body.querySelectorAll("p > svg[width='12'], h3 > svg[width='12']")) {
    const range = document.createRange();
    range.setStartAfter(sign);
    range.setEndAfter(sign.parentElement.lastChild);
    const first = [...range.getClientRects()].find((rect) => rect.width > 2);
    if (seen(sign) && first && first.top >= sign.getBoundingClientRect().bottom - 2)
      faults.add(`a sign above its words: ${words(sign.parentElement.innerText)}`);
  }
  return [...faults];
}
